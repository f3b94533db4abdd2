// CostModel: predicts which candidates are fast, from what was measured. Predictions are only compared among candidates
// of one task. Not thread-safe; call it outside measuring phases.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "costmodel/features.h"
#include "support/result.h"

namespace autotune {

struct Sample {
  uint64_t task = 0;  // samples are normalised within their task
  Features features;
  double seconds = 0;  // infinity: the candidate failed
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual void Add(std::vector<Sample> samples) = 0;
  // Learns from all samples so far; cheap to call when few were added since.
  virtual Status Train() = 0;
  // True once there is something to predict from.
  virtual bool ready() const = 0;
  // A score for each candidate: greater is faster.
  virtual std::vector<float> Predict(std::span<const Features> candidates) const = 0;
};

struct XgboostOptions {
  int rounds = 100;  // boosting rounds; more follow noise
  int max_depth = 5;
  double eta = 0.12;
  int threads = 1;       // OpenMP's threads spin while they wait: two on a busy machine are slower than one
  double growth = 0.15;  // trained anew once the samples have grown by this share
  uint64_t seed = 0;
};
std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options = {});

}  // namespace autotune
