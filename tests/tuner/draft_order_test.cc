// Compares the order of the draft score with the measured order, on the oracle's recordings (docs/recordings.md). The
// test leaves out tasks to whose times a constant of the draft score was fitted. It also leaves out tasks whose
// recorded schedules the present rules no longer make; in the older recording, these are pooling, depthwise and grouped
// convolutions.
#include <gtest/gtest.h>

#include <utility>

#include "support/statistics.h"
#include "tests/draws.h"
#include "tuner/located_recording.h"

namespace autotune {
namespace {

// Lower bounds for Spearman's rank correlations: for their median over the kinds of tasks, and for each kind.
constexpr double kLeastMedian = 0.6, kLeast = 0.3;
constexpr double kMostRegret = 1.25;  // largest regret of the untuned choice, in the median task
constexpr size_t kFewestKinds = 9;    // fewest kinds that a recording must still cover
constexpr size_t kStride = 4;         // every fourth candidate is compared, which saves time and is enough

// Returns a recording with every kStride-th candidate of each task.
Recording Thinned(Recording recording) {
  for (RecordedTask& task : recording.tasks) {
    for (size_t i = 0; i * kStride < task.candidates.size(); ++i)
      std::swap(task.candidates[i], task.candidates[i * kStride]);
    task.candidates.resize((task.candidates.size() + kStride - 1) / kStride);
  }
  return recording;
}

TEST(DraftOrder, FollowsTheMeasuredOrder) {
  size_t number = 0;
  for (const char* name : {"zen5_2_cores", "intel_2_cores"}) {
    if (!test::IsDrawn(number++, 2)) continue;
    SCOPED_TRACE(name);
    const std::string path = std::string(AUTOTUNE_SOURCE_DIR "/bench/oracle_data/") + name + ".jsonl.zst";
    const Recording recording = Thinned(ReadRecording(path).value());
    std::vector<double> correlations, regrets;
    for (const LocatedTask& task : LocateRecording(recording).value()) {
      const DraftOrder order = DraftOrderOf(task);
      if (order.ran < DraftOrder::kFewest || task.fitted) continue;
      // Nothing predicts these times, not even a model that was fitted to others of them.
      const bool noise = std::string_view(name) == "intel_2_cores" && task.kind == "attention values";
      if (!noise) {
        EXPECT_GE(order.rank_correlation, kLeast) << task.kind;
      }
      correlations.push_back(order.rank_correlation);
      regrets.push_back(order.regret);
    }
    ASSERT_GE(correlations.size(), kFewestKinds);
    EXPECT_GE(Median(correlations), kLeastMedian);
    EXPECT_LE(Median(regrets), kMostRegret);
  }
}

// Random scores fail the bound of the rank correlation. If the scores are the measured times, the order is perfect; if
// they are the negated times, it is the reverse.
TEST(DraftOrder, TellsAScoreWithoutKnowledge) {
  const Recording recording = ReadRecording(AUTOTUNE_SOURCE_DIR "/tests/tuner/recorded.jsonl.zst").value();
  std::vector<LocatedTask> tasks = LocateRecording(recording).value();
  size_t judged = 0;
  for (LocatedTask& task : tasks) {
    if (DraftOrderOf(task).ran < DraftOrder::kFewest) continue;
    ++judged;
    EXPECT_GE(DraftOrderOf(task).rank_correlation, kLeast) << task.kind;
    Rng rng(1);
    for (LocatedCandidate& candidate : task.candidates) candidate.proposal.draft_seconds = rng.Uniform();
    EXPECT_LT(DraftOrderOf(task).rank_correlation, kLeast) << task.kind;
    for (LocatedCandidate& candidate : task.candidates) candidate.proposal.draft_seconds = -candidate.seconds;
    EXPECT_NEAR(DraftOrderOf(task).rank_correlation, -1, 1e-9) << task.kind;
    EXPECT_GT(DraftOrderOf(task).regret, 1) << "an inverted score chooses the worst candidate";
    for (LocatedCandidate& candidate : task.candidates) candidate.proposal.draft_seconds = candidate.seconds;
    EXPECT_NEAR(DraftOrderOf(task).rank_correlation, 1, 1e-9) << task.kind;
    EXPECT_EQ(DraftOrderOf(task).regret, 1) << task.kind;
  }
  EXPECT_GE(judged, 4U);
}

}  // namespace
}  // namespace autotune
