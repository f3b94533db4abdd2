// Measurer: builds candidates and has a device time them. The tune loop knows only this; the real one (build workers
// and the farm) is tuner/farm_measurer.h, tests simulate one. Not thread-safe.
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
  Proposal proposal;                 // an empty trace: the program of its sketch's alternative, unscheduled
  double cutoff_seconds = 0;         // a candidate slower than this is cut off early; 0: never
  bool check = true;                 // compare the output with the fp64 reference; false: it was compared before
};

// What became of one candidate. Every failure is a value.
struct Outcome {
  TrialStatus status = TrialStatus::kInfrastructure;
  std::string error;          // one line; empty if ok
  std::vector<double> times;  // seconds per call, one per repeat
  // Seconds: the least of `times`, since neighbours on a shared machine only ever add. Of a candidate that was cut off
  // (status kCutOff): a time that one call takes at the least.
  double cost = 0;
  bool verified = false;  // this measurement compared the output with the fp64 reference, and it was right
  std::string device;
  // Seconds of the reference kernel that was measured beside this candidate, in the same batch; 0: there was none.
  double reference_seconds = 0;
  Json facts;  // of the build and of the run
};

// How each candidate of a call is timed.
struct MeasureOptions {
  int repeats = 3;
  int max_repeats = 9;  // while the two fastest do not agree
  double min_repeat_ms = 15;
  // Bytes that the network touches between two calls of a kernel: so cold its weights are; -1: they come from memory.
  int64_t cold_bytes = -1;
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // One outcome per item, in their order; items may belong to several tasks, and the same candidate may occur more than
  // once. Candidates of one task are measured in their order, tasks in the order of their first items. An error means
  // that nothing can be measured at all (no builder, no device).
  virtual Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items,
                                               const MeasureOptions& options) = 0;
};

}  // namespace autotune
