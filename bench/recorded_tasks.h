// The candidates of a recording that the present rules still make, replayed, by task.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "support/result.h"
#include "tuner/recording.h"
#include "tuner/search.h"

namespace autotune::bench {

struct RecordedProposal {
  Proposal proposal;
  TrialStatus status = TrialStatus::kOk;
  double seconds = 0;  // as in RecordedCandidate
};

struct LocatedTask {
  std::string kind;
  std::unique_ptr<TuneTask> task;
  TaskSpace space;
  size_t recorded = 0;  // candidates of the recording
  std::vector<RecordedProposal> located;
};

// Replays on all cores. Errors: as of ReadRecording, and tasks that cannot be scheduled.
Result<std::vector<LocatedTask>> LocateRecording(const std::string& path);

}  // namespace autotune::bench
