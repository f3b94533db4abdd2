#include "costmodel/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/rng.h"

namespace autotune {
namespace {

Features Made(float x, float y) {
  Features f(NumFeatures(), 0.f);
  f[3] = x;
  f[20] = y;
  return f;
}
double Truth(float x, float y) { return 1e-3 * (1 + x * x + (y > 0.5f ? 2 : 0)); }

constexpr double kFlat = 1e-3;  // seconds; the same draft score for all candidates, whose order only the model predicts

std::vector<float> Scores(const CostModel& model, uint64_t task, const std::vector<Features>& features,
                          const std::vector<double>& drafts) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < features.size(); ++i) candidates.push_back({&features[i], drafts[i]});
  return model.Predict(task, candidates).value();
}

Sample Drawn(uint64_t task, Rng& rng, double draft = kFlat) {
  float x = static_cast<float>(rng.Uniform()), y = static_cast<float>(rng.Uniform());
  return {task, Made(x, y), draft, Truth(x, y)};
}

// Returns the share of random pairs that the model puts in the right order.
double ShareOrdered(const CostModel& model, uint64_t task, uint64_t seed) {
  Rng rng(seed);
  int right = 0, pairs = 100;
  for (int i = 0; i < pairs; ++i) {
    Sample a = Drawn(task, rng), b = Drawn(task, rng);
    std::vector<float> score = Scores(model, task, {a.features, b.features}, {kFlat, kFlat});
    right += (score[0] > score[1]) == (a.seconds < b.seconds);
  }
  return static_cast<double>(right) / pairs;
}

std::vector<Sample> DrawnSamples(uint64_t task, uint64_t seed, int n) {
  Rng rng(seed);
  std::vector<Sample> samples;
  for (int i = 0; i < n; ++i) samples.push_back(Drawn(task, rng));
  return samples;
}

TEST(CostModel, LearnsAnOrderFromMeasurements) {
  auto model = MakeXgboostModel();
  EXPECT_FALSE(model->ready());
  model->Add(DrawnSamples(7, 1, 200));
  ASSERT_TRUE(model->Train().ok());
  ASSERT_TRUE(model->ready());
  EXPECT_GT(ShareOrdered(*model, 7, 2), 0.85);
}

TEST(CostModel, KnowsTheDraftScoreBeforeItHasLearned) {
  auto model = MakeXgboostModel();
  std::vector<float> score = Scores(*model, 7, {Made(1, 0), Made(0, 1)}, {2e-3, 1e-3});
  EXPECT_LT(score[0], score[1]);
  EXPECT_NEAR(score[1] - score[0], std::log(2), 1e-5);
}

// If the draft score is right up to a factor per task, the model has nothing to correct.
TEST(CostModel, KeepsADraftScoreThatIsRight) {
  auto model = MakeXgboostModel();
  Rng rng(3);
  for (uint64_t task : {1, 2}) {
    std::vector<Sample> samples;
    for (int i = 0; i < 60; ++i) {
      Sample sample = Drawn(task, rng);
      sample.draft_seconds = sample.seconds / static_cast<double>(task * 5);
      samples.push_back(sample);
    }
    model->Add(samples);
  }
  ASSERT_TRUE(model->Train().ok());
  ASSERT_TRUE(model->ready());
  std::vector<float> score = Scores(*model, 2, {Made(0.9f, 0.9f), Made(0.1f, 0.1f)}, {1e-3, 1.1e-3});
  EXPECT_NEAR(score[0] - score[1], std::log(1.1), 0.02);
}

TEST(CostModel, FailuresAreWorst) {
  auto model = MakeXgboostModel();
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) samples.push_back({7, Made(i % 2 ? 1.f : 0.f, 0), kFlat, i % 2 ? 1e-3 : INFINITY});
  model->Add(samples);
  ASSERT_TRUE(model->Train().ok());
  // A draft score three times as good does not outweigh the failures.
  std::vector<float> score = Scores(*model, 7, {Made(1, 0), Made(0, 0)}, {3 * kFlat, kFlat});
  EXPECT_GT(score[0], score[1]);
}

TEST(CostModel, NothingButFailuresTeachesNothing) {
  auto model = MakeXgboostModel();
  model->Add(std::vector<Sample>(20, Sample{7, Made(0, 0), kFlat, INFINITY}));
  ASSERT_TRUE(model->Train().ok());
  EXPECT_FALSE(model->ready());
}

// Returns how far the model moves the scores of a task away from the draft score.
double Correction(const CostModel& model, uint64_t task) {
  std::vector<float> score = Scores(model, task, {Made(0.1f, 0.1f), Made(0.9f, 0.9f)}, {kFlat, kFlat});
  return score[0] - score[1];
}

// A correction learned from other tasks has little weight. The weight grows with the number of a task's own samples.
TEST(CostModel, TrustsItsCorrectionAsATasksOwnSamplesGrow) {
  auto model = MakeXgboostModel();
  model->Add(DrawnSamples(1, 1, 100));
  ASSERT_TRUE(model->Train().ok());
  const double own = Correction(*model, 1), other = Correction(*model, 2);
  EXPECT_GT(other, 0);
  EXPECT_LT(other, 0.4 * own);
  model->Add(DrawnSamples(2, 2, 40));
  ASSERT_TRUE(model->Train().ok());
  EXPECT_GT(Correction(*model, 2), 2 * other);
}

// The best schedules of an earlier run are all about equally fast, so they do not teach the model to distinguish good
// candidates from bad ones.
TEST(CostModel, SurvivorsDoNotMakeItTrustItself) {
  auto model = MakeXgboostModel();
  model->Add(DrawnSamples(1, 1, 100));
  std::vector<Sample> survivors;
  for (int i = 0; i < 12; ++i) {
    float x = static_cast<float>(i) / 12;
    survivors.push_back({2, Made(x, x), kFlat, kFlat * (1 + 0.005 * i)});
  }
  model->Add(survivors);
  ASSERT_TRUE(model->Train().ok());
  EXPECT_LT(Correction(*model, 2), 0.4 * Correction(*model, 1));
}

// Training after every few samples, as the tune loop does, is as good as training once.
TEST(CostModel, GoesOnLearning) {
  auto steps = MakeXgboostModel();
  std::vector<Sample> samples = DrawnSamples(7, 1, 150);
  size_t at = 0;
  std::vector<double> ordered;
  for (size_t until : {16, 32, 60, 90, 120, 150}) {
    steps->Add(
        {samples.begin() + static_cast<std::ptrdiff_t>(at), samples.begin() + static_cast<std::ptrdiff_t>(until)});
    at = until;
    ASSERT_TRUE(steps->Train().ok());
    ordered.push_back(ShareOrdered(*steps, 7, 2));
  }
  EXPECT_GT(ordered.back(), 0.85);
  EXPECT_GT(ordered.back(), ordered.front());
}

TEST(CostModel, OneSequenceOfCallsOneModel) {
  std::vector<float> scores[2];
  for (std::vector<float>& s : scores) {
    auto model = MakeXgboostModel({.seed = 5});
    for (uint64_t round = 0; round < 6; ++round) {
      std::vector<Sample> samples = DrawnSamples(round % 2, round, 11);
      samples.push_back({round % 2, Made(0.5f, 1), kFlat, INFINITY});
      model->Add(samples);
      ASSERT_TRUE(model->Train().ok());
      ASSERT_TRUE(model->Train().ok());  // does nothing without new samples
    }
    s = Scores(*model, 1, {Made(0.2f, 0.2f), Made(0.7f, 0.1f), Made(0.5f, 1)}, {kFlat, kFlat, kFlat});
  }
  EXPECT_EQ(scores[0], scores[1]);
}

TEST(CostModel, TakesEverySeed) {
  auto model = MakeXgboostModel({.seed = UINT64_MAX});
  model->Add(DrawnSamples(1, 1, 11));
  Status trained = model->Train();
  EXPECT_TRUE(trained.ok()) << trained.error().Text();
}

}  // namespace
}  // namespace autotune
