// The constants of packages. The tensors take at most as many bytes as the file, and writing and reading them back
// gives the same bytes.
#include "runtime/params.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(params) {
  auto params = ParseParams(input);
  if (!params.ok()) return;
  std::string bytes = ParamsBytes(*params);
  auto again = ParseParams(bytes);
  CHECK(again.ok()) << again.error().Text();
  CHECK(ParamsBytes(*again) == bytes);
  int64_t held = 0;
  for (const auto& [name, tensor] : *params) held += tensor.num_bytes();
  CHECK(held <= static_cast<int64_t>(input.size()));
}

}  // namespace autotune
