#include "compiler/choose_variants.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "compiler/plan.h"
#include "runtime/graph_executor.h"
#include "runtime/network_variants.h"
#include "support/rng.h"

namespace autotune {
namespace {

constexpr int kMinBlocks = 8;    // per number of threads; six for an interval, and two in reserve
constexpr int kMaxBlocks = 400;  // intervals shrink only with the square root of the number of blocks

// One run of the network with one kernel for each task.
struct Visit {
  size_t mode = 0;  // index of the number of threads
  Variants combination;
};

// The times of every task's variants in each block, relative to the task's default kernel.
class BlockTimes {
 public:
  explicit BlockTimes(const KernelVariants& variants) {
    for (const auto& names : variants.names) ratios_.emplace_back(names.size());
  }

  // Draws the combinations of one block: each task runs each of its variants at least once, in random order.
  std::vector<Variants> Draw(int visits, Rng& rng) const {
    std::vector<Variants> drawn(visits, Variants(ratios_.size()));
    for (size_t task = 0; task < ratios_.size(); ++task) {
      const auto variants = static_cast<int>(ratios_[task].size());
      std::vector<int> order(visits);
      for (int i = 0; i < visits; ++i) order[i] = i < variants ? i : static_cast<int>(rng.Below(variants));
      for (int i = visits - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i + 1)]);
      for (int visit = 0; visit < visits; ++visit) drawn[visit][task] = order[visit];
    }
    return drawn;
  }

  // Adds a visit to the present block.
  void Add(const Variants& combination, std::span<const double> seconds) {
    sums_.resize(ratios_.size());
    counts_.resize(ratios_.size());
    for (size_t task = 0; task < ratios_.size(); ++task) {
      sums_[task].resize(ratios_[task].size());
      counts_[task].resize(ratios_[task].size());
      sums_[task][combination[task]] += seconds[task];
      counts_[task][combination[task]] += 1;
    }
  }

  void EndBlock() {
    for (size_t task = 0; task < ratios_.size(); ++task) {
      constexpr double kLeast = 1e-9;  // the step of the clock in seconds, so that every ratio is a number
      const auto mean = [&](size_t v) { return std::max(kLeast, sums_[task][v] / counts_[task][v]); };
      for (size_t v = 1; v < ratios_[task].size(); ++v) ratios_[task][v].push_back(mean(v) / mean(0));
    }
    sums_.clear();
    counts_.clear();
  }

  MedianInterval Ratio(size_t task, int variant) const { return MedianWithInterval(ratios_[task][variant]); }

 private:
  std::vector<std::vector<std::vector<double>>> ratios_;  // [task][variant][block]
  std::vector<std::vector<double>> sums_, counts_;        // of the present block: [task][variant]
};

// Measures blocks on a host. It goes on where it was after the host has lost its device.
class BlockRuns {
 public:
  BlockRuns(const Network& network, const Target& target, const KernelVariants& variants, NetworkHost& host,
            const VariantOptions& options)
      : network_(network),
        variants_(variants),
        host_(host),
        options_(options),
        threads_(ComparedThreads(target)),
        times_(threads_.size(), BlockTimes(variants)),
        rng_(options.seed) {
    for (const auto& names : variants.names) visits_ = std::max(visits_, static_cast<int>(names.size()));
  }

  int visits() const { return visits_; }  // of a block
  const std::vector<BlockTimes>& times() const { return times_; }

  Status Run(const Target& target) {
    Package package = TRY(PackageOf(target));
    return RunTurn(host_, [&]() -> Status {
      const Module executor = TRY(host_.Load(package, threads_[0], /*replaceable=*/true));
      TRY(FillInputs(network_, executor));
      const PackedFunc visit = TRY(executor->GetFunction("time_variants"));
      while (blocks_ < kMinBlocks || (spent_ < options_.seconds && blocks_ < kMaxBlocks)) {
        if (options_.stop && *options_.stop) return Error("stopped", ErrorKind::kStopped);
        TRY(Measure(visit));
        if (options_.on_progress) options_.on_progress(std::min(1.0, spent_ / std::max(options_.seconds, 1e-9)));
      }
      return {};
    });
  }

 private:
  // Returns the network with all kernels of all tasks, and finds out which nodes run which task.
  Result<Package> PackageOf(const Target& target) {
    ExecutionPlan plan = TRY(MakePlan(network_.main(), CodeOfNodes(network_, target)));
    std::vector<TaskVariants> tasks(network_.tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) tasks[i].kernels = variants_.names[i];
    const std::vector<int> task_of_node = TaskOfNodes(network_);
    for (size_t i = 0; i < task_of_node.size(); ++i)
      if (task_of_node[i] >= 0) tasks[task_of_node[i]].nodes.push_back(plan.place[i]);
    tasks_ = ToJson(tasks).Dump();
    Package package;
    package.graph_json = plan.graph.ToText();
    package.params = ParamsBytes(plan.params);
    package.library = variants_.library;
    return package;
  }

  // Measures some of the drawn visits in one call.
  Status Measure(const PackedFunc& visit) {
    const double per_visit = made_ > 0 ? spent_ / static_cast<double>(made_) : NetworkHost::kTurnSeconds;
    const double wanted =
        std::clamp(NetworkHost::kTurnSeconds / std::max(per_visit, 1e-6), 1.0 * visits_, 1.0 * kMaxBlocks);
    while (static_cast<double>(drawn_.size()) < wanted) DrawBlock();
    const auto count = static_cast<int64_t>(wanted), tasks = static_cast<int64_t>(network_.tasks.size());
    const Tensor variants = TRY(Tensor::Empty({count, tasks}, "i64")), serial = TRY(Tensor::Empty({count}, "i64"));
    for (int64_t i = 0; i < count; ++i) {
      const Visit& drawn = drawn_[static_cast<size_t>(i)];
      std::copy(drawn.combination.begin(), drawn.combination.end(), variants.Data<int64_t>() + i * tasks);
      serial.Data<int64_t>()[i] = threads_[drawn.mode] == 1;
    }
    const std::vector<Value> args = {Value(tasks_), Value(variants), Value(serial), Value(NetworkHost::kTurnSeconds)};
    const Tensor made = TRY(TRY(host_.Measure(visit, args)).As<Tensor>());
    if (!made.defined() || made.device() || made.shape().size() != 2 || made.shape()[0] < 1 ||
        made.shape()[0] > count || made.shape()[1] != 1 + tasks || !(made.dtype() == DLDataType{kDLFloat, 64, 1}))
      return Err("the device answered with a malformed list of times");
    for (int64_t i = 0; i < made.shape()[0]; ++i)
      TRY(Take({made.Data<double>() + i * (1 + tasks), static_cast<size_t>(1 + tasks)}));
    return {};
  }

  // Adds the times of the first drawn visit.
  Status Take(std::span<const double> seconds) {
    for (double time : seconds)
      if (!std::isfinite(time) || time < 0) return Err("the device answered with a malformed list of times");
    const Visit visit = std::move(drawn_.front());
    drawn_.pop_front();
    spent_ += seconds[0];
    ++made_;
    times_[visit.mode].Add(visit.combination, seconds.subspan(1));
    if (++in_block_ < visits_) return {};
    times_[visit.mode].EndBlock();
    in_block_ = 0;
    blocks_ += visit.mode + 1 == times_.size();
    return {};
  }

  // Draws one block for each number of threads.
  void DrawBlock() {
    for (size_t mode = 0; mode < times_.size(); ++mode)
      for (Variants& combination : times_[mode].Draw(visits_, rng_)) drawn_.push_back({mode, std::move(combination)});
  }

  const Network& network_;
  const KernelVariants& variants_;
  NetworkHost& host_;
  const VariantOptions& options_;
  const std::vector<int> threads_;
  std::vector<BlockTimes> times_;  // by number of threads
  Rng rng_;
  int visits_ = 1;
  std::string tasks_;        // for time_variants
  std::deque<Visit> drawn_;  // visits that are not measured yet
  int in_block_ = 0;         // visits of the present block that are measured
  int blocks_ = 0;           // blocks that are measured at every number of threads
  int64_t made_ = 0;         // visits that are measured, and
  double spent_ = 0;         // their duration
};

}  // namespace

Result<Variants> SelectVariants(const Network& network, const Target& target, const KernelVariants& variants,
                                NetworkHost& host, const VariantOptions& options) {
  Variants chosen(network.tasks.size(), 0);
  BlockRuns runs(network, target, variants, host, options);
  if (runs.visits() == 1) return chosen;
  TRY(runs.Run(target));
  for (size_t task = 0; task < chosen.size(); ++task) {
    double best = 0;  // sum of logarithms
    for (int v = 1; v < static_cast<int>(variants.names[task].size()); ++v) {
      bool faster = false, slower = false;
      double score = 0;
      for (const BlockTimes& mode : runs.times()) {
        const MedianInterval ratio = mode.Ratio(task, v);
        faster |= ratio.high < 1;
        slower |= ratio.low > 1;
        score += std::log(ratio.median);
      }
      if (faster && !slower && score < best) best = score, chosen[task] = v;
    }
  }
  return chosen;
}

std::vector<int> ComparedThreads(const Target& target) {
  if (target.IsGpu()) return {0};
  return target.num_cores > 1 ? std::vector<int>{target.num_cores, 1} : std::vector<int>{1};
}

Status FillInputs(const Network& network, const Module& executor) {
  const graph::Graph& main = network.main();
  for (size_t i = 0; i < main.inputs.size(); ++i) {
    const graph::TensorSpec& spec = main.Spec(main.inputs[i]);
    TRY(FillInput(executor, static_cast<int64_t>(i), spec.shape, spec.dtype.Text(), 0));
  }
  return {};
}

}  // namespace autotune
