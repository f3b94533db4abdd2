// Tune: the loop that spends a budget of trials on the tasks of a network: propose, measure, record, learn. Every
// outcome is in the store before it counts. Resumes: a run with the same key goes on where its records end. Runs on the
// calling thread.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "records/store.h"
#include "tuner/measurer.h"

namespace autotune {

enum class SearchKind { kEvolution, kRandom };
AUTOTUNE_ENUM(SearchKind, "evolution", "random")

struct TuneOptions {
  int trials = 400;        // over all tasks; every task gets at least one round
  double time_budget = 0;  // seconds; 0: none. The last part of it belongs to the confirmation
  int batch = 16;          // candidates per round; small budgets shrink it
  uint64_t seed = 0;
  SearchKind search = SearchKind::kEvolution;
  std::string run;        // records/record.h, RunKey: what resumes
  bool use_known = true;  // start from the best schedules that the store already has
  MeasureOptions measure;
  bool confirm = true;     // measure the best of each task again in turns when the trials are spent (tuner/confirm.h)
  bool lock_host = true;   // search and training hold the host's lock (support/host_lock.h), shared
  int give_up_after = 16;  // equal failures in a row, with no success at all: stop with the cause
};

struct TaskReport {
  const TuneTask* task = nullptr;
  int trials = 0, records = 0;  // of this run
  double default_seconds = 0;   // of the untuned schedule, measured; 0: not measured (yet)
  double best_seconds = 0;      // 0: nothing ran; before the confirmation the least cost, afterwards the winner's
  std::string best_trace;
  std::map<TrialStatus, int> failures;  // of these records; the others are ok
  bool exhausted = false;               // the space has no more points
};

struct TuneReport {
  std::vector<TaskReport> tasks;  // in the order given
  int trials = 0, records = 0;    // of this run, those of earlier sittings included; without confirmations
  int resumed_trials = 0;
  double seconds = 0;  // of this sitting
  double search_seconds = 0, measure_seconds = 0;
  int confirmed = 0, to_confirm = 0;  // tasks, once the trials are spent
  bool interrupted = false;
  std::map<TrialStatus, std::string> first_error;
};

// Called after each batch and each confirmed task, with what the report would be now.
using TuneObserver = std::function<void(const TuneReport& so_far, const TaskReport& current)>;

// `stop` set to true ends the run after the batch in flight. Errors: the store failed, or nothing could be measured.
Result<TuneReport> Tune(const std::vector<TuneTask>& tasks, const Target& target, const TuneOptions& options,
                        RecordStore& store, Measurer& measurer, const TuneObserver& observer = nullptr,
                        const std::atomic<bool>* stop = nullptr);

}  // namespace autotune
