#include "bench/oracle_judge.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "bench/oracle_store.h"
#include "records/memory_store.h"
#include "schedule/trace.h"
#include "support/statistics.h"
#include "tuner/tune.h"

namespace autotune::bench {
namespace {

constexpr int kTurns = 9;           // measurements of each schedule
constexpr double kWorthless = 1e9;  // seconds of a schedule that did not run

// A schedule of one task that is measured in turns.
struct Contestant {
  Proposal proposal;
  std::vector<double> seconds;  // one per turn
};

// Speeds relative to the best known schedule; above 1, the schedule is faster.
struct Speeds {
  double untuned = 0;
  std::vector<double> tuned, rivals;  // one per run
};

std::optional<Proposal> Find(const TaskSpace& space, const std::string& alternative, const std::string& trace) {
  Result<Trace> parsed = ParseTrace(trace);
  return parsed.ok() ? Locate(space, alternative, *parsed) : std::nullopt;
}

// Returns the best record of each run, by the key of the run.
Result<std::map<std::string, Record>> BestOfRuns(RecordStore& store, const TuneTask& task, const Target& target) {
  std::map<std::string, Record> best;
  for (int64_t cursor = 0;;) {
    RecordPage page = TRY(store.Scan({.task = task.hash.Hex(), .target = target.Text()}, cursor, 500));
    if (page.records.empty()) return best;
    cursor = page.cursor;
    for (Record& record : page.records) {
      if (!IsRanked(record)) continue;
      auto [place, first] = best.try_emplace(record.run, record);
      const Record& known = place->second;
      if (!first && std::pair(-record.confirmation, record.cost) < std::pair(-known.confirmation, known.cost))
        place->second = std::move(record);
    }
  }
}

class Judgement {
 public:
  Judgement(const Target& target, const JudgeOptions& options, RecordStore& oracle, Measurer& measurer)
      : target_(target), options_(options), oracle_(oracle), measurer_(measurer), session_(std::random_device()()) {}

  // Tunes the task, measures all schedules in turns, and returns their speeds.
  Result<Speeds> Of(const DrawnTask& drawn) {
    TaskSpace space = TRY(TaskSpace::Make(drawn.task, target_));
    std::vector<Candidate> known = TRY(CandidatesOf(oracle_, drawn.task, target_));
    if (known.empty() || !known[0].Ran()) return Err("no schedule of this task ran in the oracle's records");
    std::vector<Contestant> contestants;
    // Schedules that the rules of another version made may be the fastest ones, but have no place in the present space.
    std::optional<size_t> best;
    int left_out = 0;
    for (auto next = known.begin(); !best && next != known.end() && next->Ran(); ++next) {
      best = Add(space, next->record.alternative, next->record.trace, contestants);
      left_out += !best;
    }
    if (!best) return Err("the present rules make none of the recorded schedules; record the task again");
    if (left_out > 0) {
      std::fprintf(stderr,
                   "note: %s: the %d fastest recorded schedules are left out: the present rules do not make them\n",
                   drawn.kind.c_str(), left_out);
    }
    std::vector<std::optional<size_t>> tuned, rivals;
    std::optional<size_t> untuned;
    for (int seed = 1; seed <= options_.seeds; ++seed) {
      std::unique_ptr<RecordStore> store = NewMemoryStore();
      TuneReport report = TRY(Tune(drawn.task, static_cast<uint64_t>(seed), *store));
      tuned.push_back(Add(space, report.tasks[0].best_alternative, report.tasks[0].best_trace, contestants));
      RecordPage page = TRY(store->Scan({}, 0, 100'000));
      // The first record that ran is the one of the default schedule.
      for (const Record& record : page.records) {
        if (untuned || !IsRanked(record)) continue;
        untuned = Add(space, record.alternative, record.trace, contestants);
      }
      TRY(oracle_.Append(page.records));
    }
    if (options_.rivals) {
      for (const auto& [run, record] : TRY(BestOfRuns(*options_.rivals, drawn.task, target_)))
        rivals.push_back(Add(space, record.alternative, record.trace, contestants));
    }
    TRY(MeasureInTurns(space, contestants));
    auto median = [&](std::optional<size_t> i) { return i ? Median(contestants[*i].seconds) : kWorthless; };
    const double reference = median(best);
    if (reference >= kWorthless) return Err("the best known schedule did not run in most turns");
    Speeds speeds{.untuned = reference / median(untuned)};
    for (const auto& i : tuned) speeds.tuned.push_back(reference / median(i));
    for (const auto& i : rivals) speeds.rivals.push_back(reference / median(i));
    return speeds;
  }

 private:
  Result<TuneReport> Tune(const TuneTask& task, uint64_t seed, RecordStore& store) {
    TuneOptions tune{.trials = options_.trials,
                     .seed = seed,
                     .run = RunKey(std::vector<std::string>{"judge", task.hash.Hex(), std::to_string(seed),
                                                            std::to_string(session_)}),
                     .use_known = false};
    return autotune::Tune({task}, target_, tune, store, measurer_);
  }

  // Adds the schedule to the contestants, unless it is one already. Returns its place; none if the present rules do not
  // make the schedule.
  static std::optional<size_t> Add(const TaskSpace& space, const std::string& alternative, const std::string& trace,
                                   std::vector<Contestant>& contestants) {
    std::optional<Proposal> proposal = Find(space, alternative, trace);
    if (!proposal) return std::nullopt;
    auto same = std::find_if(contestants.begin(), contestants.end(), [&](const Contestant& other) {
      return other.proposal.sketch == proposal->sketch && ToText(other.proposal.trace) == ToText(proposal->trace);
    });
    const size_t place = static_cast<size_t>(same - contestants.begin());
    if (same == contestants.end()) contestants.push_back({std::move(*proposal), {}});
    return place;
  }

  Status MeasureInTurns(const TaskSpace& space, std::vector<Contestant>& contestants) {
    std::vector<size_t> order(contestants.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int turn = 0; turn < kTurns; ++turn) {
      std::vector<MeasureItem> items;
      for (size_t i : order)
        items.push_back({.space = &space, .proposal = contestants[i].proposal, .check = turn == 0});
      std::vector<Outcome> outcomes = TRY(measurer_.Measure(items, {}));
      for (size_t k = 0; k < order.size(); ++k)
        contestants[order[k]].seconds.push_back(outcomes[k].status == TrialStatus::kOk ? outcomes[k].cost : kWorthless);
      // Reverse the order every turn, so that a machine that slows down steadily favours no schedule.
      std::reverse(order.begin(), order.end());
    }
    return {};
  }

  const Target& target_;
  const JudgeOptions& options_;
  RecordStore& oracle_;
  Measurer& measurer_;
  unsigned session_;  // random part of the runs' keys, which keeps the runs of two judgements apart
};

double GeometricMean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += std::log(value);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

double Least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

void PrintSpeeds(const std::string& kind, const Speeds& speeds) {
  std::printf("%-28s %8.1f ", kind.c_str(), 100 * speeds.untuned);
  for (double speed : speeds.tuned) std::printf(" %6.1f", 100 * speed);
  if (!speeds.rivals.empty()) std::printf("   rivals");
  for (double speed : speeds.rivals) std::printf(" %6.1f", 100 * speed);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

Status JudgeTuner(const std::vector<DrawnTask>& tasks, const Target& target, const JudgeOptions& options,
                  RecordStore& oracle, Measurer& measurer, const std::atomic<bool>& stop) {
  Judgement judgement(target, options, oracle, measurer);
  std::vector<double> untuned, tuned, rivals;
  int lost = 0, compared = 0;  // tasks lost to rivals in the mean of the runs, and tasks with rivals
  std::printf("%% of the speed of the best known schedule, measured in the same turns; above 100: faster\n");
  std::printf("%-28s %8s  after %d trials, seeds 1 to %d\n", "task", "untuned", options.trials, options.seeds);
  for (const DrawnTask& task : tasks) {
    if (stop) break;
    Speeds speeds = TRY_NOTE(judgement.Of(task), "while judging " + task.task.label);
    PrintSpeeds(task.kind, speeds);
    untuned.push_back(speeds.untuned);
    tuned.insert(tuned.end(), speeds.tuned.begin(), speeds.tuned.end());
    if (speeds.rivals.empty()) continue;
    rivals.push_back(GeometricMean(speeds.rivals));
    ++compared;
    lost += GeometricMean(speeds.tuned) < 0.99 * rivals.back();
  }
  if (tuned.empty()) return {};
  std::printf("untuned: geometric mean %.1f %%, worst %.1f %%\n", 100 * GeometricMean(untuned), 100 * Least(untuned));
  std::printf("tuned:   geometric mean %.1f %%, worst %.1f %%\n", 100 * GeometricMean(tuned), 100 * Least(tuned));
  if (compared > 0) {
    std::printf("rivals:  geometric mean %.1f %%; more than 1 %% faster in %d of %d tasks\n",
                100 * GeometricMean(rivals), lost, compared);
  }
  return {};
}

}  // namespace autotune::bench
