#include "tuner/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "ir/arithmetic.h"
#include "records/memory_store.h"
#include "schedule/trace.h"
#include "support/integer.h"
#include "tuner/parallel.h"
#include "tuner/points.h"

namespace autotune {
namespace {

constexpr int kInvertedDraws = 400;  // draws per call of Propose

// Draws points as the random search does, and proposes those with the worst draft scores.
class InvertedDraft : public SearchStrategy {
 public:
  InvertedDraft(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  Result<std::vector<Proposal>> Propose(int n) override {
    std::vector<Point> draws;
    for (int i = 0; i < kInvertedDraws; ++i) {
      Point point = DrawPoint(space_, rng_);
      if (std::isfinite(point.draft) && !closed_.Contains(point.hash)) draws.push_back(std::move(point));
    }
    SortByDraft(draws);
    std::reverse(draws.begin(), draws.end());
    std::vector<Proposal> proposals;
    for (const Point& draw : draws) {
      if (static_cast<int>(proposals.size()) == n) break;
      if (!closed_.Close(draw.hash)) continue;
      if (std::optional<Proposal> proposal = Realize(space_, draw, true)) proposals.push_back(std::move(*proposal));
    }
    return proposals;
  }
  void Observe(const Proposal& proposal, double) override { Exclude(proposal); }
  void Exclude(const Proposal& proposal) override {
    closed_.Close(HashPoint(space_, proposal.sketch, proposal.decisions));
  }

 private:
  const TaskSpace& space_;
  Rng rng_;
  ClosedPoints closed_;
};

// Measures the candidates of a run. After each of the given numbers of trials, it stores the true time of the schedule
// of each task that has the best measured cost so far.
class Follower : public Measurer {
 public:
  Follower(std::shared_ptr<const RecordedDevice> device, const RecordedMeasurerOptions& options,
           const SimulatedNetwork& network, const std::vector<int>& trials)
      : device_(device),
        measurer_(MakeRecordedMeasurer(device, options)),
        noisy_(options.noise > 0),
        network_(network),
        followed_(network.parts.size()),
        at_(trials),
        seconds_(trials.size(), std::vector<double>(network.parts.size(), 0)) {
    for (size_t i = 0; i < network.parts.size(); ++i) part_of_[device->tasks()[network.parts[i].task].hash] = i;
  }

  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    std::vector<Outcome> outcomes = TRY(measurer_->Measure(items, options));
    for (size_t i = 0; i < items.size(); ++i) {
      if (!WasExecuted(outcomes[i].status) || items[i].proposal.trace.empty()) continue;
      // Counts the first measurement of a trace only. The reference kernel of a batch, second measurements and the
      // confirmation are not trials.
      const size_t part = part_of_.at(items[i].space->task->hash);
      Followed& task = followed_[part];
      const std::string trace = ToText(items[i].proposal.trace);
      if (!task.true_seconds.try_emplace(trace, 0).second) continue;
      ++trials_;
      if (outcomes[i].status == TrialStatus::kOk) {
        double truth = noisy_ ? device_->Ask(*items[i].space, items[i].proposal).seconds : outcomes[i].cost;
        task.true_seconds[trace] = truth;
        if (outcomes[i].cost < task.best_cost) task.best_cost = outcomes[i].cost, task.best = truth;
      }
      for (size_t k = 0; k < at_.size(); ++k) {
        for (size_t p = 0; p < followed_.size() && trials_ <= at_[k]; ++p) seconds_[k][p] = followed_[p].best;
      }
    }
    return outcomes;
  }

  // Returns SimulatedRun::reached. Its last value is for the schedules that the run reports as the best.
  std::vector<double> Reached(const TuneReport& report) {
    for (size_t i = 0; i < report.tasks.size(); ++i) {
      auto chosen = followed_[i].true_seconds.find(report.tasks[i].best_trace);
      if (chosen != followed_[i].true_seconds.end()) seconds_.back()[i] = chosen->second;
    }
    std::vector<double> reached;
    for (const std::vector<double>& seconds : seconds_) reached.push_back(ReachedWith(seconds));
    return reached;
  }

 private:
  // The schedules of one task that were executed.
  struct Followed {
    std::unordered_map<std::string, double> true_seconds;  // by trace; 0 for a schedule that failed
    double best_cost = std::numeric_limits<double>::infinity(), best = 0;
  };

  double ReachedWith(const std::vector<double>& seconds) const {
    double best_known = 0, found = 0;
    for (size_t i = 0; i < seconds.size(); ++i) {
      const SimulatedNetwork::Part& part = network_.parts[i];
      if (seconds[i] == 0) return 0;
      best_known += part.weight * device_->recording().tasks[part.task].BestSeconds();
      found += part.weight * seconds[i];
    }
    return best_known / found;
  }

  std::shared_ptr<const RecordedDevice> device_;
  std::unique_ptr<Measurer> measurer_;
  bool noisy_;
  const SimulatedNetwork& network_;
  std::unordered_map<Hash128, size_t> part_of_;  // by hash of the task
  std::vector<Followed> followed_;               // by part
  const std::vector<int>& at_;                   // numbers of trials in all
  int trials_ = 0;
  std::vector<std::vector<double>> seconds_;  // [number of trials][part]
};

Status SimulateRun(const std::shared_ptr<const RecordedDevice>& device, const SimulatedNetwork& network,
                   const TuneVariant& variant, const SimulationOptions& options, SimulatedRun& run) {
  std::vector<int> trials = options.trials;
  for (int& number : trials) number *= static_cast<int>(network.parts.size());
  std::vector<TuneTask> tasks;
  for (const SimulatedNetwork::Part& part : network.parts) {
    tasks.push_back(device->tasks()[part.task]);
    tasks.back().weight = part.weight;
  }
  TuneOptions tune{.trials = trials.back(),
                   .seed = run.seed,
                   .search = variant.kind,
                   .make_search = variant.make_search,
                   .use_known = false,
                   .confirm = options.noise > 0,
                   .lock_host = false};
  if (variant.gain) tune.gain = variant.gain;
  std::unique_ptr<RecordStore> store = NewMemoryStore();
  Follower follower(device, {.noise = options.noise, .seed = run.seed}, network, trials);
  run.reached = follower.Reached(TRY(Tune(tasks, device->target(), tune, *store, follower)));
  return {};
}

}  // namespace

const std::vector<TuneVariant>& SearchVariants() {
  using Space = const TaskSpace&;
  // Variants that do not use the cost model have kind kRandom, for which the tune loop does not train it.
  static const std::vector<TuneVariant> variants = {
      {.name = "evolution", .description = "the tune loop's own search"},
      {.name = "draft",
       .description = "the tune loop's own search without a cost model",
       .kind = SearchKind::kRandom,
       .make_search = [](Space space, const CostModel*,
                         uint64_t seed) { return MakeEvolutionarySearch(space, nullptr, seed); }},
      {.name = "random", .description = "uniform draws", .worsened = true, .kind = SearchKind::kRandom},
      {.name = "inverted",
       .description = "the worst draft scores of uniform draws",
       .worsened = true,
       .kind = SearchKind::kRandom,
       .make_search = [](Space space, const CostModel*, uint64_t seed) {
         return std::make_unique<InvertedDraft>(space, seed);
       }}};
  return variants;
}

const std::vector<TuneVariant>& SchedulerVariants() {
  static const std::vector<TuneVariant> variants = {
      {.name = "gain", .description = "the tune loop's own scheduler"},
      {.name = "turns",
       .description = "equally many trials for all tasks",
       .gain = [](const TaskProgress& progress, int,
                  int under_way) { return 1.0 / (1 + progress.attempts + under_way); }},
      {.name = "least",
       .description = "the least expected gain first",
       .worsened = true,
       .gain = [](const TaskProgress& progress, int weight, int under_way) {
         return 1 / std::max(ExpectedGain(progress, weight, under_way), std::numeric_limits<double>::min());
       }}};
  return variants;
}

std::vector<SimulatedNetwork> NetworksOfOneTask(const RecordedDevice& device) {
  std::vector<SimulatedNetwork> networks;
  for (const RecordedTask& task : device.recording().tasks)
    networks.push_back({.name = task.kind, .parts = {{.task = static_cast<int>(networks.size())}}});
  return networks;
}

std::vector<SimulatedNetwork> DrawNetworks(const RecordedDevice& device, int count, uint64_t seed) {
  constexpr int kMostWeight = 16;
  const int tasks = static_cast<int>(device.tasks().size());
  std::vector<SimulatedNetwork> networks;
  Rng seeds(seed);
  for (int n = 0; n < count; ++n) {
    Rng rng = seeds.Fork();
    std::vector<int> order(tasks);
    std::iota(order.begin(), order.end(), 0);
    SimulatedNetwork network{.name = "network " + std::to_string(n)};
    for (int i = 0; i < CeilDiv(tasks, 2); ++i) {
      std::swap(order[i], order[i + rng.Below(tasks - i)]);
      network.parts.push_back(
          {.task = order[i], .weight = static_cast<int>(std::pow(kMostWeight + 1.0, rng.Uniform()))});
    }
    networks.push_back(std::move(network));
  }
  return networks;
}

Result<std::vector<SimulatedRun>> Simulate(std::shared_ptr<const RecordedDevice> device,
                                           const std::vector<SimulatedNetwork>& networks,
                                           const std::vector<TuneVariant>& variants, const SimulationOptions& options) {
  std::vector<SimulatedRun> runs;
  for (size_t variant = 0; variant < variants.size(); ++variant) {
    for (size_t network = 0; network < networks.size(); ++network) {
      for (int seed = 0; seed < options.seeds; ++seed) {
        runs.push_back({.variant = static_cast<int>(variant),
                        .network = static_cast<int>(network),
                        .seed = static_cast<uint64_t>(seed)});
      }
    }
  }
  TRY(ForEachInParallel(runs.size(), options.threads, [&](size_t i) {
    return SimulateRun(device, networks[runs[i].network], variants[runs[i].variant], options, runs[i]);
  }));
  return runs;
}

double MeanReached(const std::vector<const SimulatedRun*>& runs, size_t at) {
  double sum = 0;
  for (const SimulatedRun* run : runs) sum += std::log(run->reached[at]);  // -infinity if nothing ran
  return runs.empty() ? 0 : std::exp(sum / static_cast<double>(runs.size()));
}

bool WorsenedRankLast(const std::vector<TuneVariant>& variants, const std::vector<SimulatedRun>& runs) {
  double worst_real = std::numeric_limits<double>::infinity(), best_worsened = 0;
  for (size_t v = 0; v < variants.size(); ++v) {
    std::vector<const SimulatedRun*> of_variant;
    for (const SimulatedRun& run : runs) {
      if (run.variant == static_cast<int>(v)) of_variant.push_back(&run);
    }
    if (of_variant.empty()) continue;
    double mean = MeanReached(of_variant, of_variant[0]->reached.size() - 1);
    if (variants[v].worsened) best_worsened = std::max(best_worsened, mean);
    if (!variants[v].worsened) worst_real = std::min(worst_real, mean);
  }
  return best_worsened < worst_real;
}

}  // namespace autotune
