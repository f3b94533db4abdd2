// RecordedDevice: replays a recording (tuner/recording.h). A recorded candidate gets its recorded time; any other
// candidate gets the time that a model of the recording predicts. So a search is judged within seconds, without a
// device.
//
// The model has two regressions per task: one of log(time), fitted to the features of the candidates that ran, and one
// of success, fitted to those of all candidates. No prediction is below the task's least recorded time, since the
// recording has no information about faster candidates.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tuner/measurer.h"
#include "tuner/recording.h"

namespace autotune {

// The errors of the model for the candidates of one task that it was not fitted to.
struct FitError {
  int fitted = 0, held_out = 0;  // numbers of candidates that ran, for fitting and for the errors
  double median_log_error = 0;   // median of |ln(predicted / recorded)|
  double rank_correlation = 0;   // Spearman's, between predicted and recorded times
  double right_verdicts = 1;     // share of all held-out candidates whose success or failure is predicted correctly
};

struct RecordedDeviceOptions {
  double held_out = 0.2;  // share of the candidates that the model is not fitted to
  uint64_t seed = 0;      // for the choice of held-out candidates, and for the model
};

// Immutable and thread-safe.
class RecordedDevice {
 public:
  static Result<std::shared_ptr<const RecordedDevice>> Make(Recording recording,
                                                            const RecordedDeviceOptions& options = {});
  virtual ~RecordedDevice() = default;

  // tasks() and fit() have one entry for each task of the recording, in its order.
  virtual const Recording& recording() const = 0;
  virtual const std::vector<TuneTask>& tasks() const = 0;
  virtual const std::vector<FitError>& fit() const = 0;
  virtual const Target& target() const = 0;

  struct Answer {
    TrialStatus status = TrialStatus::kOk;
    double seconds = 0;     // per call; a lower bound if cut off; 0 if it failed
    bool recorded = false;  // false: predicted
  };
  // Returns the recorded or predicted outcome. `space` must be that of a task in tasks().
  virtual Answer Ask(const TaskSpace& space, const Proposal& proposal) const = 0;
};

struct RecordedMeasurerOptions {
  // Noise of each repeat. The true time is multiplied by exp(noise * |z|) with a normal z, since neighbours only add
  // time.
  double noise = 0;
  uint64_t seed = 0;  // seed of the noise
};
std::unique_ptr<Measurer> MakeRecordedMeasurer(std::shared_ptr<const RecordedDevice> device,
                                               const RecordedMeasurerOptions& options = {});

}  // namespace autotune
