// Compares variants of the search on a recording of the oracle (bench/oracle.cc) instead of a device. Runs the real
// tuning loop with each variant, on every task of the recording.
//   bench_search_sim FILE [--seeds 20] [--trials 64] [--noise 0] [--threads N] [--variants evolution,random]
// Prints the model's errors on candidates to which it was not fitted. Then prints, for each task, how near each variant
// comes to the best known time. The exit code is 1 after an error, or if a variant that was worsened on purpose does
// not rank last, since the comparison is then not reliable.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/arguments.h"
#include "bench/main.h"
#include "support/clock.h"
#include "tuner/located_recording.h"
#include "tuner/simulation.h"

namespace autotune::bench {
namespace {

// Reads a recording. Leaves out tasks without a candidate that ran and is a point of the present sketches, since none
// of their candidates can be replayed.
Result<Recording> ReadFitting(const std::string& path) {
  Recording recording = TRY(ReadRecording(path));
  const std::vector<LocatedTask> located = TRY(LocateRecording(recording));
  std::vector<RecordedTask> fitting;
  for (size_t i = 0; i < located.size(); ++i) {
    const auto& candidates = located[i].candidates;
    if (std::any_of(candidates.begin(), candidates.end(),
                    [](const auto& candidate) { return candidate.status == TrialStatus::kOk; })) {
      fitting.push_back(std::move(recording.tasks[i]));
    } else {
      std::printf("left out: %s, since none of its %zu candidates fits today's sketches\n", located[i].kind.c_str(),
                  located[i].recorded);
    }
  }
  if (fitting.empty()) return Err(path, ": no task fits today's sketches; record it again (bench_oracle)");
  recording.tasks = std::move(fitting);
  return recording;
}

void PrintFit(const RecordedDevice& device) {
  std::printf("%-28s %7s %7s %11s %9s %9s   held-out candidates\n", "task", "fitted", "others", "median err", "rank",
              "verdicts");
  double error = 0, rank = 0;
  for (size_t i = 0; i < device.fit().size(); ++i) {
    const FitError& fit = device.fit()[i];
    std::printf("%-28s %7d %7d %10.1f%% %9.2f %8.0f%%\n", device.recording().tasks[i].kind.c_str(), fit.fitted,
                fit.held_out, 100 * std::expm1(fit.median_log_error), fit.rank_correlation, 100 * fit.right_verdicts);
    error += fit.median_log_error / static_cast<double>(device.fit().size());
    rank += fit.rank_correlation / static_cast<double>(device.fit().size());
  }
  std::printf("%-28s %15s %10.1f%% %9.2f\n\n", "mean", "", 100 * std::expm1(error), rank);
}

std::vector<const SimulatedRun*> Select(const std::vector<SimulatedRun>& runs, size_t variant, int task = -1) {
  std::vector<const SimulatedRun*> selected;
  for (const SimulatedRun& run : runs) {
    if (run.variant == static_cast<int>(variant) && (task < 0 || run.task == task)) selected.push_back(&run);
  }
  return selected;
}

// Prints for each task and variant the best known time, divided by the time that the variant has found, in percent.
void PrintTasks(const RecordedDevice& device, const std::vector<SearchVariant>& variants,
                const std::vector<SimulatedRun>& runs, const SimulationOptions& options) {
  std::printf("%% of the best known speed after %d trials, geometric mean of %d seeds (worst)\n%-28s",
              options.trials.back(), options.seeds, "task");
  for (const SearchVariant& variant : variants) std::printf(" %15s", variant.name.c_str());
  std::printf("\n");
  const size_t last = options.trials.size() - 1;
  for (size_t task = 0; task < device.tasks().size(); ++task) {
    std::printf("%-28s", device.recording().tasks[task].kind.c_str());
    for (size_t v = 0; v < variants.size(); ++v) {
      std::vector<const SimulatedRun*> selected = Select(runs, v, static_cast<int>(task));
      double worst = 1;
      for (const SimulatedRun* run : selected) worst = std::min(worst, run->reached[last]);
      std::printf("  %6.1f (%5.1f)", 100 * MeanReached(selected, last), 100 * worst);
    }
    std::printf("\n");
  }
}

void PrintVariants(const std::vector<SearchVariant>& variants, const std::vector<SimulatedRun>& runs,
                   const SimulationOptions& options) {
  std::printf("\n%-12s", "all tasks");
  for (int trials : options.trials) std::printf(" %6d trials", trials);
  std::printf("   worst run\n");
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<const SimulatedRun*> selected = Select(runs, v);
    std::printf("%-12s", variants[v].name.c_str());
    for (size_t k = 0; k < options.trials.size(); ++k) std::printf(" %12.1f%%", 100 * MeanReached(selected, k));
    double worst = 1;
    for (const SimulatedRun* run : selected) worst = std::min(worst, run->reached.back());
    std::printf("   %8.1f%%   %s%s\n", 100 * worst, variants[v].description.c_str(),
                variants[v].worsened ? " (worse on purpose)" : "");
  }
}

// Returns the named variants, in the order of SearchVariants.
Result<std::vector<SearchVariant>> Choose(const std::string& names) {
  if (names.empty()) return SearchVariants();
  std::vector<SearchVariant> chosen;
  size_t count = static_cast<size_t>(std::count(names.begin(), names.end(), ',')) + 1;
  for (const SearchVariant& variant : SearchVariants()) {
    if (("," + names + ",").find("," + variant.name + ",") != std::string::npos) chosen.push_back(variant);
  }
  if (chosen.size() == count) return chosen;
  std::string known;
  for (const SearchVariant& variant : SearchVariants()) known += " " + variant.name;
  return Err("--variants ", names, ": name some of", known);
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"seeds", "trials", "noise", "threads", "variants"},
                                             {"seeds", "trials", "noise", "threads"}));
  if (arguments.words.size() != 1) {
    std::fprintf(stderr,
                 "usage: bench_search_sim FILE [--seeds 20] [--trials 64] [--noise 0] [--threads N] "
                 "[--variants evolution,draft,random,inverted]\n");
    return 2;
  }
  int trials = static_cast<int>(arguments.Number("trials", 64));
  SimulationOptions options{.trials = {std::max(1, trials / 4), std::max(1, trials / 2), trials},
                            .seeds = static_cast<int>(arguments.Number("seeds", 20)),
                            .noise = arguments.Number("noise", 0),
                            .threads = static_cast<int>(arguments.Number("threads", 0))};
  if (trials < 1 || options.seeds < 1 || options.noise < 0) return Err("--trials and --seeds must be at least 1");
  std::vector<SearchVariant> variants = TRY(Choose(arguments.Text("variants", "")));
  double begin = SteadySeconds();
  std::shared_ptr<const RecordedDevice> device = TRY(RecordedDevice::Make(TRY(ReadFitting(arguments.words[0]))));
  double fitted = SteadySeconds();
  std::printf("%s, recorded on %s\n\n", arguments.words[0].c_str(), device->recording().header.machine.c_str());
  PrintFit(*device);
  std::vector<SimulatedRun> runs = TRY(Simulate(device, variants, options));
  PrintTasks(*device, variants, runs, options);
  PrintVariants(variants, runs, options);
  std::printf("\n%.1f s, %.1f s of them to read the recording and fit the model\n", SteadySeconds() - begin,
              fitted - begin);
  if (WorsenedRankLast(variants, runs)) return 0;
  std::printf("a search that was made worse on purpose does not rank last: this comparison is not reliable\n");
  return 1;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  return autotune::bench::ExitCode("bench_search_sim", autotune::bench::Main(argc, argv));
}
