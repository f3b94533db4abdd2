// Regression: gradient-boosted trees that predict a number from the features of a program. A Regression predicts the
// label itself, while the scores of a CostModel only rank candidates. Thread-safe once fitted.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "costmodel/features.h"
#include "support/result.h"

namespace autotune {

struct RegressionOptions {
  int rounds = 200;  // trees
  int max_depth = 6;
  double eta = 0.08;
  double subsample = 0.8;  // share of the rows that each tree is fitted to
  int threads = 1;
  uint64_t seed = 0;
};

class Regression {
 public:
  virtual ~Regression() = default;
  virtual std::vector<float> Predict(std::span<const Features> rows) const = 0;
};

// Fits by least squares. `rows` and `labels` have the same length, at least 1. Deterministic.
Result<std::unique_ptr<Regression>> FitRegression(std::span<const Features* const> rows, std::span<const float> labels,
                                                  const RegressionOptions& options = {});

}  // namespace autotune
