// Measures how many candidates of a packed 3x3 convolution with 256 channels one core handles per second. The goal is
// in parentheses:
// - drawn at random and scored by the draft score (50,000);
// - distinct mutants, replayed in full and turned into features (1,000);
// - the same mutants, replayed only from the first decision in which each differs from the one before (3,000);
// - turning one Nest into features, without a replay.
// Both replays must give equal features. Measures the CPU time of one thread, so that a busy machine matters little.
//   bench_evaluate [candidates=10000] [seed=1]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "costmodel/features.h"
#include "schedule/replay.h"
#include "support/check.h"
#include "support/clock.h"
#include "te/create_prim_func.h"
#include "te/reference.h"
#include "topi/conv.h"
#include "topi/elementwise.h"
#include "tuner/search.h"
#include "tuner/successive_replays.h"

using namespace autotune;

namespace {

// Returns a task: a 3x3 convolution with bias and ReLU on an image of 14 x 14.
TuneTask ConvTask(int64_t channels) {
  te::Tensor data = te::Placeholder("data", {1, 14, 14, channels});
  te::Tensor weight = te::Placeholder("weight", {3, 3, channels, channels}), bias = te::Placeholder("bias", {channels});
  te::Tensor conv = topi::Conv("conv", data, weight, {.pad = {1, 1, 1, 1}});
  te::Tensor out = topi::Relu("relu", topi::Add("add", conv, bias));
  PrimFunc func = te::CreatePrimFunc("conv_bias_relu",
                                     {{data, ParamRole::kInput},
                                      {weight, ParamRole::kConstant},
                                      {bias, ParamRole::kConstant},
                                      {out, ParamRole::kOutput}},
                                     {.use_fma = true});
  TuneTask task{.label = "conv", .reference = te::ToReference(func)};
  task.alternatives.push_back({"direct", std::move(func)});
  return task;
}

// Returns distinct mutants that can be replayed, made from one parent by chains of mutations.
std::vector<Decisions> Mutants(const PrimFunc& func, const Sketch& sketch, const Target& target, int wanted, Rng& rng) {
  std::vector<Decisions> found;
  std::unordered_set<uint64_t> known;
  Decisions at = DrawDecisions(sketch, rng);
  for (int tries = 0; static_cast<int>(found.size()) < wanted && tries < 200 * wanted; ++tries) {
    int knob = static_cast<int>(rng.Below(static_cast<int64_t>(at.size())));
    at[knob] = MutateDecision(sketch, knob, at[knob], rng);
    if (!std::isfinite(DraftSeconds(sketch, at, target)) || !known.insert(HashDecisions(sketch, at)).second) continue;
    if (Replay(func, Decide(sketch, at)).ok()) found.push_back(at);
  }
  return found;
}

void Print(const char* what, double count, double milliseconds) {
  std::printf("%-28s %9.0f candidates/s\n", what, 1e3 * count / milliseconds);
}

}  // namespace

int main(int argc, char** argv) {
  int wanted = argc > 1 ? std::atoi(argv[1]) : 10000;
  Rng rng(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  Target target = Target::Parse("cpu").value();
  TuneTask task = ConvTask(256);
  TaskSpace space = TaskSpace::Make(task, target).value();
  const Sketch& sketch = space.sketches[0];
  const PrimFunc& func = space.FuncOf(sketch);
  CHECK(std::any_of(sketch.stages.begin(), sketch.stages.end(), [](const StageModel& s) { return s.packed; }));
  std::vector<Decisions> mutants = Mutants(func, sketch, target, wanted, rng);
  double count = static_cast<double>(mutants.size());
  std::printf("%zu distinct mutants of %s, %zu steps, %zu decisions\n", mutants.size(), sketch.name.c_str(),
              sketch.trace.size(), sketch.knobs.size());

  double start = CpuMilliseconds(), sum = 0;
  const int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    double draft = DraftSeconds(sketch, DrawDecisions(sketch, rng), target);
    sum += std::isfinite(draft) ? draft : 0;
  }
  Print("drawn, with a draft score", sum > 0 ? draws : 0, CpuMilliseconds() - start);

  // Sort the candidates, so that neighbours share as many first decisions as possible.
  std::sort(mutants.begin(), mutants.end(), [](const Decisions& a, const Decisions& b) {
    return std::ranges::lexicographical_compare(a, b, {}, &Decision::values, &Decision::values);
  });
  start = CpuMilliseconds();
  std::vector<Features> full;
  for (const Decisions& decisions : mutants) {
    full.push_back(ExtractFeatures(NestOf(Replay(func, Decide(sketch, decisions)).value().func()), target));
  }
  Print("full replay and features", count, CpuMilliseconds() - start);

  start = CpuMilliseconds();
  SuccessiveReplays replays(func, sketch);
  size_t different = 0;
  for (size_t i = 0; i < mutants.size(); ++i) {
    Result<Schedule> schedule = replays.Replay(mutants[i], Decide(sketch, mutants[i]));
    different += ExtractFeatures(NestOf(schedule.value().func()), target) != full[i];
  }
  Print("prefix reuse and features", count, CpuMilliseconds() - start);

  start = CpuMilliseconds();
  Schedule one = Replay(func, Decide(sketch, mutants[0])).value();
  Nest nest = NestOf(one.func());
  const int repeats = 20000;
  for (int i = 0; i < repeats; ++i) sum += ExtractFeatures(nest, target)[0];
  Print("features alone", sum > 0 ? repeats : 0, CpuMilliseconds() - start);
  std::printf("%zu of %zu differ in their features\n", different, mutants.size());
  return different == 0 ? 0 : 1;
}
