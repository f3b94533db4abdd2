// A device that was recorded (tuner/recording.h): a candidate that was measured then gets the time that it had, any
// other the time that a model fitted to the recording predicts. So a search is judged in seconds, without a device.
//
// The model is one regression of log(time) per task, on the features of the candidates that ran, and one of success,
// on all of them. It never predicts less than the least recorded time of the task: about faster candidates the
// recording knows nothing.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tuner/measurer.h"
#include "tuner/recording.h"

namespace autotune {

// How well the model predicts the records of one task that it was not fitted to.
struct FitError {
  int fitted = 0, held_out = 0;  // candidates that ran
  double median_log_error = 0;   // |ln(predicted / recorded)|
  double rank_correlation = 0;   // Spearman's, between predicted and recorded times
  double right_verdicts = 1;     // share of held-out candidates, failures included, whose success is foretold
};

struct RecordedDeviceOptions {
  double held_out = 0.2;  // share of the candidates that the model does not see
  uint64_t seed = 0;      // of the choice of these, and of the model
};

// Immutable and thread-safe.
class RecordedDevice {
 public:
  static Result<std::shared_ptr<const RecordedDevice>> Make(Recording recording,
                                                            const RecordedDeviceOptions& options = {});
  virtual ~RecordedDevice() = default;

  // Parallel to the recording's tasks.
  virtual const Recording& recording() const = 0;
  virtual const std::vector<TuneTask>& tasks() const = 0;
  virtual const std::vector<FitError>& fit() const = 0;
  virtual const Target& target() const = 0;

  struct Answer {
    TrialStatus status = TrialStatus::kOk;
    double seconds = 0;  // if ok; if cut off, at the least
    bool recorded = false;
  };
  // `space` is one of a task of tasks().
  virtual Answer Ask(const TaskSpace& space, const Proposal& proposal) const = 0;
};

struct RecordedMeasurerOptions {
  // Of each repeat: the time is the true one times exp(noise * |z|), z normal, since neighbours only ever add time.
  double noise = 0;
  uint64_t seed = 0;  // of the noise
};
std::unique_ptr<Measurer> MakeRecordedMeasurer(std::shared_ptr<const RecordedDevice> device,
                                               const RecordedMeasurerOptions& options = {});

}  // namespace autotune
