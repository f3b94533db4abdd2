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

TEST(CostModel, LearnsAnOrderFromMeasurements) {
  auto model = MakeXgboostModel();
  EXPECT_FALSE(model->ready());
  Rng rng(1);
  std::vector<Sample> samples;
  for (int i = 0; i < 200; ++i) {
    float x = static_cast<float>(rng.Uniform()), y = static_cast<float>(rng.Uniform());
    samples.push_back({7, Made(x, y), Truth(x, y)});
  }
  model->Add(samples);
  ASSERT_TRUE(model->Train().ok());
  ASSERT_TRUE(model->ready());
  int right = 0;
  for (int i = 0; i < 100; ++i) {
    float x = static_cast<float>(rng.Uniform()), y = static_cast<float>(rng.Uniform());
    float u = static_cast<float>(rng.Uniform()), v = static_cast<float>(rng.Uniform());
    Features pair[] = {Made(x, y), Made(u, v)};
    auto score = model->Predict(pair);
    right += (score[0] > score[1]) == (Truth(x, y) < Truth(u, v));
  }
  EXPECT_GT(right, 85);
}

TEST(CostModel, FailuresAreWorst) {
  auto model = MakeXgboostModel();
  std::vector<Sample> samples;
  for (int i = 0; i < 40; ++i) samples.push_back({7, Made(i % 2 ? 1.f : 0.f, 0), i % 2 ? 1e-3 : INFINITY});
  model->Add(samples);
  ASSERT_TRUE(model->Train().ok());
  Features pair[] = {Made(1, 0), Made(0, 0)};
  auto score = model->Predict(pair);
  EXPECT_GT(score[0], score[1]);
}

TEST(CostModel, NothingButFailuresTeachesNothing) {
  auto model = MakeXgboostModel();
  model->Add(std::vector<Sample>(20, Sample{7, Made(0, 0), INFINITY}));
  ASSERT_TRUE(model->Train().ok());
  EXPECT_FALSE(model->ready());
}

}  // namespace
}  // namespace autotune
