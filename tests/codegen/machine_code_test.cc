#include "codegen/machine_code.h"

#include <gtest/gtest.h>

#include <numeric>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "lower/lower.h"

namespace autotune {
namespace {

Operation OperationOf(const std::string& text, const std::string& triple) {
  return ClassifyInstruction(text, triple).operation;
}

TEST(ClassifyInstruction, KnowsX86) {
  auto x86 = [](const std::string& text) { return OperationOf(text, "x86_64-linux-gnu"); };
  EXPECT_EQ(x86("vfmadd231ps %zmm20, %zmm24, %zmm19"), Operation::kVectorArithmetic);
  EXPECT_EQ(x86("vpaddd (%rax), %ymm1, %ymm2"), Operation::kVectorArithmetic);
  EXPECT_EQ(x86("vfmadd231ss (%rax), %xmm1, %xmm2"), Operation::kScalarArithmetic);
  EXPECT_EQ(x86("mulsd %xmm1, %xmm2"), Operation::kScalarArithmetic);
  EXPECT_EQ(x86("vinsertps $16, 2048(%rax), %xmm0, %xmm0"), Operation::kLane);
  EXPECT_EQ(x86("vgatherdps (%rax,%ymm1), %ymm2, %ymm0"), Operation::kLane);
  EXPECT_EQ(x86("vmovss (%rax), %xmm0"), Operation::kLane);
  EXPECT_EQ(x86("vmovaps (%rax), %zmm0"), Operation::kMove);
  EXPECT_EQ(x86("vbroadcastss (%rsi,%rcx,4), %zmm24"), Operation::kMove);
  EXPECT_EQ(x86("movq %rax, %rbx"), Operation::kMove);
  EXPECT_EQ(x86("imulq $12, %rax, %rbx"), Operation::kInteger);
  EXPECT_EQ(x86("jb 0x120"), Operation::kJump);
  EXPECT_TRUE(ClassifyInstruction("vmovups %zmm3, -64(%rsp)", "x86_64-linux-gnu").stack);
  EXPECT_FALSE(ClassifyInstruction("vmovups %zmm3, -64(%rsp,%rax)", "x86_64-linux-gnu").stack);
}

TEST(ClassifyInstruction, KnowsArmAndRiscv) {
  auto arm = [](const std::string& text) { return OperationOf(text, "aarch64-linux-gnu"); };
  EXPECT_EQ(arm("fmla v0.4s, v1.4s, v2.s[0]"), Operation::kVectorArithmetic);
  EXPECT_EQ(arm("fmadd s0, s1, s2, s0"), Operation::kScalarArithmetic);
  EXPECT_EQ(arm("ld1 { v0.s }[1], [x0]"), Operation::kLane);
  EXPECT_EQ(arm("ldr q0, [x0]"), Operation::kMove);
  EXPECT_EQ(arm("add x0, x1, #16"), Operation::kInteger);
  EXPECT_EQ(arm("b.lo 0x40"), Operation::kJump);
  EXPECT_TRUE(ClassifyInstruction("str q1, [sp, #32]", "aarch64-linux-gnu").stack);
  auto riscv = [](const std::string& text) { return OperationOf(text, "riscv64-linux-gnu"); };
  EXPECT_EQ(riscv("fmadd.s fa0, fa1, fa2, fa0"), Operation::kScalarArithmetic);
  EXPECT_EQ(riscv("vfmacc.vf v8, fa0, v16"), Operation::kVectorArithmetic);
  EXPECT_EQ(riscv("flw fa0, 0(a0)"), Operation::kMove);
  EXPECT_EQ(riscv("bne a0, a1, -32"), Operation::kJump);
}

// y[i, j] = x[i, j] + x[i, j], with vectors of 8 columns, on all cores.
constexpr const char* kTwice =
    "func twice(x: f32[64, 64] input, y: f32[64, 64] output) {\n"
    "  for i in 64 parallel { for j in 8 { for v in 8 vectorized {\n"
    "    block twice(a: S 64 = i, b: S 64 = j * 8 + v) { y[a, b] = x[a, b] + x[a, b] }\n"
    "  } } }\n"
    "}\n";

Result<std::vector<CodeRegion>> CodeOfTwice(const std::string& target_text) {
  const Target target = TRY(Target::Parse(target_text));
  const KernelObject object = TRY(CompileKernel(TRY(Lower(TRY(ParsePrimFunc(kTwice)), target)), target));
  const LinkedKernels linked = TRY(LinkKernels({&object}, target));
  return MachineCodeOf(linked.artifact.data, "twice.raw", target);
}

TEST(MachineCode, FindsTheLoopOfAParallelBody) {
  for (const std::string target : {"llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=4",
                                   "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=4"}) {
    const Result<std::vector<CodeRegion>> code = CodeOfTwice(target);
    ASSERT_TRUE(code.ok()) << code.error().Text();
    int vector_loops = 0;
    for (const CodeRegion& region : *code) {
      int additions = 0;
      for (const Instruction& i : region.instructions) additions += i.operation == Operation::kVectorArithmetic;
      vector_loops += region.depth > 0 && additions > 0;
    }
    EXPECT_GE(vector_loops, 1) << target;
  }
}

TEST(MachineCode, CountsAddressesByRegion) {
  const std::vector<CodeRegion> code = CodeOfTwice("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3").value();
  const std::vector<uint64_t> addresses{code[0].instructions[0].address, code[0].instructions[0].address, ~uint64_t{0}};
  const std::vector<int64_t> counts = CountByRegion(code, addresses);
  ASSERT_EQ(counts.size(), code.size());
  EXPECT_EQ(counts[0], 2);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 2);
}

TEST(MachineCode, RefusesWhatIsNoLibrary) {
  const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3").value();
  EXPECT_FALSE(MachineCodeOf("no library", "twice.raw", target).ok());
  const KernelObject object = CompileKernel(Lower(ParsePrimFunc(kTwice).value(), target).value(), target).value();
  const LinkedKernels linked = LinkKernels({&object}, target).value();
  EXPECT_FALSE(MachineCodeOf(linked.artifact.data, "thrice.raw", target).ok());
}

}  // namespace
}  // namespace autotune
