// Measurer: builds candidates and has a device time them. The tune loop knows only this; the real one (build workers
// and the farm) is tuner/farm_measurer.h, tests simulate one. Not thread-safe.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "support/json.h"
#include "support/trial.h"
#include "tuner/search.h"

namespace autotune {

// What became of one candidate. Every failure is a value.
struct Outcome {
  TrialStatus status = TrialStatus::kInfrastructure;
  std::string error;          // one line; empty if ok
  std::vector<double> times;  // seconds per call, one per repeat
  double cost = 0;            // seconds; the least of `times`: neighbours on a shared machine only ever add
  bool verified = false;      // compared with the fp64 reference, and right
  std::string device;
  Json facts;  // of the build and of the run
};

struct MeasureOptions {
  int repeats = 3;
  int max_repeats = 9;  // while the two fastest do not agree
  double min_repeat_ms = 15;
  double cutoff_seconds = 0;  // a candidate slower than this is cut off after its first repeat; 0: never
};

class Measurer {
 public:
  virtual ~Measurer() = default;
  // One outcome per proposal, in order. An error means that nothing can be measured at all (no builder, no device).
  // Outcomes of status kInfrastructure were not the candidate's fault and do not count.
  virtual Result<std::vector<Outcome>> Measure(const TaskSpace& space, const std::vector<Proposal>& proposals,
                                               const MeasureOptions& options) = 0;
};

}  // namespace autotune
