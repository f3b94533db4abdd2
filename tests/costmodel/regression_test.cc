#include "costmodel/regression.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/rng.h"

namespace autotune {
namespace {

struct Data {
  std::vector<Features> rows;
  std::vector<float> labels;
  std::vector<const Features*> Pointers() const {
    std::vector<const Features*> pointers;
    for (const Features& row : rows) pointers.push_back(&row);
    return pointers;
  }
};

// The label is a smooth function of two features; the others are noise.
Data Draw(int n, uint64_t seed) {
  Rng rng(seed);
  Data data;
  for (int i = 0; i < n; ++i) {
    Features row(static_cast<size_t>(NumFeatures()));
    for (float& value : row) value = static_cast<float>(rng.Uniform());
    data.labels.push_back(3 * row[4] + row[9] * row[9] - 7);
    data.rows.push_back(std::move(row));
  }
  return data;
}

TEST(Regression, PredictsTheLabelItselfOnUnseenRows) {
  Data train = Draw(800, 1), test = Draw(200, 2);
  auto model = FitRegression(train.Pointers(), train.labels);
  ASSERT_TRUE(model.ok()) << model.error().Text();
  std::vector<float> predicted = (*model)->Predict(test.rows);
  double error = 0, spread = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    error += std::abs(predicted[i] - test.labels[i]);
    spread += std::abs(test.labels[i] + 5.2);  // distance from the labels' mean, -5.2
  }
  EXPECT_LT(error, 0.25 * spread);
  EXPECT_TRUE((*model)->Predict({}).empty());
}

TEST(Regression, OneSeedOneModel) {
  Data train = Draw(200, 1), test = Draw(20, 2);
  auto predict = [&](uint64_t seed) {
    return FitRegression(train.Pointers(), train.labels, {.seed = seed}).value()->Predict(test.rows);
  };
  const std::vector<float> first = predict(1);
  EXPECT_EQ(predict(1), first);
  EXPECT_NE(predict(2), first);
  EXPECT_NE(predict(UINT64_MAX), first);
}

}  // namespace
}  // namespace autotune
