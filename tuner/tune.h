// Tune: spends a budget of trials on the tasks of a network, in rounds. A round proposes one batch of candidates of
// several tasks, measures and records them, and trains the cost model. Outcomes are stored before they have any effect.
// A run with the key of an interrupted run resumes where its records end, and decides as if it had never stopped. Tune
// returns when the run ends, and calls its observer on the calling thread.
#pragma once
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "records/store.h"
#include "tuner/measurer.h"
#include "tuner/span.h"
#include "tuner/task_scheduler.h"

namespace autotune {

enum class SearchKind { kEvolution, kRandom };
AUTOTUNE_ENUM(SearchKind, "evolution", "random")

// Makes the search of one task. The model learns from all tasks of the run.
using SearchFactory =
    std::function<std::unique_ptr<SearchStrategy>(const TaskSpace& space, const CostModel* model, uint64_t seed)>;

// Makes the cost model of a run.
using ModelFactory = std::function<std::unique_ptr<CostModel>(uint64_t seed)>;

inline constexpr int kUnlimitedTrials = std::numeric_limits<int>::max();  // only the time budget ends the search

struct TuneOptions {
  int trials = 400;        // over all tasks, including the trials of default schedules
  double time_budget = 0;  // seconds, including the confirmation at the end; 0: no limit
  int batch = 16;          // candidates per round, over all tasks
  uint64_t seed = 0;
  SearchKind search = SearchKind::kEvolution;
  SearchFactory make_search;         // if not null, replaces the strategy of `search`
  ModelFactory make_model;           // if not null, replaces MakeXgboostModel
  GainFunction gain = ExpectedGain;  // ranks tasks for the next trial
  std::string run;        // key by which the run resumes (RunKey in records/record.h); empty: it cannot resume
  bool use_known = true;  // true: the run starts from the best schedules that the store already has
  MeasureOptions measure;
  // The machine's peak in operations per second, for the rooflines of tasks. The run believes it until a schedule
  // exceeds it (BelievedPeak in tuner/task_scheduler.h). 0: unknown.
  double peak_flops = 0;
  bool confirm = true;    // true: after the trials, the best candidates of each task are confirmed (tuner/confirm.h)
  SpanObserver on_span;   // hears of searches; null: nobody does
  bool lock_host = true;  // true: search and training hold the host's lock (support/host_lock.h), shared
  // Number of tool faults in a row (tuner/trial_fault.h, IsToolFault) after which the run stops with their cause. Once
  // a candidate has worked, only faults of the farm (IsFarmFault) stop it, since the cause of failed builds and loads
  // is then a single task. Rejected, crashing, wrong and slow candidates never stop a run.
  int give_up_after = 16;
};

struct TaskReport {
  const TuneTask* task = nullptr;
  int trials = 0, records = 0;  // numbers of trials and records in this run
  // Number of measured candidates of the search, without the default schedule and without faults of the farm; number of
  // those that ran and were right.
  int candidates = 0, good = 0;
  // Time of the default schedule, which `compile` would use without records (tuner/defaults.h). 0 if it is not measured
  // yet, or if no candidate for it ran.
  double default_seconds = 0;
  std::string default_trace, default_alternative;  // empty as long as no candidate for it ran
  // While tuning, the best time in the machine's usual state (0: nothing ran), or the confirmed time once there is one.
  // At the end, the cost of the best record of the store (RecordStore::Best).
  double best_seconds = 0;
  std::string best_trace;
  std::string best_alternative;         // the compute alternative of best_trace
  std::map<TrialStatus, int> failures;  // number of records by status; all other records are ok
  bool exhausted = false;               // true: the space has no more points
  bool only_schedule = false;           // true: the space has no other point than the default schedule
  bool at_roofline = false;             // true: the best time is near the roofline, so the task gets no more trials
};

struct TuneReport {
  std::vector<TaskReport> tasks;  // in the order of the argument `tasks`
  int trials = 0, records = 0;    // numbers in this run, including its part before a resume, without confirmations
  int resumed_trials = 0;
  double seconds = 0;  // time since this process called Tune
  double search_seconds = 0, measure_seconds = 0;
  int confirmed = 0, to_confirm = 0;  // numbers of tasks that are confirmed, and to confirm, once the trials are spent
  bool interrupted = false;
  bool out_of_time = false;        // true: TuneOptions::time_budget ended the search before it had used its trials
  std::vector<std::string> notes;  // for the user, in the order noticed, without duplicates
  std::map<TrialStatus, std::string> first_error;
};

// Called with the report so far, after each round and each confirmed task. `current` is the confirmed task, or the task
// with the most candidates in the round.
using TuneObserver = std::function<void(const TuneReport& so_far, const TaskReport& current)>;

// Version of the LLVM code that this program generates for a schedule. Increase it with each change of that code: times
// in records of other versions may then no longer hold.
inline constexpr int kCodeGeneratorVersion = 18;
RecordVersions CurrentVersions();

// Returns the versions of everything that a run's decisions depend on. They are part of the run's key, so that the same
// command begins a new run after an upgrade.
std::vector<std::string> VersionParts();

// Runs the loop. If `stop` becomes true, or if a measurement was cancelled, the run ends after the current batch. A
// wait for the host's lock ends at once. Errors: the store failed; nothing could be measured; too many failures in a
// row (give_up_after).
Result<TuneReport> Tune(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
                        RecordStore& store, Measurer& measurer, const TuneObserver& observer = nullptr,
                        const std::atomic<bool>* stop = nullptr);

}  // namespace autotune
