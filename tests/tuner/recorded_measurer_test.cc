#include "tuner/recorded_measurer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tuner/programs.h"
#include "tests/tuner/recorded.h"

namespace autotune {
namespace {

using test::ConvBiasRelu;
using test::MakeTask;
using test::TestTarget;

class RecordedMeasurerTest : public testing::Test {
 protected:
  RecordedMeasurerTest()
      : recording_(test::RecordFormula({MakeTask("conv", ConvBiasRelu(14, 14, 16, 32, 3, {.pad = {1, 1, 1, 1}}))},
                                       TestTarget(), 400)) {}

  void Make() {
    device_ = RecordedDevice::Make(recording_).value();
    space_ = TaskSpace::Make(device_->tasks()[0], device_->target()).value();
  }
  Proposal Located(const RecordedCandidate& candidate) const {
    return *Locate(space_, candidate.alternative, ParseTrace(candidate.trace).value());
  }
  // Returns points that are not in the recording.
  std::vector<Proposal> Others(int n) const {
    std::unique_ptr<SearchStrategy> search = MakeRandomSearch(space_, 99);
    for (const RecordedCandidate& candidate : recording_.tasks[0].candidates) search->Exclude(Located(candidate));
    return search->Propose(n).value();
  }

  Recording recording_;
  std::shared_ptr<const RecordedDevice> device_;
  TaskSpace space_;
};

TEST_F(RecordedMeasurerTest, WhatWasRecordedIsReplayed) {
  Make();
  std::unique_ptr<Measurer> measurer = MakeRecordedMeasurer(device_);
  std::vector<MeasureItem> items;
  for (const RecordedCandidate& candidate : recording_.tasks[0].candidates)
    items.push_back({.space = &space_, .proposal = Located(candidate)});
  std::vector<Outcome> outcomes = measurer->Measure(items, {}).value();
  ASSERT_EQ(outcomes.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const RecordedCandidate& candidate = recording_.tasks[0].candidates[i];
    EXPECT_EQ(outcomes[i].status, candidate.status);
    EXPECT_EQ(outcomes[i].cost, candidate.seconds);
    EXPECT_EQ(outcomes[i].verified, candidate.status == TrialStatus::kOk);
    EXPECT_EQ(outcomes[i].error.empty(), candidate.status == TrialStatus::kOk);
  }
}

TEST_F(RecordedMeasurerTest, WhatWasNotIsPredictedAndNeverBeatsTheRecord) {
  Make();
  const double best = recording_.tasks[0].BestSeconds();
  int near = 0, ran = 0;
  for (const Proposal& proposal : Others(100)) {
    RecordedDevice::Answer answer = device_->Ask(space_, proposal);
    EXPECT_FALSE(answer.recorded);
    if (answer.status != TrialStatus::kOk) {
      EXPECT_EQ(answer.status, TrialStatus::kRejected) << "only recorded kinds of failures may occur";
      continue;
    }
    EXPECT_GE(answer.seconds, best);
    double truth = test::FormulaSeconds(space_, proposal);
    ++ran;
    near += std::abs(std::log(answer.seconds / truth)) < std::log(2);
  }
  ASSERT_GT(ran, 30) << "too few candidates ran";
  EXPECT_GT(near, ran / 2);
  Proposal bare = Others(1)[0];
  RecordedDevice::Answer with = device_->Ask(space_, bare);
  bare.features.clear();
  EXPECT_EQ(device_->Ask(space_, bare).seconds, with.seconds) << "missing features must be computed";
}

TEST_F(RecordedMeasurerTest, TheFitIsJudgedByWhatItDidNotSee) {
  Make();
  const FitError& fit = device_->fit()[0];
  ASSERT_GT(fit.held_out, 30) << "too few candidates were held out";
  EXPECT_GT(fit.fitted, 4 * fit.held_out / 2);
  EXPECT_GT(fit.rank_correlation, 0.7);
  EXPECT_LT(fit.median_log_error, 0.4);
  // Times that do not depend on the features cannot be predicted, so the error must be large.
  Rng rng(5);
  for (RecordedCandidate& candidate : recording_.tasks[0].candidates) {
    if (candidate.status == TrialStatus::kOk) candidate.seconds = 1e-3 * std::exp(rng.Normal());
  }
  Make();
  EXPECT_LT(device_->fit()[0].rank_correlation, 0.4);
  EXPECT_GT(device_->fit()[0].median_log_error, 0.4);
}

TEST_F(RecordedMeasurerTest, NoiseIsSeededAndOnlyAddsTime) {
  Make();
  std::vector<MeasureItem> items;
  for (const Proposal& proposal : Others(20)) items.push_back({.space = &space_, .proposal = proposal});
  auto costs = [&](double noise, uint64_t seed) {
    std::vector<double> costs;
    for (const Outcome& outcome :
         MakeRecordedMeasurer(device_, {.noise = noise, .seed = seed})->Measure(items, {}).value())
      costs.push_back(outcome.cost);
    return costs;
  };
  std::vector<double> quiet = costs(0, 1), noisy = costs(0.1, 1);
  EXPECT_EQ(noisy, costs(0.1, 1));
  EXPECT_NE(noisy, costs(0.1, 2));
  EXPECT_NE(noisy, quiet);
  for (size_t i = 0; i < quiet.size(); ++i) EXPECT_GE(noisy[i], quiet[i]);
}

TEST_F(RecordedMeasurerTest, WhatIsTooSlowIsCutOff) {
  Make();
  const auto& candidates = recording_.tasks[0].candidates;
  auto ran = std::find_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.seconds > 0; });
  MeasureItem item{.space = &space_, .proposal = Located(*ran), .cutoff_seconds = ran->seconds / 2};
  Outcome outcome = MakeRecordedMeasurer(device_)->Measure({item}, {}).value()[0];
  EXPECT_EQ(outcome.status, TrialStatus::kCutOff);
  EXPECT_EQ(outcome.cost, ran->seconds);
  item.cutoff_seconds = ran->seconds * 2;
  EXPECT_EQ(MakeRecordedMeasurer(device_)->Measure({item}, {}).value()[0].status, TrialStatus::kOk);
}

TEST_F(RecordedMeasurerTest, FeaturesOfAnotherSchemaAreComputedAnew) {
  Make();
  Proposal other = Others(1)[0];
  double seconds = device_->Ask(space_, other).seconds;
  recording_.header.versions.feature_schema = kFeatureVersion + 1;
  for (RecordedCandidate& candidate : recording_.tasks[0].candidates) candidate.features = {1, 2, 3};
  Make();
  EXPECT_EQ(device_->Ask(space_, other).seconds, seconds);
}

TEST_F(RecordedMeasurerTest, ATaskInWhichNothingRanIsRefused) {
  for (RecordedCandidate& candidate : recording_.tasks[0].candidates) candidate.status = TrialStatus::kRejected;
  EXPECT_FALSE(RecordedDevice::Make(recording_).ok());
}

}  // namespace
}  // namespace autotune
