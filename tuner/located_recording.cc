#include "tuner/located_recording.h"

#include <algorithm>
#include <cmath>

#include "support/statistics.h"
#include "tuner/parallel.h"

namespace autotune {
namespace {

// Labels of the tasks to whose recorded times a constant of tuner/draft.cc was fitted (kEvicted).
constexpr std::string_view kFitted[] = {"matmul_add_relu [5,3464] x [3464,2088]"};

}  // namespace

Result<std::vector<LocatedTask>> LocateRecording(const Recording& recording) {
  const Target target = TRY(Target::Parse(recording.header.target));
  std::vector<LocatedTask> tasks(recording.tasks.size());
  TRY(ForEachInParallel(tasks.size(), 0, [&](size_t i) -> Status {
    const RecordedTask& recorded = recording.tasks[i];
    LocatedTask& task = tasks[i];
    task.kind = recorded.kind;
    task.task = std::make_unique<TuneTask>(TRY(MakeTuneTask(recorded)));
    task.space = TRY(TaskSpace::Make(*task.task, target));
    task.recorded = recorded.candidates.size();
    task.fitted = std::ranges::find(kFitted, recorded.label) != std::end(kFitted);
    for (const RecordedCandidate& candidate : recorded.candidates) {
      std::optional<Proposal> proposal = Locate(task.space, candidate.alternative, TRY(ParseTrace(candidate.trace)));
      if (proposal) task.candidates.push_back({std::move(*proposal), candidate.status, candidate.seconds});
    }
    return {};
  }));
  return tasks;
}

DraftOrder DraftOrderOf(const LocatedTask& task) {
  std::vector<double> drafts, seconds;
  for (const LocatedCandidate& candidate : task.candidates) {
    if (candidate.status != TrialStatus::kOk || !std::isfinite(candidate.proposal.draft_seconds)) continue;
    drafts.push_back(candidate.proposal.draft_seconds);
    seconds.push_back(candidate.seconds);
  }
  DraftOrder order{.ran = drafts.size()};
  if (drafts.empty()) return order;
  order.rank_correlation = RankCorrelation(drafts, seconds);
  const auto best = std::ranges::min_element(drafts) - drafts.begin();
  order.regret = seconds[static_cast<size_t>(best)] / *std::ranges::min_element(seconds);
  return order;
}

}  // namespace autotune
