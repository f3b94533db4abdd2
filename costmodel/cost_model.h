// CostModel: predicts which candidates are fast. It corrects the draft score: what it learns from measurements is by
// how much, and where, the draft score is wrong, and which candidates fail. So its predictions are never worse informed
// than the draft score, however few the samples. Predictions are only compared among candidates of one task.
// Deterministic: a function of the options and of the sequence of calls of Add and Train. Not thread-safe; call it
// outside measuring phases.
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
  double draft_seconds = 0;  // positive; infinity: the draft score finds no cost, the sample teaches nothing
  double seconds = 0;        // positive; infinity: the candidate itself failed
};

// What the model needs to know of a candidate.
struct Candidate {
  const Features* features = nullptr;
  double draft_seconds = 0;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual void Add(std::vector<Sample> samples) = 0;
  // Learns from all samples so far. Cheap if few were added since the last call.
  virtual Status Train() = 0;
  // True once it knows more than the draft score.
  virtual bool ready() const = 0;
  // A score for each candidate of one task: greater is faster. The logarithm of the expected speed, up to a constant of
  // the task. Before ready() it is that of the draft score.
  virtual std::vector<float> Predict(uint64_t task, std::span<const Candidate> candidates) const = 0;
};

struct XgboostOptions {
  int rounds = 100;  // boosting rounds of a training from scratch; more follow noise
  int max_depth = 5;
  double eta = 0.12;
  int threads = 1;  // OpenMP's threads spin while they wait: two on a busy machine are slower than one
  uint64_t seed = 0;
};
std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options = {});

}  // namespace autotune
