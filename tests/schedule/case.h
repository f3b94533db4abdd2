// Cases: a workload and a trace. A Checker compares the scheduled program with the unscheduled one. Shrink reduces a
// wrong case until nothing can be removed. Deterministic; one Checker per thread.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "schedule/schedule.h"
#include "tests/schedule/workload.h"

namespace autotune::zoo {

struct Case {
  Workload workload;
  Trace trace;
};

// Returns a line `# workload: ...` and the trace. Failing tests print this text, and AUTOTUNE_SCHEDULE_CASE names a
// file with it.
std::string ToText(const Case& c);
Result<Case> ParseCase(const std::string& text);

// Applies the legal steps and skips the others. Undecided steps draw their decisions with the seed.
Schedule ApplyLegal(const PrimFunc& func, const Trace& trace, uint64_t seed = 1);

// Checks schedules of one workload. Holds the workload's inputs and the unscheduled program's outputs for them.
class Checker {
 public:
  Checker(const Workload& workload, uint64_t seed);
  const PrimFunc& func() const { return func_; }

  // The checks return what is wrong in one line, or "".
  // CheckText: the texts of the schedule's function and trace must parse to equal ones, and the parsed trace must
  // replay to an equal schedule.
  std::string CheckText(const Schedule& schedule) const;
  // `after` must be well-formed and compute the same from small integers, with parallel iterations in random order.
  std::string CheckIntegers(const PrimFunc& after);
  // `after` must compute from normally distributed floats what the program with fp64 intermediates computes, up to
  // rounding. Where sums cancel, it may differ by the bounds of te::ToBoundedReference.
  std::string CheckFloats(const PrimFunc& after);

  // For an `after` that runs elsewhere (compiled): its inputs, and the comparison of its outputs.
  const std::vector<InterpArray>& integers() const { return integers_; }
  std::string CompareIntegers(const std::vector<InterpArray>& got);
  const std::vector<InterpArray>& floats();
  std::string CompareFloats(const std::vector<InterpArray>& got);

 private:
  struct Expected {
    std::vector<InterpArray> same, wide;  // same: in the program's types; wide: with fp64 intermediates
    std::vector<InterpArray> bounds;      // of the rounding errors, one for each output; empty if none are known
  };
  Workload workload_;
  uint64_t seed_;
  PrimFunc func_;
  std::vector<InterpArray> integers_, floats_;
  std::optional<std::vector<InterpArray>> from_integers_;
  std::optional<Expected> from_floats_;
};

// Returns what is wrong with a schedule of a workload, or "".
using Judge = std::function<std::string(const Workload& workload, const Schedule& schedule)>;

// Returns a smaller case that the judge still finds wrong, with fewer steps and smaller extents, factors and decisions
// where possible. `c` must be wrong.
Case Shrink(const Case& c, const Judge& judge);
// Returns the report of a failing test: the shrunk case with its fault and its program, then the original case with its
// fault.
std::string ReportOf(const Case& c, const std::string& wrong, const Judge& judge);

// Returns a number from the environment, such as AUTOTUNE_SCHEDULES, or `otherwise`.
uint64_t FromEnvironment(const char* name, uint64_t otherwise);
// Returns the case in the file that AUTOTUNE_SCHEDULE_CASE names; nothing if it is not set. Fails the test if the file
// holds no case.
std::optional<Case> CaseFromEnvironment();

}  // namespace autotune::zoo
