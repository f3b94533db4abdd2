// Tensor core products. The interpreter gathers a warp's lanes by the tables of the PTX ISA, which this test states
// independently. Other calls of mma, and products that not all threads of a warp reach together, are refused.
#include "ir/mma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/float_math.h"
#include "ir/interp.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

using ::testing::HasSubstr;

// Returns a program in which each thread loads its `a` elements of the first matrix, its `b` elements of the second and
// its four sums from memory, and calls mma. `threads` replaces the loops over threads, `product` the call of mma, and
// `around` opens a statement around the call.
std::string Program(const std::string& type, int a, int b, const std::string& threads = "",
                    const std::string& product = "", const std::string& around = "") {
  const std::string A = std::to_string(a), B = std::to_string(b);
  const std::string mma =
      product.empty() ? "c[ramp(0, 1, 4)] = mma(c[ramp(0, 1, 4)], ra[ramp(0, 1, " + A + ")], rb[ramp(0, 1, " + B + ")])"
                      : product;
  return "func f(pa: " + type + "[" + std::to_string(64 * a) + "] input, pb: " + type + "[" + std::to_string(64 * b) +
         "] input, pc: f32[256] input, out: f32[256] output) {\n for by in 1 blockIdx.x {\n" +
         (threads.empty() ? "for z in 2 threadIdx.z { for y in 8 threadIdx.y { for x in 4 threadIdx.x {" : threads) +
         " let t = z * 32 + y * 4 + x\n local ra: " + type + "[" + A + "] register\n local rb: " + type + "[" + B +
         "] register\n local c: f32[4] register\n for i in " + A + " { ra[i] = pa[t * " + A + " + i] }\n for j in " +
         B + " { rb[j] = pb[t * " + B + " + j] }\n for k in 4 { c[k] = pc[t * 4 + k] }\n" + around + mma +
         (around.empty() ? "\n" : " }\n") + " for l in 4 { out[t * 4 + l] = c[l] }\n } } } } }";
}

std::string Wrong(const std::string& text) {
  const PrimFunc f = test::Parse(text);
  const Status verified = Verify(f);
  return verified.ok() ? "" : verified.error().Text();
}

struct Kind {
  const char* type;
  int a, b, k;
};
constexpr Kind kKinds[] = {{"f32", 4, 2, 8}, {"f16", 8, 4, 16}, {"bf16", 8, 4, 16}};

TEST(Mma, LanesHoldWhatThePtxIsaSays) {
  for (const Kind& kind : kKinds) {
    const PrimFunc f = test::Parse(Program(kind.type, kind.a, kind.b));
    EXPECT_EQ(FirstMismatch(f, ParsePrimFunc(ToText(f)).value()), "");
    ASSERT_TRUE(Verify(f).ok());
    const DType type = *DType::Parse(kind.type);
    Rng rng(3);
    auto random = [&](DType dtype, int64_t count) {
      InterpArray array{dtype, {count}, {}};
      for (int64_t i = 0; i < count; ++i) array.data.push_back(static_cast<double>(rng.Below(9)) - 4);
      return array;
    };
    std::vector<InterpArray> args{random(type, 64 * kind.a),
                                  random(type, 64 * kind.b),
                                  random(DType::Float(32), 256),
                                  {DType::Float(32), {256}, {}}};
    for (uint64_t seed : {0, 1, 2}) {
      const Status ran = Interpret(f, args, {.order_seed = seed});
      ASSERT_TRUE(ran.ok()) << ran.error().Text();
      for (int lane = 0; lane < 64; ++lane) {
        for (int e = 0; e < 4; ++e) {
          const int warp = lane / 32 * 32, row = lane % 32 / 4 + (e < 2 ? 0 : 8), column = lane % 4 * 2 + e % 2;
          double want = args[2].data[lane * 4 + e];
          for (int k = 0; k < kind.k; ++k) {
            // By the PTX ISA, groupID is the row or column; k determines threadID_in_group and the element.
            const int per = kind.k / 8, quad = k % (4 * per) / per, low = k % per, far = k / (4 * per);
            const int in_a = per == 1 ? (row / 8) + 2 * far : low + 2 * (row / 8) + 4 * far;
            const int in_b = per == 1 ? far : low + 2 * far;
            want += args[0].data[(warp + row % 8 * 4 + quad) * kind.a + in_a] *
                    args[1].data[(warp + column * 4 + quad) * kind.b + in_b];
          }
          ASSERT_EQ(args[3].data[lane * 4 + e], want) << kind.type << " lane " << lane << " element " << e;
        }
      }
    }
  }
}

TEST(Mma, OtherMatricesAreRefused) {
  EXPECT_EQ(Wrong(Program("f16", 8, 4)), "");
  EXPECT_THAT(Wrong(Program("f16", 4, 2)), HasSubstr("matrices that tensor cores do not multiply"));
  EXPECT_THAT(Wrong(Program("f64", 4, 2)), HasSubstr("matrices that tensor cores do not multiply"));
  EXPECT_THAT(Wrong(Program("f32", 4, 2, "",
                            "c[ramp(0, 1, 4)] = mma(c[ramp(0, 1, 4)], ra[ramp(0, 1, 4)], rb[ramp(0, 1, 2)]) + "
                            "broadcast(1.0, 4)")),
              HasSubstr("only the whole value of a store is a product of tensor cores"));
}

TEST(Mma, WholeWarpsComeTogether) {
  EXPECT_THAT(Wrong(Program("f32", 4, 2, "for z in 1 threadIdx.z { for y in 4 threadIdx.y { for x in 4 threadIdx.x {")),
              HasSubstr("a product of tensor cores by 16 threads, which are not whole warps"));
  EXPECT_THAT(Wrong(Program("f32", 4, 2, "for z in 2 { for y in 8 { for x in 4 {")),
              HasSubstr("a product of tensor cores outside of loops over threads"));
  const PrimFunc divergent = test::Parse(Program("f32", 4, 2, "", "", "if y < 4 { "));
  std::vector<InterpArray> args{{DType::Float(32), {256}, std::vector<double>(256)},
                                {DType::Float(32), {128}, std::vector<double>(128)},
                                {DType::Float(32), {256}, std::vector<double>(256)},
                                {DType::Float(32), {256}, {}}};
  const Status ran = Interpret(divergent, args);
  ASSERT_FALSE(ran.ok());
  EXPECT_THAT(ran.error().Text(), HasSubstr("divergence"));
}

TEST(Mma, Tf32IsForF32) {
  EXPECT_THAT(
      Wrong("func f(x: f64[4] input, y: f64[4] output) { for i in 4 { block b(v: S 4 = i) { y[v] = tf32(x[v]) } } }"),
      HasSubstr("tf32 is for f32"));
}

}  // namespace
}  // namespace autotune
