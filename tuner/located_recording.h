// The replayed candidates of a recording (tuner/recording.h), by task, as far as the present rules still make them.
// Benches and tests judge the draft score and the cost model by them. Values; thread-safe.
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
  double seconds = 0;  // as in RecordedCandidate
};

struct LocatedTask {
  std::string kind;
  std::unique_ptr<TuneTask> task;
  TaskSpace space;
  size_t recorded = 0;  // candidates of the recording
  bool fitted = false;  // a number of the draft score was chosen by its times, so they cannot judge the score
  std::vector<LocatedCandidate> candidates;
};

// Replays on all cores. Errors: tasks that cannot be scheduled, traces that cannot be parsed.
Result<std::vector<LocatedTask>> LocateRecording(const Recording& recording);

// How the draft score orders the candidates of a task that ran, those left out that it rules out (infinity).
struct DraftOrder {
  static constexpr size_t kFewest = 30;  // candidates for a correlation that means something
  size_t ran = 0;
  double rank_correlation = 0;  // Spearman's, of draft score and measured time
  double regret = 0;            // time of the candidate with the best draft score, over the least time; 1: none
};
DraftOrder DraftOrderOf(const LocatedTask& task);

}  // namespace autotune
