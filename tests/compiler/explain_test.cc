// Explanations. Faults are planted by traces: the schedule and the code of the traced program must show the fault, and
// the default schedule of the same program must not. Nothing is run, so no verdict depends on this machine.
#include "compiler/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "codegen/codegen.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "te/create_prim_func.h"
#include "tests/read.h"
#include "tests/tuner/programs.h"
#include "topi/elementwise.h"
#include "topi/winograd.h"
#include "tuner/defaults.h"

namespace autotune {
namespace {

using test::TestTarget;
using ::testing::HasSubstr;

Target TargetOf(int cores) {
  Target target = TestTarget();
  target.num_cores = cores;
  return target;
}

// Compiles a schedule, even one that spills, and explains it by its schedule and its code.
Result<Explanation> ExplainSchedule(const PrimFunc& func, const std::string& trace, int threads) {
  const Target target = TargetOf(threads);
  PackagedKernel kernel{.name = "kernel", .alternative = "direct", .program = ToText(func), .trace = trace};
  Evidence evidence = TRY(EvidenceOf(kernel, target, threads));
  PrimFunc named = func;
  named.name = Name("kernel");
  const Schedule schedule = TRY(Replay(named, TRY(ParseTrace(trace))));
  KernelObject object = TRY(CompileKernel(TRY(Lower(schedule.func(), target)), target, {.keep_spills = true}));
  if (!object.rejected.empty()) return Err("rejected: ", object.rejected);
  const LinkedKernels linked = TRY(LinkKernels({&object}, target));
  evidence.code = CodeFactsOf(TRY(MachineCodeOf(linked.artifact.data, "kernel.raw", target)));
  return Explain(evidence);
}

// Explains the first default schedule that builds without spills.
Result<Explanation> ExplainDefault(const PrimFunc& func, int threads) {
  const Target target = TargetOf(threads);
  const TuneTask task = test::MakeTask("task", func);
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  for (const Proposal& proposal : DefaultCandidates(space)) {
    const Schedule schedule = TRY(Replay(func, proposal.trace));
    Result<LoweredKernel> lowered = Lower(schedule.func(), target);
    if (!lowered.ok() || !TRY(CompileKernel(*lowered, target)).rejected.empty()) continue;
    return ExplainSchedule(func, ToText(proposal.trace), threads);
  }
  return Err("no default schedule builds");
}

PrimFunc Activation(int64_t rows, int64_t columns) {
  te::Tensor x = te::Placeholder("x", {rows, columns});
  te::Tensor y = topi::Relu("relu", x);
  return te::CreatePrimFunc("relu", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

struct Planted {
  std::string name;
  PrimFunc func;
  std::string trace;
  Cause cause;
  std::string part;  // of the sentence
  int threads = 2;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

std::vector<Planted> Faults();

class Explained : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Faults, Explained, testing::ValuesIn(Faults()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Explained, APlantedFaultIsNamed) {
  const Planted& planted = GetParam();
  Result<Explanation> explained = ExplainSchedule(planted.func, planted.trace, planted.threads);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  EXPECT_EQ(explained->main.cause, planted.cause) << explained->main.sentence;
  EXPECT_THAT(explained->main.sentence, HasSubstr(planted.part));
  EXPECT_GT(explained->main.gain, 1.2);
}

TEST_P(Explained, TheDefaultScheduleHasNoSuchFault) {
  const Planted& planted = GetParam();
  Result<Explanation> explained = ExplainDefault(planted.func, planted.threads);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  EXPECT_THAT(explained->main.sentence, testing::Not(HasSubstr(planted.part)));
  if (explained->main.cause == planted.cause) {
    EXPECT_EQ(explained->main.gain, 1) << explained->main.sentence;
  }
  for (const Finding& other : explained->others) EXPECT_NE(other.cause, planted.cause) << other.sentence;
}

// ---- The code names no case

// Returns the parts of a source text that name a planted fault, a line of its trace, one of the networks that examples/
// makes, or a task's identifier. A verdict must follow from the evidence.
std::vector<std::string> CasesIn(const std::string& source) {
  std::vector<std::string> names, networks = {"resnet20"}, found;
  for (const Planted& planted : Faults()) {
    names.push_back(planted.name);
    std::istringstream trace(planted.trace);
    for (std::string line; std::getline(trace, line);) names.push_back(line);
  }
  for (const char* maker : {"make_nets.py", "transformer_nets.py"}) {
    const std::string text = test::ReadAll(std::string(AUTOTUNE_SOURCE_DIR "/examples/") + maker);
    const std::regex net("\\n    \"(\\w+)\": \\(");  // a row of the table NETS
    for (std::sregex_iterator it(text.begin(), text.end(), net), end; it != end; ++it) networks.push_back((*it)[1]);
  }
  for (const std::string& name : names) {
    if (source.find(name) != std::string::npos) found.push_back(name);
  }
  for (const std::string& name : networks) {
    if (std::regex_search(source, std::regex("\\b" + name + "\\b"))) found.push_back(name);
  }
  const std::regex id("\\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\\b");
  for (std::sregex_iterator it(source.begin(), source.end(), id), end; it != end; ++it) found.push_back(it->str());
  return found;
}

TEST(CodeOfExplanations, NamesNoCase) {
  using testing::Contains;
  int files = 0;
  for (const char* folder : {"/compiler", "/tools/autotune"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(AUTOTUNE_SOURCE_DIR) + folder)) {
      if (!entry.path().filename().string().starts_with("explain")) continue;
      ++files;
      EXPECT_THAT(CasesIn(test::ReadAll(entry.path())), testing::IsEmpty()) << entry.path();
    }
  }
  EXPECT_GE(files, 5);
  EXPECT_THAT(CasesIn("if (name == \"bert2\") return kSpilled;"), Contains("bert2"));
  EXPECT_THAT(CasesIn("if (id == \"3f2a1b2c\") return kSpilled;"), Contains("3f2a1b2c"));
  EXPECT_THAT(CasesIn("// SpilledProduct"), Contains("SpilledProduct"));
  EXPECT_THAT(CasesIn("trace == \"parallel(dense_m)\""), Contains("parallel(dense_m)"));
}

TEST(CodeOfExplanations, IsTestedOnManyFaults) {
  std::set<Cause> causes;
  std::set<std::string> programs;
  for (const Planted& planted : Faults()) causes.insert(planted.cause), programs.insert(ToText(planted.func));
  EXPECT_GE(Faults().size(), 10u);
  EXPECT_GE(causes.size(), 6u);
  EXPECT_GE(programs.size(), 3u);
}

// ---- The decision on given evidence

// Evidence of a product of 8-lane vectors without faults.
Evidence GoodEvidence() {
  Evidence evidence;
  evidence.target = TargetOf(4);
  evidence.threads = 4;
  evidence.alternative = "direct";
  evidence.alternatives = {"direct"};
  BlockFacts block;
  block.name = "product";
  block.vector_loop = "n";
  block.instances = block.useful = 1e6;
  block.slots = 1;
  block.reduction = 100;
  block.lanes = block.full_lanes = 8;
  block.tasks = 64;
  evidence.schedule.blocks = {block};
  evidence.code = CodeFacts{.vector = 60, .integer = 5, .all = 100};
  return evidence;
}

TEST(Verdict, GoodCodeIsBoundByArithmetic) {
  Evidence evidence = GoodEvidence();
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kArithmetic);
  evidence.time = TimeFacts{.seconds = 1e-3, .roof_seconds = 0.9e-3, .roof_bound = "arithmetic"};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kArithmetic);
  EXPECT_THAT(Explain(evidence).main.sentence, AllOf(HasSubstr("units busy"), HasSubstr("90 %")));
  evidence.time->roof_seconds = 0.45e-3;  // units that are busy for less than half of the time are not called busy
  EXPECT_THAT(Explain(evidence).main.sentence,
              AllOf(HasSubstr("the vector arithmetic of block"), Not(HasSubstr("busy")), HasSubstr("45 %")));
  evidence.time = TimeFacts{.seconds = 1e-3, .roof_seconds = 0.9e-3, .roof_bound = "memory"};
  EXPECT_THAT(Explain(evidence).main.sentence, HasSubstr("memory-bound at memory: each byte moves once"));
  // Far from the roofline, with neither a fault nor a limit: the sentence does not make one up.
  evidence.time = TimeFacts{.seconds = 1e-3, .roof_seconds = 0.1e-3, .roof_bound = "arithmetic"};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kUnknown);
}

TEST(Verdict, AKernelAtTheRooflineHasNoFault) {
  Evidence evidence = GoodEvidence();
  evidence.schedule.blocks[0].tasks = 3;
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kFewTasks);
  evidence.time = TimeFacts{.seconds = 1e-3, .roof_seconds = 0.9e-3, .roof_bound = "L2"};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kMemory);
  // Loads alone are faster than the copies that define the roofline of a cache, so a clear fault still counts.
  evidence.schedule.blocks[0].tasks = 1;
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kFewTasks);
  evidence.time->roof_bound = "arithmetic";
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kArithmetic);
  // Winograd's algorithm has fewer operations than the direct one, whose roofline this is.
  evidence.alternative = "winograd4";
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kFewTasks);
}

TEST(Verdict, TheCodeDecidesWhetherItIsScalarOrSpills) {
  Evidence evidence = GoodEvidence();
  evidence.code = CodeFacts{.vector = 40, .stack = 30, .all = 100};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kSpilled);
  EXPECT_THAT(Explain(evidence).main.sentence, HasSubstr("30 %"));
  evidence.code->stack = 10;
  EXPECT_NE(Explain(evidence).main.cause, Cause::kSpilled);
  // The schedule is vectorized, the code is not.
  evidence.code = CodeFacts{.scalar = 60, .all = 100};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kScalar);
  // The schedule is not vectorized, but the compiler has vectorized the code.
  evidence.schedule.blocks[0].lanes = 1;
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kScalar);
  evidence.code = CodeFacts{.vector = 60, .all = 100};
  EXPECT_NE(Explain(evidence).main.cause, Cause::kScalar);
}

TEST(Verdict, IndicesFunctionsAndOverheadAreNamed) {
  Evidence evidence = GoodEvidence();
  evidence.code = CodeFacts{.vector = 10, .integer = 80, .all = 100};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kIndices);
  evidence = GoodEvidence();
  evidence.schedule.blocks[0].transcendental = 0.9;
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kFunctions);
  evidence = GoodEvidence();
  evidence.time = TimeFacts{.seconds = 1e-6, .roof_seconds = 0.1e-6, .roof_bound = "L1"};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kOverhead);
}

TEST(Verdict, WinogradsAlgorithmIsMissedOnlyWhereItApplies) {
  Evidence evidence = GoodEvidence();
  evidence.winograd = kWinogradApplies;
  evidence.alternatives = {"direct", "winograd4"};
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kDirect);
  EXPECT_EQ(Explain(evidence).winograd, "possible, but not chosen");
  evidence.alternatives = {"direct"};
  EXPECT_THAT(Explain(evidence).winograd, HasSubstr("left out"));
  evidence.alternative = "winograd4";
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kArithmetic);
  evidence.alternative = "direct";
  evidence.winograd = "its stride is 2";
  EXPECT_EQ(Explain(evidence).main.cause, Cause::kArithmetic);
  EXPECT_EQ(Explain(evidence).winograd, "not possible: its stride is 2");
}

// The direct sums of a Winograd convolution are for extreme numbers. They have no part in the time.
TEST(Evidence, LeavesOutTheDirectSumsOfWinograd) {
  te::Tensor x = te::Placeholder("x", {1, 8, 8, 16}), w = te::Placeholder("w", {3, 3, 16, 16});
  const te::Tensor y = topi::Conv2dWinograd("conv", x, w, {.pad = {1, 1, 1, 1}}, {});
  const PrimFunc func =
      te::CreatePrimFunc("conv", {{x}, {w, ParamRole::kConstant}, {y, ParamRole::kOutput}}, {.use_fma = true});
  PackagedKernel kernel{.name = "kernel", .alternative = "winograd4", .program = ToText(func)};
  Result<Evidence> evidence = EvidenceOf(kernel, TargetOf(2), 2);
  ASSERT_TRUE(evidence.ok()) << evidence.error().Text();
  std::set<std::string> blocks;
  for (const BlockFacts& block : evidence->schedule.blocks) blocks.insert(block.name);
  EXPECT_TRUE(blocks.contains("conv_product"));
  EXPECT_FALSE(blocks.contains("conv_direct"));
  EXPECT_THAT(ToText(func), HasSubstr("conv_direct")) << "the program has no such block";
}

// The lanes of a look-up lie anywhere in the table, which is in registers where the target has the instruction.
TEST(Evidence, KnowsTablesInRegisters) {
  te::Tensor x = te::Placeholder("x", {64}, DType::UInt(8)), table = te::Placeholder("t", {256}, DType::UInt(8));
  const te::Tensor y = topi::LookUp("y", x, table);
  const PrimFunc func = te::CreatePrimFunc("f", {{x}, {table, ParamRole::kConstant}, {y, ParamRole::kOutput}});
  const auto strided = [&](const std::string& cpu) {
    PackagedKernel kernel{
        .name = "kernel", .alternative = "direct", .program = ToText(func), .trace = "vectorize(y_i0)"};
    const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -num-cores=1 -mcpu=" + cpu).value();
    const Result<Evidence> evidence = EvidenceOf(kernel, target, 1);
    if (!evidence.ok()) ADD_FAILURE() << evidence.error().Text();
    std::vector<std::pair<std::string, int64_t>> found;
    for (const BlockFacts& block : evidence->schedule.blocks)
      for (const AccessFacts& access : block.accesses)
        if (access.contiguity == Contiguity::kStrided) found.emplace_back(access.buffer, access.stride);
    return found;
  };
  EXPECT_THAT(strided("icelake-server"), testing::IsEmpty());
  EXPECT_THAT(strided("haswell"), testing::ElementsAre(testing::Pair("t", 0))) << "they are no neighbours";
}

// ---- Planted faults

// A product whose tile of rows and vectors of 8 columns is held in registers, in panels of n0. `end` has further steps.
std::string TiledProduct(const std::string& rows, const std::string& vectors, const std::string& end) {
  return "cache_write(dense, register) -> tile, dense_copy, copy_m, copy_n\n"
         "split(dense_m, [?, " +
         rows +
         "]) -> m0, m1\n"
         "split(dense_n, [?, " +
         vectors +
         ", 8]) -> n0, n1, n2\n"
         "reorder([m0, n0, dense_k, m1, n1, n2])\n"
         "reverse_compute_at(dense_copy, n0) -> copy_m, copy_n\n"
         "split(copy_n, [?, 8]) -> copy_n0, copy_n1\n"
         "unroll(copy_m)\n"
         "unroll(copy_n0)\n"
         "vectorize(copy_n1)\n"
         "decompose_reduction(dense, dense_k) -> init, m1_init, n1_init, n2_init\n"
         "unroll(m1_init)\n"
         "unroll(n1_init)\n"
         "vectorize(n2_init)\n"
         "unroll(m1)\n"
         "unroll(n1)\n"
         "vectorize(n2)\n" +
         end;
}

std::vector<Planted> ProductFaults() {
  const PrimFunc product = test::Product(192, 192, 192);
  return {
      {"ScalarProduct", product, "parallel(dense_m)\n", Cause::kScalar, "none of its loops is vectorized"},
      {"StridedProduct", product,
       "split(dense_m, [?, 8]) -> m0, m1\nreorder([m0, dense_n, dense_k, m1])\nvectorize(m1)\nparallel(m0)\n",
       Cause::kStrided, "192 elements apart in a"},
      {"SerialProduct", product, TiledProduct("4", "2", ""), Cause::kFewTasks, "one of 2 threads"},
      {"ThreeTasksProduct", product, TiledProduct("4", "2", "split(m0, [3, ?]) -> m00, m01\nparallel(m00)\n"),
       Cause::kFewTasks, "3 iterations for 16 threads", 16},
      {"SpilledProduct", product, TiledProduct("8", "4", "parallel(m0)\n"), Cause::kSpilled, "stack"},
      {"PaddedProduct", test::Product(192, 36, 192), TiledProduct("4", "4", "parallel(m0)\n"), Cause::kPadding,
       "44 % of the iterations of block dense"},
      // Each row of the result reads the whole second operand, which is larger than the L3 cache of the target.
      {"StreamingProduct", test::Product(64, 4096, 2048),
       "split(dense_n, [?, 8]) -> n0, n1\nreorder([dense_m, dense_k, n0, n1])\nvectorize(n1)\nparallel(dense_m)\n",
       Cause::kMemory, "memory-bound at memory: block dense moves"},
  };
}

std::vector<Planted> ConvolutionFaults() {
  const PrimFunc conv = test::ConvBiasRelu(28, 28, 32, 64, 3, {.pad = {1, 1, 1, 1}});
  const PrimFunc depthwise = test::ConvBiasRelu(28, 28, 32, 32, 3, {.pad = {1, 1, 1, 1}, .groups = 32});
  return {
      {"ScalarConvolution", conv, "parallel(conv_m)\n", Cause::kScalar, "block conv computes one element"},
      {"StridedConvolution", conv,
       "split(conv_m, [?, 8]) -> m0, m1\nreorder([m0, conv_oc, conv_kh, conv_kw, conv_ic, m1])\nvectorize(m1)\n"
       "parallel(m0)\n",
       Cause::kStrided, "in conv_pad_out"},
      {"SerialDepthwise", depthwise,
       "reorder([conv_h, conv_w, conv_kh, conv_kw, conv_c])\nvectorize(conv_c)\nvectorize(add_c)\nvectorize(relu_c)\n"
       "vectorize(conv_pad_c)\n",
       Cause::kFewTasks, "one of 8 threads", 8},
      {"ScalarDepthwise", depthwise, "parallel(conv_h)\nparallel(conv_pad_h)\nparallel(add_h)\nparallel(relu_h)\n",
       Cause::kScalar, "block conv computes one element"},
  };
}

std::vector<Planted> RowFaults() {
  return {
      {"ScalarSoftmax", test::Softmax({256, 512}), "parallel(softmax_exp_i0)\nparallel(softmax_i0)\n", Cause::kScalar,
       "block softmax_exp computes one element"},
      {"StridedTranspose", test::Transposed({512, 512}, {1, 0}),
       "split(transpose_i1, [?, 8]) -> i0, i1\nvectorize(i1)\nparallel(transpose_i0)\n", Cause::kStrided,
       "512 elements apart in x"},
      {"SerialActivation", Activation(512, 512), "split(relu_i1, [?, 8]) -> i0, i1\nvectorize(i1)\n", Cause::kFewTasks,
       "one of 4 threads", 4},
      {"ScalarActivation", Activation(64, 64), "parallel(relu_i0)\n", Cause::kScalar, "where a vector holds 8"},
      {"NarrowColumnSums", test::ColumnSums({256, 256}, {0}),
       "split(sum_i1, [?, 2]) -> i0, i1\nreorder([i0, sum_i0, i1])\nvectorize(i1)\nparallel(i0)\n", Cause::kScalar,
       "2 of 8 lanes"},
  };
}

std::vector<Planted> Faults() {
  std::vector<Planted> all;
  for (const std::vector<Planted>& some : {ProductFaults(), ConvolutionFaults(), RowFaults()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace
}  // namespace autotune
