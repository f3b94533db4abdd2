#include "compiler/choose.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "ir/text.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "runtime/kernel_context.h"
#include "runtime/paired_runs.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "support/rng.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCompetitors = 2;       // per task, beside the default: more would each be measured less
constexpr double kBlocksShare = 0.4;  // of the time, for the blocks; the rest is for building and the last comparison
constexpr double kLeastComparison = 0.5;  // of the last comparison's share, whatever building took
constexpr int kMinBlocks = 8;             // per number of threads: six give an interval, two may be disturbed
constexpr int kMaxBlocks = 400;           // intervals shrink with the root of their number
constexpr double kVisitSeconds = 2e-3;    // a combination runs about this long
constexpr int kMaxRunsPerVisit = 8;
constexpr double kTurnSeconds = 5;       // how long others who build or measure are kept waiting
constexpr int kBetweenTurns = 20'000;    // microseconds: longer than others who want the lock sleep
constexpr double kLongestTurn = 20;      // a comparison is one turn: shorter than the patience of others
constexpr int kHostPatienceMs = 30'000;  // how long to wait for them

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool Stopped(const ChooseOptions& options) { return options.stop && *options.stop; }

// The network with several kernels for each task, of which any combination can run.
class Combinations {
 public:
  static Result<std::unique_ptr<Combinations>> Make(const Network& network, const Target& target,
                                                    const KernelVariants& variants) {
    std::unique_ptr<Combinations> made(new Combinations(variants));
    std::vector<std::string> kernel_of_node;
    for (int task : network.task_of_node) kernel_of_node.push_back(task < 0 ? "" : variants.names[task][0]);
    ExecutionPlan plan = TRY(MakePlan(network.graph, kernel_of_node));
    // The plan's nodes are inputs and constants, then the network's nodes in their order.
    size_t first = plan.graph.nodes.size() - network.graph.nodes.size();
    made->nodes_of_task_.resize(network.tasks.size());
    for (size_t i = 0; i < network.graph.nodes.size(); ++i) {
      if (network.task_of_node[i] < 0) continue;
      made->nodes_of_task_[network.task_of_node[i]].push_back(static_cast<int64_t>(first + i));
      made->task_of_name_[plan.graph.nodes[first + i].name] = network.task_of_node[i];
    }
    std::vector<std::shared_ptr<const Artifact>> libraries;
    libraries.push_back(TRY(Artifact::FromBytes(variants.library)));
    made->context_ = std::make_shared<KernelContext>(target.num_cores);
    made->executor_ = TRY(GraphExecutor::Create(std::move(plan.graph), std::move(libraries), std::move(plan.params),
                                                made->context_, {.replaceable = true}));
    for (int64_t i = 0; i < made->executor_->num_inputs(); ++i) FillRandom(made->executor_->Input(i), 0);
    return made;
  }

  int variants(size_t task) const { return static_cast<int>(variants_.names[task].size()); }
  int most_variants() const {
    int most = 1;
    for (const auto& names : variants_.names) most = std::max(most, static_cast<int>(names.size()));
    return most;
  }

  // Runs with these variants, one for each task; returns the time of each task: the sum over its nodes.
  Result<std::vector<double>> Run(const std::vector<int>& combination, bool serial) {
    context_->SetSerial(serial);
    for (size_t task = 0; task < combination.size(); ++task) {
      for (int64_t node : nodes_of_task_[task])
        TRY(executor_->ReplaceKernel(node, variants_.names[task][combination[task]]));
    }
    // The first sample begins with a run of the network, which brings what this combination uses into the caches.
    ProfileSamples samples;
    TRY(executor_->AddProfileSamples(1, samples));
    double runs = std::clamp(kVisitSeconds / std::max(samples.network[0], 1e-9), 1.0, 0.0 + kMaxRunsPerVisit);
    TRY(executor_->AddProfileSamples(static_cast<int>(runs) - 1, samples));
    std::vector<double> seconds(combination.size(), 0.0);
    for (const NodeTime& time : TRY(executor_->NodeTimes(samples))) {
      auto task = task_of_name_.find(time.name);
      if (task != task_of_name_.end()) seconds[task->second] += time.seconds;
    }
    return seconds;
  }

 private:
  explicit Combinations(const KernelVariants& variants) : variants_(variants) {}

  const KernelVariants& variants_;
  std::shared_ptr<KernelContext> context_;
  std::unique_ptr<GraphExecutor> executor_;
  std::vector<std::vector<int64_t>> nodes_of_task_;  // in the plan
  std::map<std::string, int> task_of_name_;          // of a node of the plan
};

// The times of every task's variants as ratios to its default's, block by block.
class BlockTimes {
 public:
  explicit BlockTimes(const Combinations& combinations, size_t tasks) {
    for (size_t task = 0; task < tasks; ++task) ratios_.emplace_back(combinations.variants(task));
  }

  // One block: in each of `visits` the network runs a combination; each task meets all of its variants.
  Status Run(Combinations& combinations, int visits, bool serial, Rng& rng) {
    std::vector<std::vector<int>> drawn(visits, std::vector<int>(ratios_.size()));
    for (size_t task = 0; task < ratios_.size(); ++task) {
      std::vector<int> order = DrawOrder(combinations.variants(task), visits, rng);
      for (int visit = 0; visit < visits; ++visit) drawn[visit][task] = order[visit];
    }
    std::vector<std::vector<double>> sums, counts;
    for (const auto& ratios : ratios_) {
      sums.emplace_back(ratios.size());
      counts.emplace_back(ratios.size());
    }
    for (const std::vector<int>& combination : drawn) {
      std::vector<double> seconds = TRY(combinations.Run(combination, serial));
      for (size_t task = 0; task < seconds.size(); ++task) {
        sums[task][combination[task]] += seconds[task];
        counts[task][combination[task]] += 1;
      }
    }
    for (size_t task = 0; task < ratios_.size(); ++task) {
      double untuned = sums[task][0] / counts[task][0];
      for (size_t v = 1; v < ratios_[task].size(); ++v)
        ratios_[task][v].push_back(sums[task][v] / counts[task][v] / untuned);
    }
    return {};
  }

  MedianInterval Ratio(size_t task, int variant) const { return MedianWithInterval(ratios_[task][variant]); }

 private:
  // Each of `variants` at least once, in a random order.
  static std::vector<int> DrawOrder(int variants, int visits, Rng& rng) {
    std::vector<int> order(visits);
    for (int i = 0; i < visits; ++i) order[i] = i < variants ? i : static_cast<int>(rng.Below(variants));
    for (int i = visits - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i + 1)]);
    return order;
  }

  std::vector<std::vector<std::vector<double>>> ratios_;  // [task][variant][block]
};

// The variant that each task shall run.
Result<std::vector<int>> ChooseVariants(const Network& network, const Target& target, const KernelVariants& variants,
                                        const ChooseOptions& options) {
  std::vector<int> chosen(network.tasks.size(), 0);
  std::unique_ptr<Combinations> combinations = TRY(Combinations::Make(network, target, variants));
  const int visits = combinations->most_variants();
  if (visits == 1) return chosen;
  const int modes = target.num_cores > 1 ? 2 : 1;  // all threads; one
  std::vector<BlockTimes> times(modes, BlockTimes(*combinations, network.tasks.size()));
  Rng rng(options.seed);
  double spent = 0;
  const double budget = kBlocksShare * options.max_seconds;
  for (int block = 0; block < kMaxBlocks && (block < kMinBlocks || spent < budget);) {
    if (block > 0) usleep(kBetweenTurns);
    std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kHostPatienceMs));
    Clock::time_point turn = Clock::now();
    do {
      if (Stopped(options)) return chosen;
      for (int mode = 0; mode < modes; ++mode) TRY(times[mode].Run(*combinations, visits, mode == 1, rng));
      ++block;
    } while (SecondsSince(turn) < std::min(kTurnSeconds, budget - spent) && block < kMaxBlocks);
    spent += SecondsSince(turn);
    if (options.on_progress) options.on_progress(kBlocksShare * std::min(1.0, spent / std::max(budget, 1e-9)));
  }
  for (size_t task = 0; task < chosen.size(); ++task) {
    double best = 0;  // sum of logarithms
    for (int v = 1; v < combinations->variants(task); ++v) {
      std::vector<MedianInterval> ratios;
      double score = 0;
      for (const BlockTimes& mode : times) {
        ratios.push_back(mode.Ratio(task, v));
        score += std::log(ratios.back().median);
      }
      if (IsImprovement(ratios) && score < best) best = score, chosen[task] = v;
    }
  }
  return chosen;
}

// Compares the untuned network with the tuned one at each number of threads, in `seconds` in all.
Result<std::vector<NetworkComparison>> ComparePackages(const Package& untuned, const Package& tuned, int cores,
                                                       double seconds, const ChooseOptions& options) {
  std::vector<int> thread_counts = {cores};
  if (cores > 1) thread_counts.push_back(1);
  std::vector<NetworkComparison> comparisons;
  for (int threads : thread_counts) {
    LoadedModel first = TRY(LoadModel(untuned, threads)), second = TRY(LoadModel(tuned, threads));
    for (LoadedModel* model : {&first, &second}) {
      for (int64_t i = 0; i < model->executor->num_inputs(); ++i) FillRandom(model->executor->Input(i), 0);
    }
    auto runner = [&](LoadedModel& model) {
      return [&]() -> Status { return Stopped(options) ? Status(Err("stopped")) : model.executor->Run(); };
    };
    std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kHostPatienceMs));
    double share = seconds / static_cast<double>(thread_counts.size());
    PairedTimes times =
        TRY(RunInPairs(runner(first), runner(second),
                       {.half_width = options.half_width, .max_seconds = std::min(share, kLongestTurn)}));
    comparisons.push_back({.threads = threads,
                           .default_seconds = times.first_seconds,
                           .chosen_seconds = times.second_seconds,
                           .ratio = times.ratio.median,
                           .ratio_low = times.ratio.low,
                           .ratio_high = times.ratio.high,
                           .pairs = times.pairs});
    if (options.on_progress) {
      double compared = static_cast<double>(comparisons.size()) / static_cast<double>(thread_counts.size());
      options.on_progress(kBlocksShare + (1 - kBlocksShare) * compared);
    }
  }
  return comparisons;
}

void SetSchedules(NetworkChoice& choice, const KernelVariants& variants, const std::vector<int>& chosen) {
  choice.schedules.clear();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const KernelChoice& kernel = variants.choices[i][chosen[i]];
    auto alternative = std::find_if(kernel.task->alternatives.begin(), kernel.task->alternatives.end(),
                                    [&](const TaskAlternative& a) { return a.name == kernel.alternative; });
    choice.schedules.push_back({.task = kernel.task->hash.Hex(),
                                .alternative = kernel.alternative,
                                .func_hash = HashBytes128(ToText(alternative->func)).Hex(),
                                .trace = kernel.trace,
                                .seconds = kernel.tuned ? kernel.seconds : 0});
  }
}

std::vector<MedianInterval> RatiosOf(const NetworkChoice& choice) {
  std::vector<MedianInterval> ratios;
  for (const NetworkComparison& c : choice.comparisons) ratios.push_back({c.ratio_low, c.ratio, c.ratio_high});
  return ratios;
}

int TunedTasks(const NetworkChoice& choice) {
  int tuned = 0;
  for (const ChosenSchedule& schedule : choice.schedules) tuned += schedule.seconds > 0;
  return tuned;
}

// By how much the choice is faster than the default schedules: the sum of logarithms over the numbers of threads.
double GainOf(const NetworkChoice& choice) {
  double gain = 0;
  for (const NetworkComparison& comparison : choice.comparisons) gain -= std::log(comparison.ratio);
  return gain;
}

}  // namespace

bool IsImprovement(const std::vector<MedianInterval>& ratios) {
  bool faster = false;
  for (const MedianInterval& ratio : ratios) {
    if (ratio.low > 1) return false;
    faster |= ratio.high < 1;
  }
  return faster;
}

Result<ChosenNetwork> ChooseSchedules(const Network& network, const Target& target, RecordStore& store,
                                      Builder& builder, const ChooseOptions& options) {
  Clock::time_point begin = Clock::now();
  ChosenNetwork result;
  NetworkChoice& choice = result.choice;
  choice.network = StructureHash(network);
  choice.target = target.Text();
  choice.versions = CurrentVersions();
  choice.created_at = WallMillis();
  std::optional<NetworkChoice> previous = TRY(FindChoice(store, choice.network, choice.target));
  if (previous && !IsCurrent(*previous)) previous.reset();
  const ScheduleSources sources{.store = &store, .choice = previous ? &*previous : nullptr};
  KernelCompiler compiler(builder);
  KernelVariants variants = TRY(BuildVariants(network.tasks, target, sources, kCompetitors, compiler));
  for (const auto& kernels : variants.choices) result.tasks_with_records += kernels.size() > 1;
  std::vector<int> untuned(network.tasks.size(), 0), chosen = untuned;
  if (result.tasks_with_records > 0) chosen = TRY(ChooseVariants(network, target, variants, options));
  SetSchedules(choice, variants, chosen);
  result.compiled = TRY(CompileFrom(network, target, {.choice = &choice}, compiler));
  result.kept_defaults = true;
  if (chosen != untuned && !Stopped(options)) {
    NetworkChoice defaults = choice;
    SetSchedules(defaults, variants, untuned);
    CompileResult plain = TRY(CompileFrom(network, target, {.choice = &defaults}, compiler));
    const double least = kLeastComparison * (1 - kBlocksShare) * options.max_seconds;
    Result<std::vector<NetworkComparison>> compared =
        ComparePackages(plain.package, result.compiled.package, target.num_cores,
                        std::max(least, options.max_seconds - SecondsSince(begin)), options);
    if (!compared.ok() && !Stopped(options)) return std::move(compared).error();
    if (compared.ok()) choice.comparisons = std::move(*compared);
    result.kept_defaults = !IsImprovement(RatiosOf(choice));
    if (result.kept_defaults) {
      choice.schedules = std::move(defaults.schedules);
      result.compiled = std::move(plain);
    }
  }
  if (previous && TunedTasks(*previous) > 0 && GainOf(*previous) >= (result.kept_defaults ? 0 : GainOf(choice))) {
    choice = std::move(*previous);
    result.compiled = TRY(CompileFrom(network, target, {.choice = &choice}, compiler));
    result.kept_defaults = false;
    result.kept_previous = true;
  }
  result.stopped = Stopped(options);
  result.tuned_tasks = TunedTasks(choice);
  result.seconds = SecondsSince(begin);
  return result;
}

}  // namespace autotune
