// In the test binaries that tests/CMakeLists.txt lists, and in processes that these start, such as build workers:
// checks every program that is made (ir/watch.h).
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
