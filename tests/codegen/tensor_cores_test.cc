// Tensor core products as PTX: each operand type uses its instruction, ptxas accepts the code where it is installed,
// and the code, run on this machine with fibers as threads, agrees with the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <regex>

#include "ir/float_math.h"
#include "support/rng.h"
#include "tests/codegen/gpu_on_host.h"
#include "tests/codegen/kernel.h"
#include "tests/codegen/ptxas.h"
#include "tests/ir/random_program.h"
#include "tests/lower/mma_program.h"

namespace autotune {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Target Cuda(const std::string& arch) {
  return Target::Parse("cuda -arch=" + arch + " -mtriple=x86_64-linux-gnu -tf32=1").value();
}

const std::map<std::string, std::string> kInstructions = {
    {"f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"},
    {"f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
    {"bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"}};

TEST(TensorCoreCode, HasTheInstructionAndStaysInRegisters) {
  for (const auto& [type, instruction] : kInstructions) {
    const PrimFunc f = Parse(test::MmaProgramText(type));
    for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90"}) {
      const KernelObject object = Compile(f, Cuda(arch)).value();
      ASSERT_EQ(object.rejected, "");
      EXPECT_THAT(object.source, HasSubstr(instruction));
      EXPECT_THAT(object.source, Not(HasSubstr(".local")));
      EXPECT_EQ(object.source.find("cvt.rna.tf32.f32") != std::string::npos, type == "f32") << object.source;
      EXPECT_EQ(test::PtxasComplaint(object.source, arch), "") << object.source;
    }
  }
}

// One load reads two 16-bit numbers that are neighbours along the sum.
TEST(TensorCoreCode, NeighboursAreLoadedTogether) {
  auto wide = [](bool transposed) {
    const std::string ptx = Compile(Parse(test::MmaProgramText("f16", transposed)), Cuda("sm_80")).value().source;
    int count = 0;
    for (size_t at = 0; (at = ptx.find("ld.shared.b32", at)) != std::string::npos; ++at) ++count;
    for (size_t at = 0; (at = ptx.find("ld.shared.u32", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(wide(false), 8) << "only the elements of a are neighbours along the sum";
  EXPECT_EQ(wide(true), 10) << "the elements of both operands are neighbours along the sum";
}

TEST(TensorCoreCode, EqualsTheInterpreterOnThisMachine) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  for (const auto& [type, instruction] : kInstructions) {
    for (bool transposed : {false, true}) {
      const PrimFunc f = Parse(test::MmaProgramText(type, transposed));
      const KernelObject object = Compile(f, Cuda("sm_80"), {.keep_assembly = true}).value();
      ASSERT_EQ(object.rejected, "");
      auto library = test::GpuOnHost::Make(object);
      ASSERT_TRUE(library.ok()) << library.error().Text();
      for (uint64_t seed = 1; seed < 4; ++seed) {
        std::vector<InterpArray> got = test::RandomArgs(f, seed), want = got;
        ASSERT_TRUE(Interpret(f, want).ok());
        ASSERT_TRUE((*library)->Run(f, got, seed).ok());
        EXPECT_EQ(got.back().data, want.back().data) << type << transposed;
      }
    }
  }
}

// The comparison can fail: swapping two operands of an instruction gives another result.
TEST(TensorCoreCode, AWrongElementShows) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  const PrimFunc f = Parse(test::MmaProgramText("f16"));
  KernelObject object = Compile(f, Cuda("sm_80"), {.keep_assembly = true}).value();
  const std::regex call(R"((m16n8k16\.row\.col\.f32\.f32\()(<2 x half> %\w+), (<2 x half> %\w+),)");
  ASSERT_TRUE(std::regex_search(object.llvm_ir, call)) << object.llvm_ir;
  object.llvm_ir = std::regex_replace(object.llvm_ir, call, "$1$3, $2,");
  std::vector<InterpArray> got = test::RandomArgs(f, 3), want = got;
  ASSERT_TRUE(Interpret(f, want).ok());
  ASSERT_TRUE(test::GpuOnHost::Make(object).value()->Run(f, got, 1).ok());
  EXPECT_NE(got.back().data, want.back().data);
}

// cvt.rna.tf32 and the arithmetic that replaces it on other targets round as the interpreter does, including ties and
// special values.
TEST(TensorCoreCode, RoundsToTf32AsTheInterpreterDoes) {
  if (!Cpu().has_fma) GTEST_SKIP() << "this machine has no fma";
  const PrimFunc f = Parse(
      "func round(x: f32[256] input, y: f32[256] output) {"
      "  for i in 256 { block b(v: S 256 = i) { y[v] = tf32(x[v]) } } }");
  Rng rng(1);
  std::vector<InterpArray> args{{DType::Float(32), {256}, {}}, {DType::Float(32), {256}, std::vector<double>(256)}};
  for (double x : {0.0, -0.0, 1.0 + 0x1p-11, -1.0 - 0x1p-11, 1.0 + 0x1p-12, 1.0 + 0x1.8p-11, 3.4028234e38, 1e-45,
                   static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN)})
    args[0].data.push_back(static_cast<float>(x));
  while (args[0].data.size() < 256)
    args[0].data.push_back(FloatFromBits(static_cast<uint64_t>(rng.Below(int64_t{1} << 32)), DType::Float(32)));
  std::vector<InterpArray> want = args, host = args, cpu = args;
  ASSERT_TRUE(Interpret(f, want).ok());
  EXPECT_EQ(want[1].data[2], 1.0 + 0x1p-10) << "ties go away from zero";
  EXPECT_EQ(want[1].data[3], -1.0 - 0x1p-10);
  EXPECT_EQ(want[1].data[4], 1.0);
  EXPECT_EQ(want[1].data[6], static_cast<double>(INFINITY));
  const KernelObject object = Compile(f, Cuda("sm_80"), {.keep_assembly = true}).value();
  ASSERT_TRUE(test::GpuOnHost::Make(object).value()->Run(f, host, 1).ok());
  const Built built = Build(f).value();
  ASSERT_TRUE(autotune::Run(built, f, cpu).ok());
  for (size_t i = 0; i < 256; ++i) {
    for (double got : {host[1].data[i], cpu[1].data[i]}) {
      if (std::isnan(want[1].data[i])) {
        EXPECT_TRUE(std::isnan(got)) << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want[1].data[i])) << args[0].data[i];
      }
    }
  }
}

}  // namespace
}  // namespace autotune
