// Measures the speed of feature extraction. Takes the candidates of a recording (docs/recordings.md), replays them, and
// prints for each task: the number of candidates that the present rules still make, the mean size of a Nest in bytes,
// how many functions per second one core converts to a Nest, and how many Nests per second it converts to features
// (goal: 100,000 in the mean of all tasks).
//   bench_features FILE [--candidates 300]
#include <cstdio>

#include "bench/arguments.h"
#include "bench/main.h"
#include "costmodel/features.h"
#include "schedule/replay.h"
#include "support/clock.h"
#include "tuner/located_recording.h"

namespace autotune::bench {
namespace {

constexpr double kMilliseconds = 100;  // CPU time of one measurement

size_t SizeOf(const Nest& nest) {
  auto bytes = [](const auto& table) { return table.size() * sizeof(table[0]); };
  return sizeof(Nest) + bytes(nest.blocks) + bytes(nest.loops) + bytes(nest.loop_lists) + bytes(nest.iterators) +
         bytes(nest.accesses) + bytes(nest.guards) + bytes(nest.sums) + bytes(nest.terms) + bytes(nest.buffers) +
         bytes(nest.dims) + bytes(nest.prefetches);
}

// Calls f(i) for i in [0, count), repeatedly, and returns the number of calls per second of CPU time.
double RateOf(size_t count, const auto& f) {
  const double start = CpuMilliseconds();
  size_t calls = 0;
  double spent = 0;
  while (spent < kMilliseconds) {
    for (size_t i = 0; i < count; ++i) f(i);
    calls += count;
    spent = CpuMilliseconds() - start;
  }
  return 1e3 * static_cast<double>(calls) / spent;
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"candidates"}, {"candidates"}));
  if (arguments.words.size() != 1) {
    std::fprintf(stderr, "usage: bench_features FILE [--candidates 300]\n");
    return 2;
  }
  const size_t wanted = static_cast<size_t>(arguments.Number("candidates", 300));
  std::vector<LocatedTask> tasks = TRY(LocateRecording(TRY(ReadRecording(arguments.words[0]))));
  std::printf("%-28s %9s %9s %7s %10s %12s\n", "task", "recorded", "located", "bytes", "nests/s", "features/s");
  double seconds_per_nest = 0, seconds_per_features = 0;
  for (const LocatedTask& task : tasks) {
    std::vector<PrimFunc> funcs;
    const size_t stride = std::max<size_t>(1, task.candidates.size() / std::max<size_t>(1, wanted));
    for (size_t i = 0; i < task.candidates.size(); i += stride) {
      const Proposal& proposal = task.candidates[i].proposal;
      const Sketch& sketch = task.space.sketches[static_cast<size_t>(proposal.sketch)];
      funcs.push_back(TRY(Replay(task.space.FuncOf(sketch), proposal.trace)).func());
    }
    if (funcs.empty()) continue;
    std::vector<Nest> nests;
    size_t bytes = 0;
    for (const PrimFunc& func : funcs) {
      nests.push_back(NestOf(func));
      bytes += SizeOf(nests.back());
    }
    std::vector<float> features(static_cast<size_t>(NumFeatures()));
    const double nest_rate = RateOf(funcs.size(), [&](size_t i) { (void)NestOf(funcs[i]); });
    const double feature_rate =
        RateOf(nests.size(), [&](size_t i) { ExtractFeatures(nests[i], task.space.target, features); });
    seconds_per_nest += 1 / nest_rate / static_cast<double>(tasks.size());
    seconds_per_features += 1 / feature_rate / static_cast<double>(tasks.size());
    std::printf("%-28s %9zu %9zu %7zu %10.0f %12.0f\n", task.kind.c_str(), task.recorded, task.candidates.size(),
                bytes / nests.size(), nest_rate, feature_rate);
  }
  std::printf("%-28s %27s %10.0f %12.0f\n", "all, of equal weight", "", 1 / seconds_per_nest, 1 / seconds_per_features);
  return 0;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  return autotune::bench::ExitCode("bench_features", autotune::bench::Main(argc, argv));
}
