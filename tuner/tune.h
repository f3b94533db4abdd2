// Tune: the loop that spends a budget of trials on the tasks of a network: propose, measure, record, learn. A round is
// one batch of candidates of several tasks. Every outcome is in the store before it counts. Resumes: a run with the
// same key goes on where its records end, and decides as if it had never stopped. Runs on the calling thread.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "records/store.h"
#include "tuner/measurer.h"
#include "tuner/task_scheduler.h"

namespace autotune {

enum class SearchKind { kEvolution, kRandom };
AUTOTUNE_ENUM(SearchKind, "evolution", "random")

// Makes the search of one task; the model learns from all tasks of the run.
using SearchFactory =
    std::function<std::unique_ptr<SearchStrategy>(const TaskSpace& space, const CostModel* model, uint64_t seed)>;

struct TuneOptions {
  int trials = 400;        // over all tasks; the default schedule of each task is its first trial
  double time_budget = 0;  // seconds; 0: none. The last part of it belongs to the confirmation
  int batch = 16;          // candidates per round, over all tasks
  uint64_t seed = 0;
  SearchKind search = SearchKind::kEvolution;
  SearchFactory make_search;  // instead of `search`'s own; null: that
  std::string run;            // records/record.h, RunKey: what resumes
  bool use_known = true;      // start from the best schedules that the store already has
  MeasureOptions measure;
  MachinePeak peak;       // a task at its roofline gets no more rounds; unknown: none is
  bool confirm = true;    // measure the best of each task again in turns when the trials are spent (tuner/confirm.h)
  bool lock_host = true;  // search and training hold the host's lock (support/host_lock.h), shared
  // Failures in a row that are no candidate's own fault (tuner/trial_fault.h, IsToolFault) before the run stops with
  // their cause. Once a candidate has worked, only the farm's failures (IsFarmFault) stop it: what then fails to build
  // or to load is one task's trouble. Rejected, crashing, wrong and slow candidates never stop a run.
  int give_up_after = 16;
};

struct TaskReport {
  const TuneTask* task = nullptr;
  int trials = 0, records = 0;   // of this run
  int candidates = 0, good = 0;  // of these records: not of the default; and of those, ran and were right
  // What `compile` without records would use (tuner/defaults.h), measured; 0: not measured yet, or none of the default
  // candidates ran.
  double default_seconds = 0;
  // While tuning, the best time in the machine's usual state (0: nothing ran); at the end, the cost of the record that
  // RecordStore::Best returns, which `compile` uses.
  double best_seconds = 0;
  std::string best_trace;
  std::string best_alternative;         // the compute alternative of best_trace
  std::map<TrialStatus, int> failures;  // of these records; the others are ok
  bool exhausted = false;               // the space has no more points
  bool at_roofline = false;             // got no more rounds: its best time is the machine's limit
};

struct TuneReport {
  std::vector<TaskReport> tasks;  // in the order given
  int trials = 0, records = 0;    // of this run, those before it was resumed included; without confirmations
  int resumed_trials = 0;
  double seconds = 0;  // of this process
  double search_seconds = 0, measure_seconds = 0;
  int confirmed = 0, to_confirm = 0;  // tasks, once the trials are spent
  bool interrupted = false;
  std::vector<std::string> notes;  // for the user, in the order noticed, each once
  std::map<TrialStatus, std::string> first_error;
};

// Called after each round (`current`: the task with the most candidates in it) and each confirmed task, with what the
// report would be now.
using TuneObserver = std::function<void(const TuneReport& so_far, const TaskReport& current)>;

// Of the code that LLVM is given for a schedule: a record of another version has a time that need not hold any more.
inline constexpr int kCodeGeneratorVersion = 5;
RecordVersions CurrentVersions();

// The versions of all that a run's decisions rest on, to be part of its key: after an upgrade the same command begins a
// new run.
std::vector<std::string> VersionParts();

// `stop` set to true ends the run after the batch in flight; so does a measurement that was cancelled. Errors: the
// store failed; nothing could be measured; too many failures in a row (give_up_after).
Result<TuneReport> Tune(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
                        RecordStore& store, Measurer& measurer, const TuneObserver& observer = nullptr,
                        const std::atomic<bool>* stop = nullptr);

}  // namespace autotune
