// Replays of one sketch's candidates, each from the first decision in which it differs from the one before it.
#pragma once
#include <vector>

#include "schedule/replay.h"
#include "tuner/sketch.h"

namespace autotune {

// Gives the same results as Replay in less time. The time is least if successive candidates have many decisions in
// common, so sort candidates by their decisions. The function and the sketch are not copied and must outlive the
// object. Not thread-safe: use one object for each thread.
class SuccessiveReplays {
 public:
  SuccessiveReplays(const PrimFunc& func, const Sketch& sketch) : func_(&func), sketch_(&sketch) {}

  // `trace` is Decide(sketch, decisions). An error names the step that refuses a decision.
  Result<Schedule> Replay(const Decisions& decisions, const Trace& trace);
  const Sketch& sketch() const { return *sketch_; }

 private:
  const PrimFunc* func_;
  const Sketch* sketch_;
  Decisions before_;                 // of the last candidate
  std::vector<Snapshot> snapshots_;  // before each of its decisions, up to the one that was refused
};

}  // namespace autotune
