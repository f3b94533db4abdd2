// Schedule: a function and the history of steps that made it from an unscheduled one; the history is the trace. A
// value: copy it to branch off. Threads may share an object only to read it. Replaying traces: schedule/replay.h.
#pragma once
#include <memory>

#include "schedule/trace.h"
#include "support/rng.h"

namespace autotune {

namespace schedule {
struct State;
}

class Schedule {
 public:
  explicit Schedule(PrimFunc func);
  Schedule(const Schedule& other);
  Schedule(Schedule&&) noexcept;
  Schedule& operator=(Schedule other) noexcept;
  ~Schedule();

  const PrimFunc& func() const;
  // Every step applied so far, results and decisions filled in.
  const Trace& trace() const { return trace_; }

  // Applies a step and returns its results' names. On error (illegal here; an unknown or a taken name) the schedule is
  // unchanged. A sampling step without a decision needs `rng`; one with a decision keeps it if it is legal.
  Result<std::vector<Name>> Apply(Step step, Rng* rng = nullptr);

  // What a sampling step decided: its name, or an element of it (`oc_t.2`).
  Result<int64_t> Value(const IntArg& arg) const;

 private:
  friend class Replayer;
  Schedule(std::unique_ptr<schedule::State> state, Trace trace);
  std::unique_ptr<schedule::State> state_;
  Trace trace_;
};

}  // namespace autotune
