// form_dots: annotated loops become dot products where the target has them, and compute the same everywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/interp.h"
#include "ir/text.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "support/rng.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

const char kVnni[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4";
const char kWithout[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver3";

// y[m, n] = c[n] plus the products of rows of a with columns of b, whose steps lie in groups. `value`: what is added.
std::string Program(const std::string& value = "i32(a[vm, vq * 4 + vk]) * i32(b[vq, vn, vk])", int group = 4) {
  return "func f(a: u8[3, 8] input, b: i8[2, 16, 4] input, c: i32[16] input, y: i32[3, 16] output) {"
         " for i in 3 { for j in 16 { block first(vi: S 3 = i, vj: S 16 = j) { y[vi, vj] = c[vj] } } }"
         " for m in 3 { for q in 2 { for n in 16 vectorized { for k in " +
         std::to_string(group) +
         " @{dot=1} { block add(vm: S 3 = m, vn: S 16 = n, vq: R 2 = q, vk: R 4 = k) { y[vm, vn] = y[vm, vn] + " +
         value + " } } } } } }";
}

std::vector<InterpArray> Arguments(const PrimFunc& f) {
  Rng rng(2);
  std::vector<InterpArray> args;
  for (const Param& param : f.params) {
    InterpArray array{param.buffer->dtype, ConstShape(param.buffer), {}};
    const int64_t low = array.dtype.IsSigned() || array.dtype.IsFloat() ? -128 : 0;  // exact, also as bf16
    for (int64_t i = 0; i < ElementsOf(param.buffer); ++i)
      array.data.push_back(static_cast<double>(low + static_cast<int64_t>(rng.Below(256))));
    args.push_back(std::move(array));
  }
  return args;
}

// Lowers the program and returns how many dot products it has. Expects the results of the interpreter.
int DotsOf(const std::string& text, const char* target) {
  const PrimFunc f = test::Parse(text);
  std::vector<InterpArray> want = Arguments(f), got = want;
  EXPECT_TRUE(Interpret(f, want).ok());
  const auto kernel = Lower(f, Target::Parse(target).value(), {});
  if (!kernel.ok()) return ADD_FAILURE() << kernel.error().Text(), -1;
  for (size_t i = 0; i < got.size(); ++i) got[i].shape = ConstShape(kernel->run.params[i].buffer);
  const Status ran = Interpret(kernel->run, got);
  EXPECT_TRUE(ran.ok()) << ran.error().Text();
  EXPECT_EQ(got.back().data, want.back().data) << ToText(kernel->run);
  int dots = 0;
  Walk(kernel->run.body, nullptr, [&](const Expr& e) {
    const Call* call = e.As<Call>();
    dots += call && call->op == Op::kDot;
    return true;
  });
  return dots;
}

TEST(FormDots, LoopsOverGroupsBecomeDotProducts) {
  EXPECT_EQ(DotsOf(Program(), kVnni), 1);
  EXPECT_EQ(DotsOf(Program(), kWithout), 0);
  EXPECT_EQ(DotsOf(Program("i32(b[vq, vn, vk]) * i32(a[vm, vq * 4 + vk])"), kVnni), 1) << "the other way round";
  EXPECT_EQ(DotsOf(Program("i32(b[vq, vn, vk]) * i32(b[1 - vq, vn, vk])"), kVnni), 1)
      << "a group for each lane of both";
}

// Two numbers of 4 bits a byte: the halves of the bytes of a group are two groups.
TEST(FormDots, PartsOfBytesBecomeDotProducts) {
  const auto of = [](const std::string& part, const std::string& other = "i32(b[vq, vn, vk])") {
    const std::string value = "i32(" + part + ") * " + other;
    return "func f(w: u8[2, 16, 4] input, b: i8[2, 16, 4] input, c: i32[16] input, y: i32[3, 16] output) {"
           " for i in 3 { for j in 16 { block first(vi: S 3 = i, vj: S 16 = j) { y[vi, vj] = c[vj] } } }"
           " for m in 3 { for q in 2 { for n in 16 vectorized { for k in 4 @{dot=1} {"
           " block add(vm: S 3 = m, vn: S 16 = n, vq: R 2 = q, vk: R 4 = k) { y[vm, vn] = y[vm, vn] + " +
           value + " } } } } } }";
  };
  EXPECT_EQ(DotsOf(of("w[vq, vn, vk] & 15u8"), kVnni), 1);
  EXPECT_EQ(DotsOf(of("(w[vq, vn, vk] >> 4u8) & 15u8"), kVnni), 1);
  EXPECT_EQ(DotsOf(of("(w[vq, vn, vk] >> u8(vq * 4)) & 15u8"), kVnni), 1);
  EXPECT_EQ(DotsOf(of("(w[vq, vn, vk] >> 4u8) & 15u8"), kWithout), 0);
  EXPECT_EQ(DotsOf(of("(w[vq, vn, vk] >> u8(vk)) & 15u8"), kVnni), 0) << "another part for each step";
  EXPECT_EQ(DotsOf(of("(w[vq, vn, 3 - vk] >> 4u8) & 15u8"), kVnni), 0) << "backwards";
  EXPECT_EQ(DotsOf(of("w[vq, vn, vk] + 15u8"), kVnni), 0) << "no part of it";
}

// The same for bf16, whose steps lie in pairs.
std::string Bf16Program(const std::string& value = "fma(f32(a[vm, vq * 2 + vk]), f32(b[vq, vn, vk]), y[vm, vn])") {
  return "func f(a: bf16[3, 8] input, b: bf16[4, 16, 2] input, c: f32[16] input, y: f32[3, 16] output) {"
         " for i in 3 { for j in 16 { block first(vi: S 3 = i, vj: S 16 = j) { y[vi, vj] = c[vj] } } }"
         " for m in 3 { for q in 4 { for n in 16 vectorized { for k in 2 @{dot=1} { block add(vm: S 3 = m, vn: S 16 = "
         "n, vq: R 4 = q, vk: R 2 = k) { y[vm, vn] = " +
         value + " } } } } } }";
}

TEST(FormDots, PairsOfBf16BecomeDotProducts) {
  EXPECT_EQ(DotsOf(Bf16Program(), kVnni), 1);
  EXPECT_EQ(DotsOf(Bf16Program("y[vm, vn] + f32(a[vm, vq * 2 + vk]) * f32(b[vq, vn, vk])"), kVnni), 1);
  EXPECT_EQ(DotsOf(Bf16Program("f32(a[vm, vq * 2 + vk]) * f32(b[vq, vn, vk]) + y[vm, vn]"), kVnni), 1);
  EXPECT_EQ(DotsOf(Bf16Program(), kWithout), 0);
  EXPECT_EQ(DotsOf(Bf16Program(), "llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server"), 0) << "it has bytes only";
  EXPECT_EQ(DotsOf(Bf16Program("fma(f32(a[vm, vq * 2 + 1 - vk]), f32(b[vq, vn, vk]), y[vm, vn])"), kVnni), 0);
  EXPECT_EQ(DotsOf(Bf16Program("fma(f32(a[vm, vq * 2 + vk]), f32(b[vq, vn, vk]), c[vn])"), kVnni), 0) << "no sum";
}

// The same for words.
std::string WordsProgram(const std::string& value = "i32(a[vm, vq * 2 + vk]) * i32(b[vq, vn, vk])",
                         const std::string& b = "i16") {
  return "func f(a: i16[3, 8] input, b: " + b +
         "[4, 16, 2] input, c: i32[16] input, y: i32[3, 16] output) {"
         " for i in 3 { for j in 16 { block first(vi: S 3 = i, vj: S 16 = j) { y[vi, vj] = c[vj] } } }"
         " for m in 3 { for q in 4 { for n in 16 vectorized { for k in 2 @{dot=1} { block add(vm: S 3 = m, vn: S 16 = "
         "n, vq: R 4 = q, vk: R 2 = k) { y[vm, vn] = y[vm, vn] + " +
         value + " } } } } } }";
}

TEST(FormDots, PairsOfWordsBecomeDotProducts) {
  const char kSkylake[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512";
  EXPECT_EQ(DotsOf(WordsProgram(), kSkylake), 1);
  EXPECT_EQ(DotsOf(WordsProgram("i32(b[vq, vn, vk]) * i32(a[vm, vq * 2 + vk])"), kSkylake), 1) << "the other way round";
  EXPECT_EQ(DotsOf(WordsProgram(), kVnni), 0) << "it multiplies bytes";
  EXPECT_EQ(DotsOf(WordsProgram(), kWithout), 2) << "16 sums are two vectors";
  EXPECT_EQ(DotsOf(WordsProgram(), "llvm -mtriple=x86_64-linux-gnu -mcpu=sandybridge"), 0) << "of floats only";
  EXPECT_EQ(DotsOf(WordsProgram(), "llvm -mtriple=x86_64-linux-gnu -mcpu=knl"), 0) << "it has no vectors of words";
  EXPECT_EQ(DotsOf(WordsProgram("i32(a[vm, vq * 2 + 1 - vk]) * i32(b[vq, vn, vk])"), kSkylake), 0) << "backwards";
  EXPECT_EQ(DotsOf(WordsProgram("i32(a[vm, vq * 2 + vk]) * i32(b[vq, vn, vk])", "i8"), kSkylake), 0) << "bytes";
}

TEST(FormDots, OtherLoopsStayAndComputeTheSame) {
  for (const char* value : {"i32(a[vm, vq * 4 + 3 - vk]) * i32(b[vq, vn, vk])",  // backwards
                            "i32(a[vm, vk * 2 + vq]) * i32(b[vq, vn, vk])",      // not side by side
                            "i32(a[vm, vq * 4]) * i32(b[vq, vn, vk])",           // the same for all steps
                            "i32(a[vm, vq * 4 + vk]) * i32(b[vq, vk * 4, vk])",  // the same for all lanes
                            "i32(a[vm, vq * 4 + vk]) * c[vn]",                   // no bytes
                            "i32(a[vm, vq * 4 + vk]) + i32(b[vq, vn, vk])"})     // no product
    EXPECT_EQ(DotsOf(Program(value), kVnni), 0) << value;
}

TEST(VerifyTiles, RefusesLoopsThatAreNoProductAnyMore) {
  const auto lowered = [](const std::string& at, const char* target) {
    const PrimFunc f = test::Parse(
        "func f(a: u8[16, 8] input, b: i8[2, 16, 4] input, y: i32[16, 16] output) { for i0 in 16 { for j0 in 16 { "
        "block "
        "first(vi: S 16 = i0, vj: S 16 = j0) { y[vi, vj] = 0i32 } } } for q in 2 @{tiles=1} { for m in 16 { for n in "
        "16 "
        "{ for k in 4 { block add(vm: S 16 = m, vn: S 16 = n, vq: R 2 = q, vk: R 4 = k) { y[vm, vn] = y[vm, vn] + "
        "i32(a[" +
        at + ", vq * 4 + vk]) * i32(b[vq, vn, vk]) } } } } } }");
    const auto kernel = Lower(f, Target::Parse(target).value(), {});
    return kernel.ok() ? "" : kernel.error().Text();
  };
  const char kAmx[] = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids";
  EXPECT_EQ(lowered("vm", kAmx), "");
  EXPECT_THAT(lowered("min(vm, 14)", kAmx), ::testing::HasSubstr("loop q is annotated as a product of tiles, but"));
  EXPECT_EQ(lowered("min(vm, 14)", kVnni), "") << "they are loops like any others";
}

}  // namespace
}  // namespace autotune
