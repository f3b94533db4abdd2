#include "tuner/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "records/memory_store.h"
#include "schedule/trace.h"
#include "tuner/parallel.h"
#include "tuner/points.h"

namespace autotune {
namespace {

constexpr int kInvertedDraws = 400;  // draws per call of Propose

// Draws points as the random search does, and proposes those with the worst draft scores.
class InvertedDraft : public SearchStrategy {
 public:
  InvertedDraft(const TaskSpace& space, uint64_t seed) : space_(space), rng_(seed) {}

  std::vector<Proposal> Propose(int n) override {
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
// that has the best measured cost so far.
class Follower : public Measurer {
 public:
  Follower(std::shared_ptr<const RecordedDevice> device, const RecordedMeasurerOptions& options,
           const std::vector<int>& trials)
      : device_(device),
        measurer_(MakeRecordedMeasurer(device, options)),
        noisy_(options.noise > 0),
        at_(trials),
        seconds_(trials.size(), 0) {}

  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    std::vector<Outcome> outcomes = TRY(measurer_->Measure(items, options));
    for (size_t i = 0; i < items.size(); ++i) {
      if (!WasExecuted(outcomes[i].status) || items[i].proposal.trace.empty()) continue;
      // Counts the first measurement of a trace only. The reference kernel of a batch, second measurements and the
      // confirmation are not trials.
      if (!tried_.insert(HashBytes128(ToText(items[i].proposal.trace))).second) continue;
      if (outcomes[i].status == TrialStatus::kOk) {
        double truth = noisy_ ? device_->Ask(*items[i].space, items[i].proposal).seconds : outcomes[i].cost;
        true_seconds_[ToText(items[i].proposal.trace)] = truth;
        if (outcomes[i].cost < best_cost_) best_cost_ = outcomes[i].cost, best_ = truth;
      }
      for (size_t k = 0; k < at_.size(); ++k) {
        if (static_cast<int>(tried_.size()) <= at_[k]) seconds_[k] = best_;
      }
    }
    return outcomes;
  }

  // Returns SimulatedRun::reached. Its last value is for the schedule that the run reports as the best.
  std::vector<double> Reached(double best_known, const TaskReport& report) {
    if (auto chosen = true_seconds_.find(report.best_trace); chosen != true_seconds_.end())
      seconds_.back() = chosen->second;
    std::vector<double> reached;
    for (double seconds : seconds_) reached.push_back(seconds > 0 ? best_known / seconds : 0);
    return reached;
  }

 private:
  std::shared_ptr<const RecordedDevice> device_;
  std::unique_ptr<Measurer> measurer_;
  bool noisy_;
  const std::vector<int>& at_;
  std::unordered_set<Hash128> tried_;  // traces that were executed
  double best_cost_ = std::numeric_limits<double>::infinity(), best_ = 0;
  std::vector<double> seconds_;
  std::unordered_map<std::string, double> true_seconds_;  // by trace
};

Status SimulateRun(const std::shared_ptr<const RecordedDevice>& device, const SearchVariant& variant,
                   const SimulationOptions& options, SimulatedRun& run) {
  const size_t task = static_cast<size_t>(run.task);
  TuneOptions tune{.trials = options.trials.back(),
                   .seed = run.seed,
                   .search = variant.kind,
                   .make_search = variant.make_search,
                   .use_known = false,
                   .confirm = options.noise > 0,
                   .lock_host = false};
  std::unique_ptr<RecordStore> store = NewMemoryStore();
  Follower follower(device, {.noise = options.noise, .seed = run.seed}, options.trials);
  TuneReport report = TRY(Tune({device->tasks()[task]}, device->target(), tune, *store, follower));
  run.reached = follower.Reached(device->recording().tasks[task].BestSeconds(), report.tasks[0]);
  return {};
}

}  // namespace

const std::vector<SearchVariant>& SearchVariants() {
  using Space = const TaskSpace&;
  // Variants that do not use the cost model have kind kRandom, for which the tune loop does not train it.
  static const std::vector<SearchVariant> variants = {
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

Result<std::vector<SimulatedRun>> Simulate(std::shared_ptr<const RecordedDevice> device,
                                           const std::vector<SearchVariant>& variants,
                                           const SimulationOptions& options) {
  std::vector<SimulatedRun> runs;
  for (size_t variant = 0; variant < variants.size(); ++variant) {
    for (size_t task = 0; task < device->tasks().size(); ++task) {
      for (int seed = 0; seed < options.seeds; ++seed) {
        runs.push_back({.variant = static_cast<int>(variant),
                        .task = static_cast<int>(task),
                        .seed = static_cast<uint64_t>(seed)});
      }
    }
  }
  TRY(ForEachInParallel(runs.size(), options.threads, [&](size_t i) {
    return SimulateRun(device, variants[static_cast<size_t>(runs[i].variant)], options, runs[i]);
  }));
  return runs;
}

double MeanReached(const std::vector<const SimulatedRun*>& runs, size_t at) {
  double sum = 0;
  for (const SimulatedRun* run : runs) sum += std::log(run->reached[at]);  // -infinity if nothing ran
  return runs.empty() ? 0 : std::exp(sum / static_cast<double>(runs.size()));
}

bool WorsenedRankLast(const std::vector<SearchVariant>& variants, const std::vector<SimulatedRun>& runs) {
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
