// RunLog: writes a tuning run to the store, and reads it back when the run is resumed. Not thread-safe.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "records/store.h"
#include "tuner/task_state.h"
#include "tuner/tune.h"

namespace autotune {

using TaskStates = std::vector<std::unique_ptr<TaskState>>;

class RunLog {
 public:
  // The arguments must outlive the log.
  RunLog(const Target& target, const TuneOptions& options, RecordStore& store)
      : target_(target), options_(options), store_(store) {}

  // The state that a run starts from. It is stored when the run begins, since a resumed run could not compute it again:
  // by then the store may have better schedules, and a new measurement of the peak would differ.
  struct Start {
    std::vector<Record> known;  // schedules of other runs, best first for each task
    double peak_flops = 0;      // TuneOptions::peak_flops of the run's first start
  };
  // Returns the stored state of a run that is resumed. For a new run, determines the state, and stores it if the run
  // has a key.
  Result<Start> Begin(const TaskStates& tasks);

  // Returns the record of one candidate.
  Record Make(const TaskState& task, const Proposal& proposal, const Outcome& outcome) const;

  // Returns the run's records so far, in the order stored. Each round and each confirmation is one group.
  Result<std::vector<std::vector<Record>>> Groups();

  // Stores all records or none.
  Status Append(const std::vector<Record>& records) { return store_.Append(records); }
  // Returns the best record of this task (RecordStore::Best).
  Result<std::optional<Record>> Best(const TaskState& task);
  // Returns a Record::confirmation that exceeds those of all ranked schedules of this task.
  Result<int64_t> NextConfirmation(const TaskState& task);

 private:
  const Target& target_;
  const TuneOptions& options_;
  RecordStore& store_;
};

// Returns the task of a record; null if it is not in `tasks`.
TaskState* TaskOf(const TaskStates& tasks, const Record& record);

}  // namespace autotune
