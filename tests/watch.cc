// In the test binaries that tests/CMakeLists.txt lists: the programs that are made are checked (ir/watch.h), also in
// processes that are test binaries themselves, such as build workers. All would cost as much as the tests, of which
// some make a hundred thousand: so the first thousand of each process are checked, then one of sixteen.
#include "ir/watch.h"

namespace autotune {
namespace {

void CheckSome(const std::string& where, const PrimFunc& f) {
  static std::atomic<uint64_t> count = 0;
  uint64_t n = count.fetch_add(1, std::memory_order_relaxed);
  if (n < 1000 || n % 16 == 0) CheckProgram(where, f);
}

[[maybe_unused]] const bool installed = [] {
  program_watcher = CheckSome;
  return true;
}();

}  // namespace
}  // namespace autotune
