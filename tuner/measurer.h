// Measurer: builds candidates and has a device time them. The tune loop knows only this interface. FarmMeasurer
// (tuner/farm_measurer.h) implements it with build workers and the farm, RecordedMeasurer (tuner/recorded_measurer.h)
// with a recording. Not thread-safe.
#pragma once
#include <string>
#include <vector>

#include "support/json.h"
#include "support/trial.h"
#include "tuner/search.h"

namespace autotune {

// One candidate to be built and timed.
struct MeasureItem {
  const TaskSpace* space = nullptr;  // must outlive the call
  Proposal proposal;                 // with an empty trace: the unscheduled program of its sketch's alternative
  double cutoff_seconds = 0;         // time above which the candidate is cut off early; 0: never
  bool check = true;                 // true: compare the output with the fp64 reference
};

// The outcome of one candidate. Every failure is a value.
struct Outcome {
  TrialStatus status = TrialStatus::kInfrastructure;
  std::string error;          // one line; empty if ok
  std::vector<double> times;  // seconds per call, one per repeat
  // Seconds per call: the least of `times`, since neighbours on a shared machine only add time. For a candidate that
  // was cut off (kCutOff) a lower bound.
  double cost = 0;
  bool verified = false;  // true: this measurement compared the output with the fp64 reference and found it right
  std::string disturbed;  // why other processes may have changed the times; empty if they did not
  std::string device;
  std::string server;  // Record::server
  // Seconds per call of the reference kernel in the same batch and on the same device; 0 if the batch had none, or if
  // its two runs differed.
  double reference_seconds = 0;
  Json facts;  // facts about the build and the run
};

// How each candidate of a call is timed.
struct MeasureOptions {
  int repeats = 3;
  int max_repeats = 9;  // most repeats; they go on while the two fastest differ
  // Many short repeats are better than few long ones: a process that takes a core for a moment spoils one of them, and
  // the least time counts. Three repeats of 5 ms order candidates about as well as three of 15 ms
  // (docs/performance.md).
  double min_repeat_ms = 5;
  // Bytes that the network touches between two calls of a kernel, which may evict the kernel's weights from the caches.
  // -1: the weights always come from memory.
  int64_t cold_bytes = -1;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // Measures all items in their order and returns one outcome per item. Items may belong to several tasks, and a
  // candidate may occur more than once. Consecutive items of one task are cheaper than items of alternating tasks. An
  // error means that nothing can be measured at all (no builder, no device).
  virtual Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items,
                                               const MeasureOptions& options) = 0;
};

}  // namespace autotune
