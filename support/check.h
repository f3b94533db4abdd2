// CHECK: assertions about our own code. A failing CHECK throws InternalError, which ends at one of three places: the
// job loop of a build worker, the run of a candidate (rpc/runner.cc), or main. Never use it for bad input, which Result
// reports. Thread-safe.
#pragma once
#include <sstream>
#include <stdexcept>

namespace autotune {

struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

namespace detail {
struct CheckFailure {
  CheckFailure(const char* file, int line, const char* condition) {
    text << file << ":" << line << ": internal error: " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() noexcept(false) { throw InternalError(text.str()); }
  std::ostream& stream() { return text; }
  std::ostringstream text;
};
struct Voidify {
  void operator&(std::ostream&) {}
};
}  // namespace detail
}  // namespace autotune

#define CHECK(condition) \
  (condition)            \
      ? (void)0          \
      : ::autotune::detail::Voidify() & ::autotune::detail::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define UNREACHABLE() CHECK(false)
