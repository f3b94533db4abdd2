// CostModel: predicts which candidates are fast. It starts from the draft score. From measurements it learns where the
// draft score is wrong, by which factor, and which candidates fail. With few samples its scores stay close to the draft
// score. Scores are only comparable among candidates of one task. Deterministic: its state follows from the options and
// the sequence of calls of Add and Train. Not thread-safe. It keeps CPU cores busy, so do not call it while this
// machine measures.
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
  // The time that the draft score estimates; positive. If it is infinite (no estimate), the model ignores the sample.
  double draft_seconds = 0;
  double seconds = 0;  // measured time, positive; infinity: the candidate failed
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
  // Returns true once a training has succeeded. From then on, Predict corrects the draft score.
  virtual bool ready() const = 0;
  // Returns one score for each candidate of a task; greater is faster. A score is the logarithm of the expected speed,
  // up to a constant per task. Until ready() is true, it depends on the draft score alone. An error ends the run, for
  // example if a process computes the scores and has ended.
  virtual Result<std::vector<float>> Predict(uint64_t task, std::span<const Candidate> candidates) const = 0;
};

struct XgboostOptions {
  int rounds = 100;  // boosting rounds of a training from scratch; more rounds fit noise
  int max_depth = 5;
  double eta = 0.12;  // learning rate
  // Number of OpenMP threads. They spin while they wait, so on a busy machine two threads are slower than one.
  int threads = 1;
  uint64_t seed = 0;
};
std::unique_ptr<CostModel> MakeXgboostModel(const XgboostOptions& options = {});

}  // namespace autotune
