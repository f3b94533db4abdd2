// RunLog: what a tuning run writes to the store, and what it reads back when it is resumed. Not thread-safe.
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
  // All must outlive it.
  RunLog(const Target& target, const TuneOptions& options, RecordStore& store)
      : target_(target), options_(options), store_(store) {}

  // What a run starts from. It is stored when the run begins: by the time it is resumed, other runs may have added
  // better schedules, its own are among the best, and a peak measured again is another one.
  struct Start {
    std::vector<Record> known;  // schedules of other runs, best first for each task
    MachinePeak peak;
  };
  Result<Start> Begin(const TaskStates& tasks);

  // The record of one candidate.
  Record Make(const TaskState& task, const Proposal& proposal, const Outcome& outcome) const;

  // The run's records so far, in the order stored, a group for each round and each confirmation.
  Result<std::vector<std::vector<Record>>> Groups();

  // Stores all of them or none.
  Status Append(const std::vector<Record>& records) { return store_.Append(records); }
  // The record that `compile` takes for this task.
  Result<std::optional<Record>> Best(const TaskState& task);

 private:
  const Target& target_;
  const TuneOptions& options_;
  RecordStore& store_;
};

// The task that a record is of; null: none of these.
TaskState* TaskOf(const TaskStates& tasks, const Record& record);

}  // namespace autotune
