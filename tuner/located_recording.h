// The replayed candidates of a recording (tuner/recording.h), by task. Leaves out candidates that the current rules do
// not make. Benches and tests compare the draft score and the cost model with their times. Values; thread-safe.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "support/result.h"
#include "tuner/recording.h"
#include "tuner/search.h"

namespace autotune {

struct LocatedCandidate {
  Proposal proposal;
  TrialStatus status = TrialStatus::kOk;
  double seconds = 0;  // per call; a lower bound if it was cut off; 0 if it failed
};

struct LocatedTask {
  std::string kind;
  std::unique_ptr<TuneTask> task;
  TaskSpace space;
  size_t recorded = 0;  // number of candidates in the recording
  bool fitted = false;  // true: unfit to judge the draft score, since one of its constants was fitted to these times
  std::vector<LocatedCandidate> candidates;
};

// Replays on all cores. Errors: tasks that cannot be scheduled, traces that cannot be parsed.
Result<std::vector<LocatedTask>> LocateRecording(const Recording& recording);

// How well the draft score orders those candidates of a task that ran. Leaves out candidates with an infinite score.
struct DraftOrder {
  static constexpr size_t kFewest = 30;  // least number of candidates for a meaningful correlation
  size_t ran = 0;                        // number of candidates that were ordered
  double rank_correlation = 0;           // Spearman's, of draft score and measured time
  double regret = 0;  // time of the candidate with the best draft score, over the least time; 1: no regret
};
DraftOrder DraftOrderOf(const LocatedTask& task);

}  // namespace autotune
