// Scheduled operators of real networks, compiled, against the interpreter: every element equal.
#include "tests/codegen/sketch.h"

#include <cstdio>
#include <cstring>
#include <sstream>

#include "schedule/replay.h"
#include "tests/codegen/kernel.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

// A candidate that is rejected (registers) counts as done: not every sample fits.
void CheckSamples(const PrimFunc& f, const std::string& sketch, int samples) {
  Trace trace = ParseTrace(sketch).value();
  Rng rng(3);
  int built_some = 0;
  std::vector<InterpArray> args = SmallIntegers(f, 5), want = args;
  ASSERT_TRUE(Interpret(f, want).ok());
  for (int i = 0; i < samples; ++i) {
    auto schedule = Replay(f, trace, {.rng = &rng});
    ASSERT_TRUE(schedule.ok()) << schedule.error().Text();
    SCOPED_TRACE(ToText(schedule->trace()));
    auto built = Build(schedule->func());
    if (!built.ok()) {
      EXPECT_NE(built.error().Text().find("rejected"), std::string::npos) << built.error().Text();
      continue;
    }
    ++built_some;
    std::vector<InterpArray> got = args;
    Status ran = Run(*built, f, got);
    ASSERT_TRUE(ran.ok()) << ran.error().Text();
    for (size_t p = 0; p < args.size(); ++p) {
      if (f.params[p].role != ParamRole::kOutput) continue;
      ASSERT_EQ(got[p].data, want[p].data);
    }
  }
  EXPECT_GT(built_some, samples / 4);
}

TEST(CompiledSketch, Convolutions) {
  SketchNames names;
  names.before = "compute_inline(add)\n";
  CheckSamples(zoo::ConvBiasRelu({.h = 7, .w = 7, .ic = 3, .oc = 20}), Sketch(names), 6);
  CheckSamples(zoo::ConvBiasRelu({.h = 9, .w = 6, .ic = 5, .oc = 33, .stride = 2}), Sketch(names), 6);
  CheckSamples(zoo::ConvBiasRelu({.h = 9, .w = 11, .ic = 4, .oc = 8, .dilation = 2}), Sketch(names), 4);
  names.before = "compute_inline(sum)\n" + names.before;
  CheckSamples(zoo::ConvBiasRelu({.h = 5, .w = 4, .ic = 7, .oc = 13}, true), Sketch(names), 6);
}

TEST(CompiledSketch, Dense) {
  SketchNames dense{"dense", "b", "out", "", "dense_m", "dense_n", "dense_k", "", 2, "", 8, false};
  CheckSamples(zoo::Dense(1, 10, 7), Sketch(dense), 4);
  CheckSamples(zoo::Dense(23, 41, 9), Sketch(dense), 6);
}

TEST(CompiledSketch, Unscheduled) {
  AgreesWithInterpreter(zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 3, .oc = 9, .stride = 2}));
  AgreesWithInterpreter(zoo::ConvBiasRelu({.h = 6, .w = 5, .ic = 4, .oc = 8, .groups = 2}));
  AgreesWithInterpreter(zoo::MaxPool({.h = 7, .w = 6, .oc = 5, .stride = 2}));
  AgreesWithInterpreter(zoo::Elementwise(7, 13));
}

TEST(CompiledSketch, RandomPrograms) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    AgreesWithInterpreter(testing::RandomProgram(seed).Make(), seed);
    if (HasFailure()) return;
  }
}

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// AUTOTUNE_CONV=H,W,IC,OC,KERNEL,STRIDE,SAMPLES: the best of random samples of the sketch, on one thread.
TEST(CompiledSketch, Report) {
  const char* wanted = getenv("AUTOTUNE_CONV");
  if (!wanted) GTEST_SKIP() << "set AUTOTUNE_CONV=H,W,IC,OC,KERNEL,STRIDE,SAMPLES to measure";
  int h, w, ic, oc, kernel, stride, samples;
  ASSERT_EQ(sscanf(wanted, "%d,%d,%d,%d,%d,%d,%d", &h, &w, &ic, &oc, &kernel, &stride, &samples), 7);
  PrimFunc f = zoo::ConvBiasRelu({h, w, ic, oc, kernel, stride, kernel / 2});
  SketchNames names;
  names.before = "compute_inline(add)\n";
  if (kernel == 1) names.reduce = "";
  std::string text = Sketch(names);
  if (const char* tiles = getenv("AUTOTUNE_TILES")) {  // "131, 4, 6;1, 4, 16;16, 4"
    std::istringstream list(tiles);
    std::string tile;
    for (const char* name : {"-> m_t\n", "-> oc_t\n", "-> k_t\n"}) {
      std::getline(list, tile, ';');
      text.insert(text.find(name) + strlen(name) - 1, " = [" + tile + "]");
    }
  }
  Trace trace = ParseTrace(text).value();
  Rng rng(getenv("AUTOTUNE_SEED") ? atoi(getenv("AUTOTUNE_SEED")) : 1);
  double best = 0;
  std::map<std::string, double> times;
  int built_count = 0, rejected = 0;
  for (int i = 0; i < samples; ++i) {
    auto schedule = Replay(f, trace, {.rng = &rng});
    ASSERT_TRUE(schedule.ok());
    double start = CpuSeconds();
    auto built = Build(schedule->func(), Cpu(), {.keep_assembly = getenv("AUTOTUNE_DUMP") != nullptr});
    if (!built.ok()) {
      ++rejected;
      if (getenv("AUTOTUNE_SHOW")) printf("%s\n", built.error().Text().c_str());
      continue;
    }
    times["total"] += 1e3 * (CpuSeconds() - start);
    for (auto& [stage, ms] : built->object.facts.times_ms) times[stage] += ms;
    ++built_count;
    KernelContext context(1);
    auto args = AllocateArgs(built->kernel->metadata).value();
    for (auto& t : args) {
      for (int64_t k = 0; k < t.num_elements(); ++k) t.Data<float>()[k] = static_cast<float>(k % 7 - 3);
    }
    std::vector<Tensor> constants{args[1], args[2]};
    auto prepared = PrepareConstants(*built->kernel, context, constants).value();
    double fastest = 1e9;
    for (int r = 0; r < 5; ++r) {
      start = CpuSeconds();
      ASSERT_TRUE(CallKernel(*built->kernel, context, args, prepared).ok());
      fastest = std::min(fastest, CpuSeconds() - start);
    }
    int64_t oh = (h + 2 * (kernel / 2) - kernel) / stride + 1, ow = (w + 2 * (kernel / 2) - kernel) / stride + 1;
    double gflops = 2e-9 * static_cast<double>(oh * ow) * ic * oc * kernel * kernel / fastest;
    if (gflops > best) {
      best = gflops;
      printf("%.1f GFLOPS\n%s\n", gflops, ToText(schedule->trace()).substr(0, 260).c_str());
      if (getenv("AUTOTUNE_DUMP")) {
        PassContext pass;
        puts(ToText(Lower(schedule->func(), Cpu(), pass)->run).c_str());
        puts(built->object.assembly.c_str());
        puts(built->object.llvm_ir.c_str());
      }
    }
  }
  printf("built %d, rejected %d; per build, ms:", built_count, rejected);
  for (auto& [stage, ms] : times) printf(" %s %.2f", stage.c_str(), ms / built_count);
  printf("\n");
}

}  // namespace
}  // namespace autotune
