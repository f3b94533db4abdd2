// In the test binaries that tests/CMakeLists.txt lists: the programs that are made are checked (ir/watch.h), also in
// the processes that these start, such as build workers.
#include "ir/watch.h"

#include <cstdlib>

namespace autotune {
namespace {

[[maybe_unused]] const bool installed = [] {
  setenv("AUTOTUNE_VERIFY", "some", 0);
  program_watcher = WatcherFor(getenv("AUTOTUNE_VERIFY"));
  return true;
}();

}  // namespace
}  // namespace autotune
