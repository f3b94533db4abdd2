// Schedule: a function and its trace, the steps that made it from an unscheduled function. A value: a copy can continue
// with other steps. Threads may share an object only to read it. schedule/replay.h applies whole traces.
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

  // Applies a step and returns the names of its results. It is an error if the step is illegal, refers to an unknown
  // name, or has a result whose name is taken; the schedule is then unchanged. A sampling step without a decision draws
  // one from `rng`. A given decision must be legal.
  Result<std::vector<Name>> Apply(Step step, Rng* rng = nullptr);

  // Returns the value of an argument: a number, the result of a sampling step, or an element of it (`oc_t.2`).
  Result<int64_t> Value(const IntArg& arg) const;

 private:
  friend class Replayer;
  Schedule(std::unique_ptr<schedule::State> state, Trace trace);
  std::unique_ptr<schedule::State> state_;
  Trace trace_;
};

}  // namespace autotune
