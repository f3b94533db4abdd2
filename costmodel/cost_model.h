// CostModel: predicts which candidates are fast. It starts from the draft score and learns from measurements where the
// draft score is wrong, by which factor, and which candidates fail. With few samples its scores stay close to the draft
// score. Scores are only comparable among candidates of one task. Deterministic: its state follows from the options and
// the sequence of calls of Add and Train. Not thread-safe; call it outside measuring phases.
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
  double draft_seconds = 0;  // positive; infinity: the draft score finds no cost, and the model ignores the sample
  double seconds = 0;        // positive; infinity: the candidate itself failed
};

// The inputs of one prediction.
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
  // True once it has been trained: from then on Predict corrects the draft score.
  virtual bool ready() const = 0;
  // One score per candidate of one task; greater is faster. A score is the logarithm of the expected speed, up to a
  // constant per task. Before ready() it follows from the draft score alone.
  virtual std::vector<float> Predict(uint64_t task, std::span<const Candidate> candidates) const = 0;
};

struct XgboostOptions {
  int rounds = 100;  // boosting rounds of a training from scratch; more of them fit noise
  int max_depth = 5;
  double eta = 0.12;
  int threads = 1;  // OpenMP threads; they spin while they wait, so on a busy machine two are slower than one
  uint64_t seed = 0;
};
std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options = {});

}  // namespace autotune
