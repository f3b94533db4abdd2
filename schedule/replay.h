// Replay: applies a trace to a function, from the start or from a snapshot that an earlier replay took. It keeps,
// overrides or redraws the trace's decisions. Thread-safe (one Rng per thread).
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "schedule/schedule.h"

namespace autotune {

// The state before one sampling step of a trace. A mutant of the trace that differs only from this step on can start
// its replay here. Immutable and cheap to copy.
class Snapshot {
 public:
  size_t step() const { return step_; }  // the sampling step's position in the trace
  const PrimFunc& func() const;

 private:
  friend class Replayer;
  size_t step_ = 0;
  std::shared_ptr<const schedule::State> state_;
};

struct ReplayOptions {
  Rng* rng = nullptr;  // source of drawn decisions; may be null if all decisions are given
  // Ignores the trace's decisions and draws new ones, except where `overrides` has one.
  bool resample_all = false;
  // Decisions that replace those of the trace, by the step's position. For an override without values, the step draws
  // its decision.
  std::map<size_t, Decision> overrides;
  // If not null, a snapshot is appended before each sampling step.
  std::vector<Snapshot>* snapshots = nullptr;
};

// Applies `trace` to `func`. The result's trace has all decisions filled in. An error names the step that is illegal.
Result<Schedule> Replay(const PrimFunc& func, const Trace& trace, const ReplayOptions& options = {});
// Applies the steps of `trace` from snapshot.step() on. The snapshot must come from a replay of `trace`, or of a trace
// with equal steps before snapshot.step().
Result<Schedule> ReplayFrom(const Snapshot& snapshot, const Trace& trace, const ReplayOptions& options = {});

}  // namespace autotune
