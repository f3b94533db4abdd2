#include "tuner/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <unordered_set>

#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "tuner/confirm.h"

namespace autotune {
namespace {

constexpr int kCodeGeneratorVersion = 5;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kCutoff = 3;  // times the best: slower candidates are not repeated
constexpr int kMaxRecordsPerTrial =
    4;                         // a task whose candidates mostly fail to build stops at this multiple of its share
constexpr int kKnown = 12;     // stored schedules a task starts from
constexpr int kFinalists = 5;  // of a confirmation, at most
constexpr int kTrialsPerFinalist = 8;   // small budgets have fewer
constexpr int kTurns = 4;               // of a confirmation
constexpr double kConfirmShare = 0.15;  // of a budget of time
constexpr double kNegligible = 0.002;   // a task with less of the network's time is not worth a confirmation

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class TaskState {
 public:
  TaskState(TaskSpace space, const TuneOptions& options, const CostModel* model) : space_(std::move(space)) {
    uint64_t seed = HashCombine(options.seed, space_.task->hash.low);
    search_ = options.search == SearchKind::kRandom ? MakeRandomSearch(space_, seed)
                                                    : MakeEvolutionarySearch(space_, model, seed);
    report_.task = space_.task;
  }
  TaskState(const TaskState&) = delete;

  const TaskSpace& space() const { return space_; }
  TaskReport& report() { return report_; }
  const TaskReport& report() const { return report_; }
  std::vector<Sample>& fresh_samples() { return samples_; }

  // The untuned schedule first: it is the baseline, and what the draft score believes in.
  std::vector<Proposal> Next(int n) {
    std::vector<Proposal> batch;
    if (report_.default_seconds == 0 && !defaults_tried_) {
      defaults_tried_ = true;
      for (Proposal& proposal : DefaultProposals(space_, 4)) {
        if (static_cast<int>(batch.size()) == std::min(n, 2) || !seen_.insert(ToText(proposal.trace)).second) continue;
        std::optional<Proposal> full = Locate(
            space_, space_.task->alternatives[space_.sketches[proposal.sketch].alternative].name, proposal.trace);
        if (full) {
          search_->Observe(*full, kInfinity);  // not to be proposed again; its true time follows
          batch.push_back(std::move(*full));
        }
      }
      default_pending_ = !batch.empty();
    }
    int more = n - static_cast<int>(batch.size());
    for (Proposal& proposal : search_->Propose(more)) {
      if (seen_.insert(ToText(proposal.trace)).second) batch.push_back(std::move(proposal));
    }
    if (batch.empty()) report_.exhausted = true;
    return batch;
  }

  // `now`: measured in this sitting (the first outcome then is the default schedule's, if it was asked for).
  void Observe(const Proposal& proposal, TrialStatus status, double cost, bool verified, bool counts) {
    bool good = status == TrialStatus::kOk && verified;
    search_->Observe(proposal, good ? cost : kInfinity);
    seen_.insert(ToText(proposal.trace));
    if (status != TrialStatus::kInfrastructure && status != TrialStatus::kCancelled &&
        status != TrialStatus::kDeviceError) {
      samples_.push_back({space_.task->hash.low, proposal.features, good ? cost : kInfinity});
    }
    if (good && (report_.best_seconds == 0 || cost < report_.best_seconds)) {
      report_.best_seconds = cost;
      report_.best_trace = ToText(proposal.trace);
    }
    if (!counts) return;
    Count(status);
    if (!good) return;
    Rank(proposal, cost);
    if (default_pending_) {
      DefaultIs(proposal, cost);
      default_pending_ = false;
    }
  }
  // A record of this run, whether or not this search can place its candidate.
  void Count(TrialStatus status) {
    ++report_.records;
    if (WasExecuted(status)) ++report_.trials;
    if (status != TrialStatus::kOk) ++report_.failures[status];
  }
  void DefaultIs(const Proposal& proposal, double seconds) {
    report_.default_seconds = seconds;
    default_ = proposal;
  }

  // Who takes part in a confirmation: the best of this run, the schedule that is best so far (if it is another one),
  // and the default one, which a tuned one must not lose to. Nobody if no good trial came after the last confirmation.
  std::vector<Proposal> Finalists(const std::optional<Proposal>& champion) const {
    size_t most = static_cast<size_t>(std::min(kFinalists, 1 + report_.trials / kTrialsPerFinalist));
    std::vector<Proposal> finalists;
    std::unordered_set<std::string> known;
    auto add = [&](const Proposal& proposal) {
      if (finalists.size() < most && known.insert(ToText(proposal.trace)).second) finalists.push_back(proposal);
    };
    if (!unconfirmed_ || most < 2) return finalists;
    if (champion) add(*champion);
    if (!ranking_.empty()) add(ranking_.front().second);
    if (default_) add(*default_);
    for (const auto& [cost, proposal] : ranking_) add(proposal);
    return finalists;
  }
  void Confirm(const Proposal& winner, double cost) {
    unconfirmed_ = false;
    report_.best_seconds = cost;
    report_.best_trace = ToText(winner.trace);
  }
  // A finalist's cost. The default's, measured beside the winner's, is what the winner's compares with.
  void Remeasured(const Proposal& finalist, double cost) {
    if (default_ && ToText(finalist.trace) == ToText(default_->trace)) report_.default_seconds = cost;
  }
  // One outcome of a confirmation in an earlier sitting; those of the last one count.
  void Recall(const Record& record) {
    if (record.confirmation != confirmation_) {
      confirmation_ = record.confirmation;
      unconfirmed_ = false;
      report_.best_seconds = 0;
    }
    if (!IsRanked(record) || (report_.best_seconds > 0 && record.cost >= report_.best_seconds)) return;
    report_.best_seconds = record.cost;
    report_.best_trace = record.trace;
  }

 private:
  void Rank(const Proposal& proposal, double cost) {
    unconfirmed_ = true;
    auto place = std::upper_bound(ranking_.begin(), ranking_.end(), cost,
                                  [](double c, const auto& ranked) { return c < ranked.first; });
    ranking_.insert(place, {cost, proposal});
    if (ranking_.size() > kFinalists) ranking_.pop_back();
  }

  TaskSpace space_;
  std::unique_ptr<SearchStrategy> search_;
  TaskReport report_;
  std::vector<Sample> samples_;
  std::unordered_set<std::string> seen_;  // trace texts
  bool defaults_tried_ = false, default_pending_ = false;
  std::optional<Proposal> default_;
  std::vector<std::pair<double, Proposal>> ranking_;  // this run's best, cheapest first
  int64_t confirmation_ = 0;
  bool unconfirmed_ = false;  // a good trial came after the last confirmation
};

class Loop {
 public:
  Loop(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options, RecordStore& store,
       Measurer& measurer)
      : tasks_(tasks),
        target_(target),
        options_(options),
        store_(store),
        measurer_(measurer),
        model_(MakeXgboostModel({.seed = options.seed})) {}

  Result<TuneReport> Run(const TuneObserver& observer, const std::atomic<bool>* stop) {
    started_ = Now();
    for (const TuneTask& task : tasks_)
      states_.push_back(std::make_unique<TaskState>(TRY(TaskSpace::Make(task, target_)), options_, model_.get()));
    TRY(Recall());
    report_.resumed_trials = report_.trials;
    while (!Finished()) {
      if (stop && *stop) {
        report_.interrupted = true;
        break;
      }
      TaskState* task = Pick();
      if (!task) break;
      TRY(Round(*task));
      if (observer) observer(Report(), task->report());
    }
    if (options_.confirm && !report_.interrupted) TRY(ConfirmAll(observer, stop));
    return Report();
  }

 private:
  bool Finished() const {
    return report_.trials >= options_.trials || IsSpent(options_.confirm ? 1 - kConfirmShare : 1);
  }

  // Is this part of the budget of time used up?
  bool IsSpent(double part) const {
    return options_.time_budget > 0 && Now() - started_ >= part * options_.time_budget;
  }

  struct Final {
    TaskState* task;
    std::vector<Proposal> finalists;
    int64_t number;  // of the confirmation
  };

  // Who there is to confirm; tasks in which the network spends most come first.
  Result<std::vector<Final>> Finals() {
    auto share = [](const TaskState* state) { return state->space().task->weight * state->report().best_seconds; };
    double total = 0;
    std::vector<TaskState*> order;
    for (const auto& state : states_) total += share(state.get());
    for (const auto& state : states_) {
      if (share(state.get()) > kNegligible * total) order.push_back(state.get());
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](const TaskState* a, const TaskState* b) { return share(a) > share(b); });
    std::vector<Final> finals;
    for (TaskState* task : order) {
      std::optional<Record> best = TRY(store_.Best(task->space().task->hash.Hex(), target_.Text()));
      std::optional<Proposal> champion;
      if (best && options_.use_known) champion = Find(*task, *best);
      std::vector<Proposal> finalists = task->Finalists(champion);
      if (finalists.size() > 1) finals.push_back({task, std::move(finalists), best ? best->confirmation + 1 : 1});
    }
    return finals;
  }

  Status ConfirmAll(const TuneObserver& observer, const std::atomic<bool>* stop) {
    std::vector<Final> finals = TRY(Finals());
    report_.to_confirm = static_cast<int>(finals.size());
    for (const Final& final : finals) {
      if (IsSpent(1)) break;
      report_.interrupted = stop && *stop;
      if (report_.interrupted) break;
      TRY(Confirm(final));
      ++report_.confirmed;
      if (observer) observer(Report(), final.task->report());
    }
    return {};
  }

  Status Confirm(const Final& final) {
    TaskState& task = *final.task;
    const std::vector<Proposal>& finalists = final.finalists;
    double begin = Now();
    std::vector<Outcome> outcomes =
        TRY_NOTE(MeasureInTurns(measurer_, task.space(), finalists, kTurns, options_.measure),
                 "while confirming the best schedules of " + task.report().task->label);
    report_.measure_seconds += Now() - begin;
    std::vector<Record> records;
    std::optional<size_t> winner;
    for (size_t i = 0; i < finalists.size(); ++i) {
      records.push_back(MakeRecord(task, finalists[i], outcomes[i]));
      records.back().confirmation = final.number;
      if (!IsRanked(records[i])) continue;
      task.Remeasured(finalists[i], records[i].cost);
      if (!winner || records[i].cost < records[*winner].cost) winner = i;
    }
    TRY(store_.Append(records));
    if (winner) task.Confirm(finalists[*winner], records[*winner].cost);
    return {};
  }

  const TuneReport& Report() {
    report_.tasks.clear();
    for (const auto& state : states_) report_.tasks.push_back(state->report());
    report_.seconds = Now() - started_;
    return report_;
  }

  // Small budgets shrink the rounds, so that every task gets one.
  int BatchSize() const {
    int share = options_.trials / std::max<int>(1, static_cast<int>(states_.size()));
    return std::clamp(share / 2, 1, options_.batch);
  }

  int ShareOf(const TaskState&) const { return std::max(1, options_.trials / static_cast<int>(states_.size())); }

  // First every task once; then the task with the greatest expected gain: what the network spends in it, discounted by
  // how long it has been searched already.
  TaskState* Pick() {
    TaskState* best = nullptr;
    double best_gain = -1;
    for (const auto& state : states_) {
      const TaskReport& r = state->report();
      if (r.exhausted || (r.trials == 0 ? r.records >= kMaxRecordsPerTrial * ShareOf(*state)
                                        : r.records >= kMaxRecordsPerTrial * std::max(r.trials, options_.batch)))
        continue;
      if (r.records == 0) return state.get();
      double seconds = r.best_seconds > 0 ? r.best_seconds : 1e-3;
      double gain = state->space().task->weight * seconds / (r.records + 4.0);
      if (gain > best_gain) best_gain = gain, best = state.get();
    }
    return best;
  }

  Status Round(TaskState& task) {
    double begin = Now();
    int n = std::min(BatchSize(), options_.trials - report_.trials);
    std::vector<Proposal> batch;
    {
      std::optional<HostLock> lock;
      if (options_.lock_host) lock.emplace(TRY(HostLock::Acquire(HostLock::Mode::kShared)));
      TRY(Learn());
      batch = task.Next(n);
    }
    report_.search_seconds += Now() - begin;
    if (batch.empty()) return {};
    begin = Now();
    MeasureOptions measure = options_.measure;
    if (task.report().best_seconds > 0) measure.cutoff_seconds = kCutoff * task.report().best_seconds;
    std::vector<Outcome> outcomes =
        TRY_NOTE(measurer_.Measure(task.space(), batch, measure), "while tuning " + task.report().task->label);
    report_.measure_seconds += Now() - begin;
    CHECK(outcomes.size() == batch.size());

    std::vector<Record> records;
    for (size_t i = 0; i < batch.size(); ++i) records.push_back(MakeRecord(task, batch[i], outcomes[i]));
    TRY(store_.Append(records));  // only what is safe on disk counts
    for (size_t i = 0; i < batch.size(); ++i) {
      const Outcome& o = outcomes[i];
      task.Observe(batch[i], o.status, o.cost, o.verified, true);
      ++report_.records;
      if (WasExecuted(o.status)) ++report_.trials;
      if (o.status != TrialStatus::kOk) report_.first_error.try_emplace(o.status, o.error);
      TRY(Watch(o));
    }
    return {};
  }

  // Stops a run in which nothing ever works, with the cause, instead of burning the whole budget.
  Status Watch(const Outcome& outcome) {
    if (outcome.status == TrialStatus::kOk) {
      any_success_ = true;
      return {};
    }
    equal_failures_ = outcome.status == last_failure_ ? equal_failures_ + 1 : 1;
    last_failure_ = outcome.status;
    if (!any_success_ && equal_failures_ >= options_.give_up_after) {
      return Err("the first ", equal_failures_, " candidates all failed: ", ToText(outcome.status), ": ",
                 outcome.error);
    }
    return {};
  }

  Status Learn() {
    if (options_.search == SearchKind::kRandom) return {};
    for (const auto& state : states_) {
      model_->Add(std::move(state->fresh_samples()));
      state->fresh_samples().clear();
    }
    return model_->Train();
  }

  Record MakeRecord(const TaskState& task, const Proposal& proposal, const Outcome& outcome) const {
    const TaskAlternative& alternative =
        task.space().task->alternatives[task.space().sketches[proposal.sketch].alternative];
    Record record;
    record.id = NewRecordId();
    record.task = task.space().task->hash.Hex();
    record.alternative = alternative.name;
    record.func = ToText(alternative.func);
    record.trace = ToText(proposal.trace);
    record.target = target_.Text();
    record.device = outcome.device;
    record.times = outcome.times;
    record.cost = outcome.cost;
    record.status = outcome.status;
    record.error = outcome.error;
    record.verified = outcome.verified;
    record.run = options_.run;
    record.seed = options_.seed;
    record.versions = {kIrTextVersion, kStepLanguageVersion, kFeatureVersion, kCodeGeneratorVersion};
    record.created_at = WallMillis();
    record.facts = outcome.facts;
    record.facts["label"] = task.space().task->label;
    return record;
  }

  // What this run measured before it was interrupted, and what others know of these tasks.
  Status Recall() {
    for (const auto& state : states_) {
      std::string task = state->space().task->hash.Hex();
      int64_t cursor = 0;
      bool first = true;
      while (!options_.run.empty()) {
        RecordPage page = TRY(store_.Scan({.task = task, .target = target_.Text(), .run = options_.run}, cursor, 500));
        if (page.records.empty()) break;
        cursor = page.cursor;
        for (const Record& record : page.records) {
          if (record.confirmation) {
            state->Recall(record);
            continue;
          }
          ++report_.records;
          if (WasExecuted(record.status)) ++report_.trials;
          any_success_ |= record.status == TrialStatus::kOk;
          if (std::optional<Proposal> proposal = Find(*state, record)) {
            state->Observe(*proposal, record.status, record.cost, record.verified, true);
            if (first && IsRanked(record)) state->DefaultIs(*proposal, record.cost), first = false;
          } else {
            state->Count(record.status);
          }
        }
      }
      if (!options_.use_known) continue;
      for (const Record& record : TRY(store_.Top(task, target_.Text(), kKnown))) {
        if (record.run == options_.run && !options_.run.empty()) continue;
        if (record.versions.code_generator != kCodeGeneratorVersion) continue;
        if (std::optional<Proposal> proposal = Find(*state, record))
          state->Observe(*proposal, record.status, record.cost, record.verified, false);
      }
    }
    return {};
  }

  std::optional<Proposal> Find(const TaskState& state, const Record& record) const {
    Result<Trace> trace = ParseTrace(record.trace);
    if (!trace.ok() || record.versions.step_language != kStepLanguageVersion) return std::nullopt;
    return Locate(state.space(), record.alternative, *trace);
  }

  const std::vector<TuneTask>& tasks_;
  const Target& target_;
  const TuneOptions& options_;
  RecordStore& store_;
  Measurer& measurer_;
  std::unique_ptr<CostModel> model_;
  std::vector<std::unique_ptr<TaskState>> states_;
  TuneReport report_;
  double started_ = 0;
  bool any_success_ = false;
  int equal_failures_ = 0;
  TrialStatus last_failure_ = TrialStatus::kOk;
};

}  // namespace

Result<TuneReport> Tune(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
                        RecordStore& store, Measurer& measurer, const TuneObserver& observer,
                        const std::atomic<bool>* stop) {
  return Loop(tasks, target, options, store, measurer).Run(observer, stop);
}

}  // namespace autotune
