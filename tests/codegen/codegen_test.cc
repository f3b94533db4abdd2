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

}  // namespace
}  // namespace autotune
