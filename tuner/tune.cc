#include "tuner/tune.h"

#include <algorithm>
#include <memory>

#include "support/clock.h"
#include "support/host_lock.h"
#include "tuner/disturbances.h"
#include "tuner/round.h"
#include "tuner/run_log.h"
#include "tuner/trial_fault.h"

namespace autotune {
namespace {

constexpr double kCutoff = 3;  // multiple of the best time above which a candidate is cut off
// A task whose candidates mostly fail to build gets no more trials once its number of records is this multiple of its
// number of trials. With few trials it may fail as often as a task that has had a batch, or its share of the trials.
constexpr int kMaxRecordsPerTrial = 4;
constexpr double kConfirmShare = 0.15;  // share of the time budget for confirmations
constexpr double kNegligible = 0.002;   // share of the network's time below which a task is not confirmed
// Most candidates that a task gets at a time. The search takes as long to propose one candidate as to propose eight.
constexpr int kMostOfOneTask = 8;

// Returns true if a stop ended the batch. Such a batch is not recorded, so a resumed run repeats all of it.
bool WasCancelled(const std::vector<Outcome>& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(),
                     [](const Outcome& o) { return o.status == TrialStatus::kCancelled; });
}

class TuneLoop {
 public:
  TuneLoop(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options, RecordStore& store,
           Measurer& measurer, const std::atomic<bool>* stop)
      : tasks_(tasks),
        target_(target),
        options_(options),
        log_(target, options, store),
        measurer_(measurer),
        stop_(stop),
        model_(options.make_model ? options.make_model(options.seed) : MakeXgboostModel({.seed = options.seed})) {}

  Result<TuneReport> Run(const TuneObserver& observer) {
    Status ended = RunToTheEnd(observer);
    if (!ended.ok() && ended.error().kind != ErrorKind::kStopped) return ended.error();
    report_.interrupted |= !ended.ok();
    return FinalReport();
  }

 private:
  // Returns an error of kind kStopped if a stop ended a wait for the host's lock.
  Status RunToTheEnd(const TuneObserver& observer) {
    TRY(Prepare());
    while (!Finished()) {
      report_.interrupted = Stopped();
      if (report_.interrupted) break;
      const TaskState* task = TRY(Round());
      if (!task) break;
      Tell(observer, *task);
      if (report_.interrupted) break;
    }
    report_.out_of_time = !report_.interrupted && report_.trials < options_.trials && Finished();
    if (options_.confirm && !report_.interrupted) TRY(ConfirmAll(observer));
    return {};
  }

  // Makes the states of the tasks, and restores the run if it is resumed.
  Status Prepare() {
    Result<std::optional<HostLock>> lock = WhileNobodyMeasures();
    if (!lock.ok()) {
      // The report of a run that is stopped here counts the trials of its earlier part, which stay saved.
      report_.trials = report_.resumed_trials = TrialsIn(TRY(log_.Groups()));
      return lock.error();
    }
    for (const TuneTask& task : tasks_) {
      states_.push_back(std::make_unique<TaskState>(TRY(TaskSpace::Make(task, target_)), options_.seed, options_.search,
                                                    options_.make_search));
    }
    return Recall();
  }

  bool Stopped() const { return stop_ && *stop_; }

  bool Finished() const {
    return report_.trials >= options_.trials || IsSpent(options_.confirm ? 1 - kConfirmShare : 1);
  }

  // Returns true if this share of the time budget is used up.
  bool IsSpent(double part) const {
    return options_.time_budget > 0 && SteadySeconds() - started_ >= part * options_.time_budget;
  }

  // Locks the host for search and training, since a measurement on this host needs the cores for itself.
  Result<std::optional<HostLock>> WhileNobodyMeasures() const {
    std::optional<HostLock> lock;
    if (options_.lock_host) lock.emplace(TRY(HostLock::Acquire(HostLock::Mode::kShared, stop_)));
    return lock;
  }

  // ---- Rounds

  // Runs one round. Returns the task with the most candidates in the round; null if no task can be searched any
  // further, or if a stop ended the round.
  Result<const TaskState*> Round() {
    double begin = SteadySeconds();
    std::vector<Planned> plan;
    Json::Array exhausted;
    {
      std::optional<HostLock> lock = TRY(WhileNobodyMeasures());
      TRY(Learn());
      while (plan.empty()) {
        std::vector<TaskState*> searched = TRY(Plan(plan));
        if (searched.empty()) break;
        for (const TaskState* task : searched) {
          if (task->report().exhausted) exhausted.push_back(task->space().task->hash.Hex());
        }
      }
    }
    report_.search_seconds += SteadySeconds() - begin;
    if (options_.on_span)
      options_.on_span({.lane = "search", .name = "search", .begin = begin, .end = SteadySeconds()});
    if (plan.empty()) return nullptr;
    begin = SteadySeconds();
    std::vector<Outcome> outcomes = TRY_NOTE(MeasureRound(measurer_, plan, reference_, options_.measure),
                                             "while tuning " + plan.front().task->report().task->label);
    report_.measure_seconds += SteadySeconds() - begin;
    report_.interrupted = WasCancelled(outcomes);
    if (report_.interrupted) return nullptr;
    std::vector<Record> records;
    std::vector<std::optional<Proposal>> proposals;
    for (size_t i = 0; i < plan.size(); ++i) {
      records.push_back(log_.Make(*plan[i].task, plan[i].proposal, outcomes[i]));
      records.back().facts[kRoundFact] = round_;
      if (const ReferenceTime reference = ReferenceOf(records.back()); !machine_.IsUsual(reference))
        records.back().facts["machine"] = machine_.Name(reference);
      proposals.push_back(std::move(plan[i].proposal));
    }
    if (!exhausted.empty()) records.front().facts[kExhaustedFact] = std::move(exhausted);
    TRY(log_.Append(records));  // before any effect of the records
    std::vector<TaskState*> tasks;
    for (const Planned& planned : plan) tasks.push_back(planned.task);
    Absorb(records, tasks, proposals);
    for (const Record& record : records) TRY(Watch(record));
    return Largest(tasks);
  }

  // Fills `plan`. First come candidates for missing default schedules, of the most expensive tasks first. If the
  // machine is in its usual state and quiet, second measurements of doubtful times follow; those of disturbed times
  // also at the end of the run. Proposals of the search, for the tasks with the largest expected gain, fill the rest.
  // Returns the tasks that were searched.
  Result<std::vector<TaskState*>> Plan(std::vector<Planned>& plan) {
    const size_t most = static_cast<size_t>(std::min(options_.batch, options_.trials - report_.trials));
    std::vector<TaskState*> by_share = BySeconds();
    for (TaskState* task : by_share) {
      if (plan.size() == most) break;
      if (IsGivenUp(*task)) continue;
      if (std::optional<Proposal> proposal = task->NextDefault()) plan.push_back({task, std::move(*proposal)});
    }
    const bool usual = machine_.IsUsual(last_reference_), ends = options_.trials - report_.trials <= options_.batch;
    for (TaskState* task : by_share) {
      if ((!usual || last_disturbed_) && !ends) break;
      for (Proposal& proposal : task->Doubtful(machine_, /*only_disturbed=*/!usual)) {
        if (plan.size() < most) plan.push_back({task, std::move(proposal), CutoffOf(*task)});
      }
    }
    std::map<TaskState*, int> shares;
    for (size_t room = most; room > plan.size();) {
      TaskState* task = Pick(shares);
      if (!task) break;
      int n = std::min(Chunk(), static_cast<int>(room - plan.size()));
      shares[task] += n;
      room -= static_cast<size_t>(n);
    }
    std::vector<TaskState*> searched;
    for (TaskState* task : by_share) {
      if (!shares.contains(task)) continue;
      searched.push_back(task);
      std::vector<Proposal> proposals = TRY_NOTE(task->Propose(shares[task], model_.get(), machine_),
                                                 "while searching " + task->report().task->label);
      for (Proposal& proposal : proposals) {
        plan.push_back({task, std::move(proposal), CutoffOf(*task)});
      }
    }
    return searched;
  }

  bool IsGivenUp(const TaskState& task) const { return any_success_ && task.IsLost(); }

  double CutoffOf(const TaskState& task) const { return kCutoff * task.BestSeconds(machine_); }

  int Share() const { return std::max(1, options_.trials / static_cast<int>(states_.size())); }

  // Returns the trials of a task that failures are compared with. Without a limit, it is the share of the trials so
  // far.
  int FairShare() const {
    return options_.trials == kUnlimitedTrials ? report_.trials / static_cast<int>(states_.size()) : Share();
  }

  // Returns the number of candidates that a task gets at a time. It is small for small budgets, so that more tasks get
  // some.
  int Chunk() const { return std::clamp(Share() / 2, 1, kMostOfOneTask); }

  double FastestRate() const {
    double rate = 0;
    for (const auto& state : states_) {
      double seconds = state->BestSeconds(machine_);
      if (seconds > 0) rate = std::max(rate, state->space().task->flops / seconds);
    }
    return rate;
  }

  double NetworkSeconds(const TaskState& task, double rate) const {
    return task.space().task->weight * task.Progress(machine_, measured_peak_, rate).seconds;
  }

  // Returns the tasks by the time that the network spends in them, the longest first.
  std::vector<TaskState*> BySeconds() const {
    double rate = FastestRate();
    std::vector<std::pair<double, TaskState*>> order;
    for (const auto& state : states_) order.emplace_back(NetworkSeconds(*state, rate), state.get());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<TaskState*> tasks;
    for (const auto& entry : order) tasks.push_back(entry.second);
    return tasks;
  }

  // Returns the machine's peak for the rooflines of tasks; 0: unknown. It follows from the peak at the run's first
  // start and from the run's records.
  double PeakFlops() const {
    double reached = 0;
    for (const auto& state : states_) reached = std::max(reached, state->HighestRate(machine_));
    return BelievedPeak(measured_peak_, reached);
  }

  // Returns the task whose next trial has the largest expected gain; null if no task has anything left to try.
  TaskState* Pick(const std::map<TaskState*, int>& under_way) {
    TaskState* best = nullptr;
    double best_gain = -1, rate = FastestRate(), peak = PeakFlops();
    for (const auto& state : states_) {
      TaskReport& r = state->report();
      int failed = r.records - r.trials;
      if (r.exhausted || state->NextDefault() || IsGivenUp(*state) ||
          failed >= int64_t{kMaxRecordsPerTrial - 1} * std::max({r.trials, options_.batch, FairShare()}))
        continue;
      TaskProgress progress = state->Progress(machine_, peak, rate);
      r.at_roofline = IsAtRoofline(progress);
      if (r.at_roofline) continue;
      auto found = under_way.find(state.get());
      double gain = options_.gain(progress, state->space().task->weight, found == under_way.end() ? 0 : found->second);
      if (gain > best_gain) best_gain = gain, best = state.get();
    }
    return best;
  }

  Status Learn() {
    if (options_.search == SearchKind::kRandom) return {};
    for (const auto& state : states_) model_->Add(state->TakeSamples());
    return model_->Train();
  }

  // ---- outcomes

  // Updates the state of the run with the records of one round, measured now or before the run was resumed. All
  // decisions depend on this state only.
  void Absorb(const std::vector<Record>& records, const std::vector<TaskState*>& tasks,
              const std::vector<std::optional<Proposal>>& proposals) {
    ReferenceTime reference;
    for (const Record& record : records) {
      if (reference.seconds <= 0) reference = ReferenceOf(record);
    }
    if (reference.seconds > 0) last_reference_ = reference;
    const auto disturbed = std::ranges::count_if(records, [](const Record& r) { return !r.disturbed.empty(); });
    last_disturbed_ = 2 * disturbed > std::ranges::count_if(records, IsTrial);
    ++rounds_;
    unusual_rounds_ += !machine_.IsUsual(reference);
    machine_.Add(reference);
    for (size_t i = 0; i < records.size(); ++i) {
      tasks[i]->Absorb(records[i], proposals[i], machine_);
      ++report_.records;
      if (WasExecuted(records[i].status)) ++report_.trials;
      any_success_ |= records[i].status == TrialStatus::kOk;
      if (records[i].status != TrialStatus::kOk) report_.first_error.try_emplace(records[i].status, records[i].error);
    }
    const Json& facts = records.front().facts;
    if (const int64_t* number = facts[kRoundFact].As<int64_t>()) round_ = *number + 1;
    if (const Json::Array* exhausted = facts[kExhaustedFact].As<Json::Array>()) {
      for (const auto& state : states_) {
        Json hash = state->space().task->hash.Hex();
        state->report().exhausted |= std::find(exhausted->begin(), exhausted->end(), hash) != exhausted->end();
      }
    }
    if (!reference_) ChooseReference();
  }

  // Counts failures that stop the run (TuneOptions::give_up_after). Returns the cause as an error at the limit.
  Status Watch(const Record& record) {
    if (!(any_success_ ? IsFarmFault(record.status) : IsToolFault(record.status))) {
      failures_in_a_row_ = 0;
      return {};
    }
    if (++failures_in_a_row_ < options_.give_up_after) return {};
    return Err("the last ", failures_in_a_row_, " candidates all failed: ", ToText(record.status), ": ", record.error);
  }

  // Chooses the reference kernel of the run: the default schedule of the task in which the network spends most time,
  // since the machine's state matters most there. A kernel is left out if one call takes longer than all repeats of a
  // short kernel, since it would delay every batch.
  void ChooseReference() {
    const TaskState* best = nullptr;
    double best_share = 0;
    const double longest = options_.measure.repeats * options_.measure.min_repeat_ms / 1e3;
    for (const auto& state : states_) {
      double seconds = state->report().default_seconds;
      if (!state->HasDefault() || seconds > longest) continue;
      double share = state->space().task->weight * seconds;
      if (share > best_share) best_share = share, best = state.get();
    }
    if (best) reference_ = MeasureItem{.space = &best->space(), .proposal = best->Default(), .check = false};
  }

  // Returns the task that occurs most often.
  static const TaskState* Largest(const std::vector<TaskState*>& tasks) {
    return *std::max_element(tasks.begin(), tasks.end(), [&](TaskState* a, TaskState* b) {
      return std::count(tasks.begin(), tasks.end(), a) < std::count(tasks.begin(), tasks.end(), b);
    });
  }

  // ---- Confirmation

  struct Final {
    TaskState* task;
    std::vector<Finalist> finalists;
    int64_t number;  // Record::confirmation of the losers
  };

  // Returns the confirmations to make, by the time that the network spends in their tasks, the longest first.
  Result<std::vector<Final>> Finals() {
    double rate = FastestRate(), total = 0;
    for (const auto& state : states_) total += NetworkSeconds(*state, rate);
    std::vector<Final> finals;
    for (TaskState* task : BySeconds()) {
      if (NetworkSeconds(*task, rate) <= kNegligible * total) continue;
      std::optional<Record> best = TRY(log_.Best(*task));
      std::vector<Finalist> finalists = task->Finalists(options_.use_known ? best : std::nullopt, machine_);
      if (finalists.size() <= 1) continue;
      const int64_t number = TRY(log_.NextConfirmation(*task));
      finals.push_back({task, std::move(finalists), number});
    }
    return finals;
  }

  Status ConfirmAll(const TuneObserver& observer) {
    std::vector<Final> finals = TRY(Finals());
    report_.to_confirm = static_cast<int>(finals.size());
    for (const Final& final : finals) {
      if (IsSpent(1)) break;
      report_.interrupted = Stopped();
      if (report_.interrupted) break;
      TRY_NOTE(ConfirmOne(final), "while confirming the best schedules of " + final.task->report().task->label);
      if (report_.interrupted) break;
      Tell(observer, *final.task);
    }
    return {};
  }

  Status ConfirmOne(const Final& final) {
    TaskState& task = *final.task;
    double begin = SteadySeconds();
    Confirmation confirmation = TRY(Confirm(measurer_, task.space(), final.finalists, {.measure = options_.measure}));
    report_.measure_seconds += SteadySeconds() - begin;
    report_.interrupted = WasCancelled(confirmation.outcomes);
    // If the farm failed for all finalists, store nothing, so that a resumed run repeats this confirmation.
    const bool lost = std::all_of(confirmation.outcomes.begin(), confirmation.outcomes.end(),
                                  [](const Outcome& outcome) { return IsFarmFault(outcome.status); });
    if (report_.interrupted || lost) return {};
    std::vector<Record> records;
    for (size_t i = 0; i < final.finalists.size(); ++i) {
      records.push_back(log_.Make(task, final.finalists[i].proposal, confirmation.outcomes[i]));
      // The winner gets a number that is higher by one, so that it ranks first, even before a challenger that was
      // faster, but not significantly.
      records.back().confirmation = final.number + (confirmation.winner == i ? 1 : 0);
    }
    TRY(log_.Append(records));
    for (const Record& record : records) task.AbsorbConfirmation(record);
    ++report_.confirmed;
    return {};
  }

  // ---- Resuming

  // Restores the state that the run started from, and absorbs the rounds that it measured before it was interrupted.
  Status Recall() {
    RunLog::Start start = TRY(log_.Begin(states_));
    measured_peak_ = start.peak_flops;
    for (const Record& record : start.known) {
      TaskState* task = TaskOf(states_, record);
      std::optional<Proposal> proposal;
      if (task) proposal = task->Find(record);
      if (proposal) task->Know(*proposal, record);
    }
    std::vector<std::vector<Record>> groups = TRY(log_.Groups());
    const int trials = TrialsIn(groups);
    for (std::vector<Record>& group : groups) {
      std::erase_if(group, [&](const Record& record) { return !TaskOf(states_, record); });
      if (group.empty()) continue;
      if (trials < options_.trials && group.front().confirmation == 0) TRY(Learn());
      RecallGroup(group);
    }
    report_.resumed_trials = report_.trials;
    return {};
  }

  static int TrialsIn(const std::vector<std::vector<Record>>& groups) {
    int64_t trials = 0;
    for (const std::vector<Record>& group : groups) trials += std::count_if(group.begin(), group.end(), IsTrial);
    return static_cast<int>(trials);
  }

  void RecallGroup(const std::vector<Record>& group) {
    std::vector<TaskState*> tasks;
    std::vector<std::optional<Proposal>> proposals;
    for (const Record& record : group) {
      tasks.push_back(TaskOf(states_, record));
      if (record.confirmation > 0) tasks.back()->AbsorbConfirmation(record);
      proposals.push_back(tasks.back()->Find(record));
    }
    if (group.front().confirmation == 0) Absorb(group, tasks, proposals);
  }

  // ---- Reports

  void Report() {
    report_.tasks.clear();
    for (const auto& state : states_) {
      TaskReport task = state->report();
      if (task.best_seconds == 0) task.best_seconds = state->BestSeconds(machine_);  // not confirmed (yet)
      report_.tasks.push_back(std::move(task));
    }
    report_.seconds = SteadySeconds() - started_;
  }

  void Tell(const TuneObserver& observer, const TaskState& current) {
    if (!observer) return;
    Report();
    for (const TaskReport& task : report_.tasks) {
      if (task.task == current.space().task) return observer(report_, task);
    }
  }

  // Completes the report with the best record of each task.
  Result<TuneReport> FinalReport() {
    Report();
    std::vector<std::string> disturbed;  // why the best times of tasks are
    for (size_t i = 0; i < states_.size(); ++i) {
      std::optional<Record> best = TRY(log_.Best(*states_[i]));
      if (best && !best->disturbed.empty()) disturbed.push_back(best->disturbed);
      report_.tasks[i].best_seconds = best ? best->cost : 0;
      report_.tasks[i].best_trace = best ? best->trace : "";
      report_.tasks[i].best_alternative = best ? best->alternative : "";
    }
    report_.notes = NotesOnDisturbances({rounds_, unusual_rounds_, states_.size(), disturbed});
    return report_;
  }

  const std::vector<TuneTask>& tasks_;
  const Target& target_;
  const TuneOptions& options_;
  RunLog log_;
  Measurer& measurer_;
  const std::atomic<bool>* const stop_;
  double measured_peak_ = 0;  // operations per second; 0: unknown
  std::unique_ptr<CostModel> model_;
  TaskStates states_;
  MachineState machine_;
  std::optional<MeasureItem> reference_;
  ReferenceTime last_reference_;
  bool last_disturbed_ = false;  // true: other processes disturbed most times of the latest round
  int64_t round_ = 0;
  int rounds_ = 0, unusual_rounds_ = 0;  // rounds absorbed; those in an unusual state of the machine
  TuneReport report_;
  const double started_ = SteadySeconds();
  bool any_success_ = false;
  int failures_in_a_row_ = 0;
};

}  // namespace

Result<TuneReport> Tune(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
                        RecordStore& store, Measurer& measurer, const TuneObserver& observer,
                        const std::atomic<bool>* stop) {
  return TuneLoop(tasks, target, options, store, measurer, stop).Run(observer);
}

}  // namespace autotune
