// Compares variants of the search and of the task scheduler on a recording of the oracle (bench/oracle.cc) instead of a
// device. Runs the real tuning loop with each variant: of the search on every task of the recording, of the scheduler
// on networks drawn from these tasks.
//   bench_search_sim FILE [--seeds 20] [--trials 64] [--noise 0] [--threads N] [--variants gain,random]
// Prints the model's errors on candidates to which it was not fitted. Then prints how near each variant comes to the
// best known time of each task and network. The exit code is 1 after an error, or if a variant that was worsened on
// purpose does not rank last, since the comparison is then not reliable.
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

constexpr uint64_t kNetworkSeed = 1;  // any seed; it must stay the same, so that versions can be compared

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

std::vector<const SimulatedRun*> Select(const std::vector<SimulatedRun>& runs, size_t variant, int network = -1) {
  std::vector<const SimulatedRun*> selected;
  for (const SimulatedRun& run : runs) {
    if (run.variant == static_cast<int>(variant) && (network < 0 || run.network == network)) selected.push_back(&run);
  }
  return selected;
}

// Prints for each task and variant the best known time, divided by the time that the variant has found, in percent.
void PrintTasks(const std::vector<SimulatedNetwork>& tasks, const std::vector<TuneVariant>& variants,
                const std::vector<SimulatedRun>& runs, const SimulationOptions& options) {
  std::printf("%% of the best known speed after %d trials, geometric mean of %d seeds (worst)\n%-28s",
              options.trials.back(), options.seeds, "task");
  for (const TuneVariant& variant : variants) std::printf(" %15s", variant.name.c_str());
  std::printf("\n");
  const size_t last = options.trials.size() - 1;
  for (size_t task = 0; task < tasks.size(); ++task) {
    std::printf("%-28s", tasks[task].name.c_str());
    for (size_t v = 0; v < variants.size(); ++v) {
      std::vector<const SimulatedRun*> selected = Select(runs, v, static_cast<int>(task));
      double worst = 1;
      for (const SimulatedRun* run : selected) worst = std::min(worst, run->reached[last]);
      std::printf("  %6.1f (%5.1f)", 100 * MeanReached(selected, last), 100 * worst);
    }
    std::printf("\n");
  }
}

void PrintVariants(const char* title, const std::vector<TuneVariant>& variants, const std::vector<SimulatedRun>& runs,
                   const SimulationOptions& options) {
  std::printf("%-12s", title);
  for (int trials : options.trials) std::printf(" %6d trials", trials);
  std::printf("   worst run\n");
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<const SimulatedRun*> selected = Select(runs, v);
    std::printf("%-12s", variants[v].name.c_str());
    for (size_t k = 0; k < options.trials.size(); ++k) {
      const double reached = MeanReached(selected, k);  // 0: in one run, some task had no schedule yet
      reached > 0 ? std::printf(" %12.1f%%", 100 * reached) : std::printf(" %13s", "-");
    }
    double worst = 1;
    for (const SimulatedRun* run : selected) worst = std::min(worst, run->reached.back());
    std::printf("   %8.1f%%   %s%s\n", 100 * worst, variants[v].description.c_str(),
                variants[v].worsened ? " (worse on purpose)" : "");
  }
  std::printf("\n");
}

// Simulates all variants of the search on every task. Returns false if a worsened one does not rank last.
Result<bool> CompareSearches(const std::shared_ptr<const RecordedDevice>& device,
                             const std::vector<TuneVariant>& variants, const SimulationOptions& options) {
  if (variants.empty()) return true;
  const std::vector<SimulatedNetwork> tasks = NetworksOfOneTask(*device);
  const std::vector<SimulatedRun> runs = TRY(Simulate(device, tasks, variants, options));
  PrintTasks(tasks, variants, runs, options);
  std::printf("\n");
  PrintVariants("all tasks", variants, runs, options);
  return WorsenedRankLast(variants, runs);
}

// Simulates all variants of the scheduler on as many networks as there are seeds. Returns false if a worsened one does
// not rank last.
Result<bool> CompareSchedulers(const std::shared_ptr<const RecordedDevice>& device,
                               const std::vector<TuneVariant>& variants, SimulationOptions options) {
  if (variants.empty()) return true;
  const std::vector<SimulatedNetwork> networks = DrawNetworks(*device, options.seeds, kNetworkSeed);
  if (networks.front().parts.size() < 2) {
    std::printf("schedulers are not compared: a network of one task needs none\n\n");
    return true;
  }
  options.seeds = 1;
  // With many trials for each task it does not matter how they are divided.
  for (int& trials : options.trials) trials = std::max(1, trials / 4);
  const std::vector<SimulatedRun> runs = TRY(Simulate(device, networks, variants, options));
  std::printf("%% of the best known speed of %zu networks of %zu tasks, by the number of trials per task\n",
              networks.size(), networks.front().parts.size());
  PrintVariants("networks", variants, runs, options);
  return WorsenedRankLast(variants, runs);
}

// The variants to compare.
struct Comparison {
  std::vector<TuneVariant> searches, schedulers;
};

// Returns the named variants, or all if `names` is empty, in the order of SearchVariants and SchedulerVariants.
Result<Comparison> Choose(const std::string& names) {
  if (names.empty()) return Comparison{SearchVariants(), SchedulerVariants()};
  const size_t count = static_cast<size_t>(std::count(names.begin(), names.end(), ',')) + 1;
  std::string known;
  auto select = [&](const std::vector<TuneVariant>& variants) {
    std::vector<TuneVariant> chosen;
    for (const TuneVariant& variant : variants) {
      known += " " + variant.name;
      if (("," + names + ",").find("," + variant.name + ",") != std::string::npos) chosen.push_back(variant);
    }
    return chosen;
  };
  Comparison chosen{select(SearchVariants()), select(SchedulerVariants())};
  if (chosen.searches.size() + chosen.schedulers.size() == count) return chosen;
  return Err("--variants ", names, ": name some of", known);
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"seeds", "trials", "noise", "threads", "variants"},
                                             {"seeds", "trials", "noise", "threads"}));
  if (arguments.words.size() != 1) {
    std::fprintf(stderr,
                 "usage: bench_search_sim FILE [--seeds 20] [--trials 64] [--noise 0] [--threads N] "
                 "[--variants evolution,draft,random,inverted,gain,turns,least]\n");
    return 2;
  }
  int trials = static_cast<int>(arguments.Number("trials", 64));
  SimulationOptions options{.trials = {std::max(1, trials / 4), std::max(1, trials / 2), trials},
                            .seeds = static_cast<int>(arguments.Number("seeds", 20)),
                            .noise = arguments.Number("noise", 0),
                            .threads = static_cast<int>(arguments.Number("threads", 0))};
  if (trials < 1 || options.seeds < 1 || options.noise < 0) return Err("--trials and --seeds must be at least 1");
  const Comparison comparison = TRY(Choose(arguments.Text("variants", "")));
  double begin = SteadySeconds();
  std::shared_ptr<const RecordedDevice> device = TRY(RecordedDevice::Make(TRY(ReadFitting(arguments.words[0]))));
  double fitted = SteadySeconds();
  std::printf("%s, recorded on %s\n\n", arguments.words[0].c_str(), device->recording().header.machine.c_str());
  PrintFit(*device);
  const bool searches = TRY(CompareSearches(device, comparison.searches, options));
  const bool schedulers = TRY(CompareSchedulers(device, comparison.schedulers, options));
  std::printf("%.1f s, %.1f s of them to read the recording and fit the model\n", SteadySeconds() - begin,
              fitted - begin);
  if (searches && schedulers) return 0;
  std::printf("a variant that was made worse on purpose does not rank last: this comparison is not reliable\n");
  return 1;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  return autotune::bench::ExitCode("bench_search_sim", autotune::bench::Main(argc, argv));
}
