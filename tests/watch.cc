// In the test binaries that tests/CMakeLists.txt lists, and in processes that these start, such as build workers:
// checks every program that is made (ir/watch.h).
#include "ir/watch.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace autotune {
namespace {

// Each test has its first programs checked, although several tests share a process.
struct RenewChecks : testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { RenewProgramChecks(); }
};

[[maybe_unused]] const bool installed = [] {
  setenv("AUTOTUNE_VERIFY", "some", 0);
  program_watcher = WatcherFor(getenv("AUTOTUNE_VERIFY"));
  testing::UnitTest::GetInstance()->listeners().Append(new RenewChecks);  // GoogleTest deletes it
  return true;
}();

}  // namespace
}  // namespace autotune
