// Targets of kind c: sources, compilers that fail, agreement with the interpreter and with LLVM.
#include <gmock/gmock.h>

#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

Target C(const std::string& options = "") { return Target::Parse("c" + options).value(); }

constexpr std::string_view kAdd =
    R"(func add(a: f32[4, 8] input, w: f32[8] constant, c: f32[4, 8] output) {
  alloc t: f32[8]
  for k in 8 { block twice(u: S 8 = k) { t[u] = w[u] * 2.0 } }
  for i in 4 parallel { for j in 8 vectorized { block x(v: S 4 = i, z: S 8 = j) { c[v, z] = max(a[v, z] + t[z], 0.0) } } }
})";

TEST(CTarget, Add) {
  auto object = Compile(Parse(kAdd), C());
  ASSERT_TRUE(object.ok()) << object.error().Text();
  AgreesWithInterpreter(Parse(kAdd), 1, C());
  object = Compile(Parse(kAdd), C(" -vectors=none"));
  ASSERT_TRUE(object.ok()) << object.error().Text();
  AgreesWithInterpreter(Parse(kAdd), 1, C(" -vectors=none"));
}

}  // namespace
}  // namespace autotune
