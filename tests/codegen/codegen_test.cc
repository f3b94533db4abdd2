#include "codegen/codegen.h"

#include "tests/codegen/kernel.h"

namespace autotune {
namespace {

constexpr std::string_view kMatmul = R"(func matmul(a: f32[7, 5] input, b: f32[5, 9] constant, c: f32[7, 9] output) {
  for i in 7 {
    for j in 9 {
      for k in 5 {
        block mm(vi: S 7 = i, vj: S 9 = j, vk: R 5 = k) {
          init {
            c[vi, vj] = 0.0
          }
          c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]
        }
      }
    }
  }
}
)";

TEST(Codegen, UnscheduledMatmul) { AgreesWithInterpreter(Parse(kMatmul)); }

// Registers read under a condition stay registers: there is nothing to protect.
TEST(Codegen, RegistersUnderAConditionStayRegisters) {
  PrimFunc f = Parse(R"(func f(a: f32[13] input, c: f32[13] output) {
    alloc r: f32[13] register
    for i in 13 vectorized { block x(v: S 13 = i) { r[v] = a[v] * 2.0 } }
    for j in 8 vectorized { block y(w: S 8 = j) { c[w] = select(a[w] > 0.0, r[w], a[w] + 1.0) } }
    for k in 5 unrolled { block z(u: S 5 = k) { c[u + 8] = select(a[u] > 0.0, r[12 - u], 3.0) } }
  })");
  AgreesWithInterpreter(f);
  // The contract can be broken still: by vectors that overlap in part.
  auto overlap = Build(Parse(R"(func g(a: f32[12] input, c: f32[12] output) {
    alloc r: f32[12] register
    for i in 12 vectorized { block x(v: S 12 = i) { r[v] = a[v] } }
    for j in 8 vectorized { block y(w: S 8 = j) { c[w] = r[w + 4] } }
    for k in 4 { block z(u: S 4 = k) { c[u + 8] = 1.0 } }
  })"));
  ASSERT_FALSE(overlap.ok());
  EXPECT_NE(overlap.error().Text().find("rejected: register buffer r did not fit"), std::string::npos)
      << overlap.error().Text();
}

}  // namespace
}  // namespace autotune
