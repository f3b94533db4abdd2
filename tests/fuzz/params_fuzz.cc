// The constants of packages: read in place and as copies with the same verdict, written as they were.
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime/params.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(params) {
  auto params = ParseParams(input);
  std::shared_ptr<void> aligned(std::aligned_alloc(64, (input.size() + 64) / 64 * 64), std::free);
  std::memcpy(aligned.get(), input.data(), input.size());
  auto views = ViewParams({static_cast<const char*>(aligned.get()), input.size()}, aligned);
  CHECK(params.ok() == views.ok());
  if (!params.ok()) return;
  std::string bytes = ParamsBytes(*params);
  auto again = ParseParams(bytes);
  CHECK(again.ok()) << again.error().Text();
  CHECK(ParamsBytes(*again) == bytes);
  CHECK(ParamsBytes(*views) == bytes);
}

}  // namespace autotune
