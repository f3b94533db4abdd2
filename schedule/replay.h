// Replay: applying a trace to a function, keeping, overriding or redrawing its decisions, from the start or from a
// snapshot that an earlier replay took. Thread-safe (one Rng per thread).
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "schedule/schedule.h"

namespace autotune {

// The state before one sampling step of a trace. Immutable and cheap to copy: a mutant of that trace that differs from
// there on need not replay the steps before.
class Snapshot {
 public:
  size_t step() const { return step_; }  // the sampling step's place in the trace
  const PrimFunc& func() const;

 private:
  friend class Replayer;
  size_t step_ = 0;
  std::shared_ptr<const schedule::State> state_;
};

struct ReplayOptions {
  Rng* rng = nullptr;         // for decisions that are drawn; needed if any is
  bool resample_all = false;  // draw every decision anew, ignoring those in the trace (overrides stay)
  // Decisions by the step's place in the trace; an undecided one is drawn.
  std::map<size_t, Decision> overrides;
  std::vector<Snapshot>* snapshots = nullptr;  // appended to, one for each sampling step
};

// The result's trace has all decisions filled in. An error names the step that is illegal.
Result<Schedule> Replay(const PrimFunc& func, const Trace& trace, const ReplayOptions& options = {});
// Goes on from a snapshot of a replay of `trace` (or of one that is the same up to snapshot.step()).
Result<Schedule> ReplayFrom(const Snapshot& snapshot, const Trace& trace, const ReplayOptions& options = {});

}  // namespace autotune
