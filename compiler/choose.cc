#include "compiler/choose.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "ir/text.h"
#include "package/load.h"
#include "runtime/cpu_device.h"
#include "runtime/fill.h"
#include "runtime/paired_runs.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "support/rng.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// Kernels per task besides the default one. Every block runs each of them, so more kernels mean fewer blocks.
constexpr int kCompetitors = 2;
constexpr double kBlocksShare = 0.4;      // share of the time for the blocks; the rest is for builds and comparisons
constexpr double kLeastComparison = 0.5;  // least share of that rest for one comparison, however long builds took
constexpr int kLoads = 2;                 // times that each package is loaded at each number of threads
constexpr int kMinPairsPerLoad = 5;       // ten pairs in two loads; an interval needs six
constexpr int kMinBlocks = 8;             // per number of threads; six for an interval, and two in reserve
constexpr int kMaxBlocks = 400;           // intervals shrink only with the square root of the number of blocks
constexpr double kVisitSeconds = 2e-3;    // duration of a visit: the runs of one combination in a block
constexpr int kMaxRunsPerVisit = 8;
constexpr double kTurnSeconds = 5;     // time for which one turn of blocks holds the host's lock
constexpr int kBetweenTurns = 20'000;  // pause in microseconds; processes that wait for the lock poll more often
// Longest planned comparison of two loaded packages, in seconds. It holds the host's lock, for which other measurements
// wait for at most 30 s.
constexpr double kLongestTurn = 20;

bool Stopped(const ChooseOptions& options) { return options.stop && *options.stop; }

// Locks the host for the measurements of one choice.
class Host {
 public:
  explicit Host(const ChooseOptions& options) : options_(options) {}
  // Returns nothing if other processes do not release the lock in time. The measurement then runs beside them.
  Result<std::optional<HostLock>> Lock() {
    std::optional<HostLock> lock =
        TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, options_.host_patience_ms, options_.stop));
    undisturbed_ &= lock.has_value();
    return lock;
  }
  bool undisturbed() const { return undisturbed_; }  // true: every call of Lock got the lock

 private:
  const ChooseOptions& options_;
  bool undisturbed_ = true;
};

// The network with several kernels for each task. It can run with any combination of these kernels.
class Combinations {
 public:
  static Result<std::unique_ptr<Combinations>> Make(const Network& network, const Target& target,
                                                    const KernelVariants& variants, const ChooseOptions& options) {
    std::unique_ptr<Combinations> made(new Combinations(variants, options));
    ExecutionPlan plan = TRY(MakePlan(network.main(), CodeOfNodes(network, target)));
    // The plan's nodes are inputs and constants, then the network's nodes in their order.
    const std::vector<int> task_of_node = TaskOfNodes(network);
    size_t first = plan.graph.nodes.size() - task_of_node.size();
    made->nodes_of_task_.resize(network.tasks.size());
    for (size_t i = 0; i < task_of_node.size(); ++i) {
      if (task_of_node[i] < 0) continue;
      made->nodes_of_task_[task_of_node[i]].push_back(static_cast<int64_t>(first + i));
      made->task_of_name_[plan.graph.nodes[first + i].name] = task_of_node[i];
    }
    made->context_ = std::make_shared<KernelContext>(target.num_cores);
    Module library = MakeLibraryModule(TRY(Artifact::FromBytes(variants.library)), made->context_);
    made->executor_ = TRY(GraphExecutor::Create(std::move(plan.graph), std::move(library), std::move(plan.params),
                                                {std::make_shared<CpuDevice>(made->context_)}, {.replaceable = true}));
    TRY(FillInputs(*made->executor_, 0));
    return made;
  }

  int variants(size_t task) const { return static_cast<int>(variants_.names[task].size()); }
  int most_variants() const {
    int most = 1;
    for (const auto& names : variants_.names) most = std::max(most, static_cast<int>(names.size()));
    return most;
  }

  // Runs the network with one variant for each task. Returns the time of each task, summed over its nodes.
  Result<std::vector<double>> Run(const Variants& combination, bool serial) {
    if (Stopped(options_)) return Err("stopped");
    context_->SetSerial(serial);
    for (size_t task = 0; task < combination.size(); ++task) {
      for (int64_t node : nodes_of_task_[task])
        TRY(executor_->ReplaceKernel(node, variants_.names[task][combination[task]]));
    }
    // The first sample begins with a run of the whole network, which brings this combination's code and data into the
    // caches before the kernels are timed.
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
  Combinations(const KernelVariants& variants, const ChooseOptions& options) : variants_(variants), options_(options) {}

  const KernelVariants& variants_;
  const ChooseOptions& options_;
  std::shared_ptr<KernelContext> context_;
  std::unique_ptr<GraphExecutor> executor_;
  std::vector<std::vector<int64_t>> nodes_of_task_;  // by task: nodes of the plan
  std::map<std::string, int> task_of_name_;          // name of a node of the plan -> its task
};

// The times of every task's variants in each block, relative to the task's default kernel.
class BlockTimes {
 public:
  explicit BlockTimes(const Combinations& combinations, size_t tasks) {
    for (size_t task = 0; task < tasks; ++task) ratios_.emplace_back(combinations.variants(task));
  }

  // Measures one block. The network runs one combination in each visit, and each task runs all of its variants.
  Status Run(Combinations& combinations, int visits, bool serial, Rng& rng) {
    std::vector<Variants> drawn(visits, Variants(ratios_.size()));
    for (size_t task = 0; task < ratios_.size(); ++task) {
      std::vector<int> order = DrawOrder(combinations.variants(task), visits, rng);
      for (int visit = 0; visit < visits; ++visit) drawn[visit][task] = order[visit];
    }
    std::vector<std::vector<double>> sums, counts;
    for (const auto& ratios : ratios_) {
      sums.emplace_back(ratios.size());
      counts.emplace_back(ratios.size());
    }
    for (const Variants& combination : drawn) {
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
  // Returns the variant of each visit: every variant at least once, in random order.
  static std::vector<int> DrawOrder(int variants, int visits, Rng& rng) {
    std::vector<int> order(visits);
    for (int i = 0; i < visits; ++i) order[i] = i < variants ? i : static_cast<int>(rng.Below(variants));
    for (int i = visits - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i + 1)]);
    return order;
  }

  std::vector<std::vector<std::vector<double>>> ratios_;  // [task][variant][block]
};

// Measures blocks and returns the variant that each task should run.
Result<Variants> ChooseVariants(const Network& network, const Target& target, const KernelVariants& variants,
                                const ChooseOptions& options, Host& host) {
  Variants chosen(network.tasks.size(), 0);
  std::unique_ptr<Combinations> combinations = TRY(Combinations::Make(network, target, variants, options));
  const int visits = combinations->most_variants();
  if (visits == 1) return chosen;
  const int modes = target.num_cores > 1 ? 2 : 1;  // numbers of threads: all, and one
  std::vector<BlockTimes> times(modes, BlockTimes(*combinations, network.tasks.size()));
  Rng rng(options.seed);
  double spent = 0;
  const double budget = kBlocksShare * options.max_seconds;
  for (int block = 0; block < kMaxBlocks && (block < kMinBlocks || spent < budget);) {
    if (block > 0) usleep(kBetweenTurns);
    std::optional<HostLock> alone = TRY(host.Lock());
    const double turn = SteadySeconds();
    do {
      for (int mode = 0; mode < modes; ++mode) TRY(times[mode].Run(*combinations, visits, mode == 1, rng));
      ++block;
    } while (SteadySeconds() - turn < std::min(kTurnSeconds, budget - spent) && block < kMaxBlocks);
    spent += SteadySeconds() - turn;
    if (options.on_progress) options.on_progress(kBlocksShare * std::min(1.0, spent / std::max(budget, 1e-9)));
  }
  for (size_t task = 0; task < chosen.size(); ++task) {
    double best = 0;  // sum of logarithms
    for (int v = 1; v < combinations->variants(task); ++v) {
      bool faster = false, slower = false;
      double score = 0;
      for (const BlockTimes& mode : times) {
        MedianInterval ratio = mode.Ratio(task, v);
        faster |= ratio.high < 1;
        slower |= ratio.low > 1;
        score += std::log(ratio.median);
      }
      if (faster && !slower && score < best) best = score, chosen[task] = v;
    }
  }
  return chosen;
}

// Compares two packages of one network at one number of threads. The ratios are second / first.
class PackageRace {
 public:
  PackageRace(const Package& first, const Package& second, int threads, const ChooseOptions& options, Host& host)
      : first_(first), second_(second), threads_(threads), options_(options), host_(host) {}

  // Runs the packages in turns for `seconds`. The addresses of an instance's memory influence its times, so the
  // packages are loaded twice, in both orders.
  Status Run(double seconds) {
    for (int load = 0; load < kLoads; ++load) {
      const bool reversed = load % 2 == 1;
      LoadedModel one = TRY(LoadModel(reversed ? second_ : first_, threads_));
      LoadedModel other = TRY(LoadModel(reversed ? first_ : second_, threads_));
      for (LoadedModel* model : {&one, &other}) TRY(FillInputs(*model->executor, 0));
      auto runner = [&](LoadedModel& model) {
        return [&]() -> Status { return Stopped(options_) ? Status(Err("stopped")) : model.executor->Run(); };
      };
      std::optional<HostLock> alone = TRY(host_.Lock());
      PairedTimes times = TRY(RunInPairs(runner(reversed ? other : one), runner(reversed ? one : other),
                                         {.half_width = kResolution,
                                          .max_seconds = std::min(seconds / kLoads, kLongestTurn),
                                          .min_pairs = kMinPairsPerLoad}));
      ratios_.insert(ratios_.end(), times.ratios.begin(), times.ratios.end());
      first_times_.push_back(times.first_seconds);
      second_times_.push_back(times.second_seconds);
    }
    return {};
  }

  bool Undecided() const { return IsUndecided(MedianWithInterval(ratios_)); }

  NetworkComparison Compared() const {
    const MedianInterval ratio = MedianWithInterval(ratios_);
    return {.threads = threads_,
            .default_seconds = Median(first_times_),
            .chosen_seconds = Median(second_times_),
            .ratio = ratio.median,
            .ratio_low = ratio.low,
            .ratio_high = ratio.high,
            .pairs = static_cast<int>(ratios_.size())};
  }

 private:
  const Package &first_, &second_;
  const int threads_;
  const ChooseOptions& options_;
  Host& host_;
  std::vector<double> ratios_, first_times_, second_times_;
};

// Compares two packages at each number of threads, in `seconds` in all. Goes on once where that decides nothing: every
// further look at the interval would make it likelier that chance decides.
Result<std::vector<NetworkComparison>> ComparePackages(const Package& first, const Package& second, int cores,
                                                       double seconds, const ChooseOptions& options, Host& host) {
  std::vector<PackageRace> races = {{first, second, cores, options, host}};
  if (cores > 1) races.emplace_back(first, second, 1, options, host);
  const double count = static_cast<double>(races.size());
  double done = 0;
  for (PackageRace& race : races) {
    TRY(race.Run(seconds / count));
    if (options.on_progress) options.on_progress(kBlocksShare + (1 - kBlocksShare) * ++done / count);
  }
  const auto open = std::count_if(races.begin(), races.end(), [](const PackageRace& race) { return race.Undecided(); });
  std::vector<NetworkComparison> comparisons;
  for (PackageRace& race : races) {
    if (race.Undecided()) TRY(race.Run(options.max_extra_seconds / static_cast<double>(open)));
    comparisons.push_back(race.Compared());
  }
  return comparisons;
}

void SetSchedules(NetworkChoice& choice, const Network& network, const KernelVariants& variants,
                  const Variants& chosen) {
  choice.schedules.clear();
  for (size_t i = 0; i < chosen.size(); ++i) {
    const KernelChoice& kernel = variants.choices[i][chosen[i]];
    const PrimFunc program = ProgramOf(network, *kernel.task, kernel.alternative);
    choice.schedules.push_back({.task = kernel.task->hash.Hex(),
                                .alternative = kernel.alternative,
                                .func_hash = HashBytes128(ToText(program)).Hex(),
                                .trace = kernel.trace,
                                .seconds = kernel.tuned ? kernel.seconds : 0});
  }
}

std::vector<MedianInterval> RatiosOf(const std::vector<NetworkComparison>& comparisons) {
  std::vector<MedianInterval> ratios;
  for (const NetworkComparison& c : comparisons) ratios.push_back({c.ratio_low, c.ratio, c.ratio_high});
  return ratios;
}

std::vector<MedianInterval> Inverse(std::vector<MedianInterval> ratios) {
  for (MedianInterval& ratio : ratios) ratio = {1 / ratio.high, 1 / ratio.median, 1 / ratio.low};
  return ratios;
}

// Returns the variant of each task that `choice` runs. Returns nothing if a schedule of `choice` is not a variant.
std::optional<Variants> VariantsOf(const NetworkChoice& choice, const KernelVariants& variants) {
  Variants found;
  for (const std::vector<KernelChoice>& kernels : variants.choices) {
    const ChosenSchedule* schedule = choice.Find(kernels[0].task->hash.Hex());
    if (!schedule) return std::nullopt;
    auto place = std::find_if(kernels.begin(), kernels.end(), [&](const KernelChoice& kernel) {
      return kernel.alternative == schedule->alternative && kernel.trace == schedule->trace;
    });
    if (place == kernels.end()) return std::nullopt;
    found.push_back(static_cast<int>(place - kernels.begin()));
  }
  return found;
}

// Returns a hash of the schedules of all tasks. It does not depend on the order of a task's schedules, since
// BuildVariants puts those of an earlier choice before those of records.
std::string HashOf(const KernelVariants& variants) {
  std::string text;
  for (const std::vector<KernelChoice>& kernels : variants.choices) {
    std::set<std::string> schedules;
    for (const KernelChoice& kernel : kernels) schedules.insert(kernel.alternative + '\n' + kernel.trace + '\n');
    text += kernels[0].task->hash.Hex() + '\n';
    for (const std::string& schedule : schedules) text += schedule;
  }
  return HashBytes128(text).Hex();
}

class Chooser {
 public:
  Chooser(const Network& network, const Target& target, RecordStore& store, Builder& builder,
          const ChooseOptions& options)
      : network_(network), target_(target), store_(store), compiler_(builder), options_(options) {}

  Result<ChosenNetwork> Choose() {
    ChosenNetwork result;
    NetworkChoice& choice = result.choice;
    choice.model = network_.name;
    choice.network = StructureHash(network_);
    choice.target = target_.Text();
    choice.versions = CurrentVersions();
    choice.created_at = WallMillis();
    std::optional<NetworkChoice> previous = TRY(FindChoice(store_, choice.network, choice.target));
    if (previous && !IsCurrent(*previous)) previous.reset();
    const ScheduleSources sources{.store = &store_, .choice = previous ? &*previous : nullptr};
    variants_ = TRY(BuildVariants(network_, target_, sources, kCompetitors, compiler_));
    for (const auto& kernels : variants_.choices) result.tasks_with_records += kernels.size() > 1;
    choice.compared = HashOf(variants_);
    const Variants untuned(network_.tasks.size(), 0);
    Variants chosen = untuned;
    std::optional<Variants> before;
    if (previous) before = VariantsOf(*previous, variants_);
    if (before && previous->compared == choice.compared) {
      result.same_schedules = true;
      choice = *previous;
      choice.model = network_.name;  // older versions did not store it
      chosen = *before;
    } else {
      if (before == untuned) before.reset();
      if (result.tasks_with_records > 0) chosen = TRY(ChooseVariants(network_, target_, variants_, options_, host_));
      auto compare = [&](const Variants& first, const Variants& second) { return Compare(first, second); };
      NetworkDecision decision = TRY(DecideVariants(untuned, before, chosen, compare));
      chosen = std::move(decision.chosen);
      choice.comparisons = std::move(decision.comparisons);
      result.refusal = std::move(decision.refusal);
      SetSchedules(choice, network_, variants_, chosen);
    }
    result.kept_defaults = chosen == untuned;
    result.kept_previous = before && !result.kept_defaults && chosen == *before;
    result.compiled = TRY(CompileCombination(chosen));
    for (const ChosenSchedule& schedule : choice.schedules) result.tuned_tasks += schedule.seconds > 0;
    result.undisturbed = host_.undisturbed();
    result.seconds = SteadySeconds() - begin_;
    return result;
  }

 private:
  Result<CompileResult> CompileCombination(const Variants& combination) {
    if (Stopped(options_)) return Err("stopped");
    NetworkChoice choice;
    SetSchedules(choice, network_, variants_, combination);
    CompileResult result = TRY(CompileFrom(network_, target_, {.choice = &choice}, compiler_));
    for (size_t i = 0; i < combination.size(); ++i) {
      if (result.choices[i].trace != choice.schedules[i].trace)
        return Err("the selected schedule of ", network_.tasks[i].label, " does not build any more");
    }
    return result;
  }

  Result<std::vector<NetworkComparison>> Compare(const Variants& first, const Variants& second) {
    Package one = TRY(CompileCombination(first)).package, other = TRY(CompileCombination(second)).package;
    const double least = kLeastComparison * (1 - kBlocksShare) * options_.max_seconds;
    return ComparePackages(one, other, target_.num_cores,
                           std::max(least, options_.max_seconds - (SteadySeconds() - begin_)), options_, host_);
  }

  const double begin_ = SteadySeconds();
  const Network& network_;
  const Target& target_;
  RecordStore& store_;
  KernelCompiler compiler_;
  const ChooseOptions& options_;
  Host host_{options_};
  KernelVariants variants_;
};

}  // namespace

Result<NetworkDecision> DecideVariants(const Variants& untuned, const std::optional<Variants>& before,
                                       const Variants& selected, const VariantComparer& compare) {
  NetworkDecision decision{.chosen = before && selected == untuned ? *before : selected};
  // The selected schedules must beat the previous choice first, then the default schedules.
  if (before && decision.chosen != *before) {
    const std::vector<NetworkComparison> comparisons = TRY(compare(*before, selected));
    const ChangeVerdict verdict = JudgeChange(RatiosOf(comparisons));
    if (verdict.kind != ChangeKind::kGain) {
      decision.refusal = RefusedChange{.kind = verdict.kind, .at = comparisons[verdict.at]};
      decision.chosen = *before;
    }
  }
  while (decision.chosen != untuned) {
    decision.comparisons = TRY(compare(untuned, decision.chosen));
    const std::vector<MedianInterval> ratios = RatiosOf(decision.comparisons);
    // The earlier choice of the store stays, unless the default schedules are faster than it by the same rule.
    const bool previous = decision.chosen == before;
    const ChangeVerdict verdict = JudgeChange(previous ? Inverse(ratios) : ratios);
    if ((verdict.kind == ChangeKind::kGain) != previous) return decision;
    decision.refusal = RefusedChange{.kind = previous ? ChangeKind::kLoss : verdict.kind,
                                     .of_previous = previous,
                                     .against_default = true,
                                     .at = decision.comparisons[verdict.at]};
    // Selected schedules that lose to the defaults say nothing of the store's choice, which once beat the defaults.
    decision.chosen = before && !previous ? *before : untuned;
  }
  return decision;
}

Result<ChosenNetwork> ChooseSchedules(const Network& network, const Target& target, RecordStore& store,
                                      Builder& builder, const ChooseOptions& options) {
  Result<ChosenNetwork> chosen = Chooser(network, target, store, builder, options).Choose();
  if (Stopped(options)) return ChosenNetwork{.stopped = true};
  return chosen;
}

}  // namespace autotune
