// Cases: a workload and a trace. Checking that the scheduled program computes what the unscheduled one does, and
// shrinking a case that does not, until nothing can be taken away. Deterministic; one Checker per thread.
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

// A line `# workload: ...`, then the trace. What a failing test prints, and what AUTOTUNE_SCHEDULE_CASE names a file
// of.
std::string ToText(const Case& c);
Result<Case> ParseCase(const std::string& text);

// Applies the steps that are legal and skips the others; undecided ones are drawn with the seed.
Schedule ApplyLegal(const PrimFunc& func, const Trace& trace, uint64_t seed = 1);

// The first difference of two lists of arrays, or "". `relative`: allowed, as a part of the greatest element.
std::string Difference(const PrimFunc& f, const std::vector<InterpArray>& got, const std::vector<InterpArray>& want,
                       double relative);

// A workload's inputs and what the unscheduled program makes of them.
class Checker {
 public:
  Checker(const Workload& workload, uint64_t seed);
  const PrimFunc& func() const { return func_; }

  // All of these return what is wrong in one line, or "".
  // The schedule's trace and function print, parse and replay to the same.
  std::string CheckText(const Schedule& schedule) const;
  // `after` is well-formed and computes the same from small integers, its parallel iterations in a random order.
  std::string CheckIntegers(const PrimFunc& after);
  // It computes what the program with fp64 intermediates does from normally distributed floats, up to rounding.
  std::string CheckFloats(const PrimFunc& after);

  // Outputs of a run of `after` elsewhere (compiled) on these inputs.
  const std::vector<InterpArray>& integers() const { return integers_; }
  std::string CompareIntegers(const std::vector<InterpArray>& got);
  const std::vector<InterpArray>& floats();
  std::string CompareFloats(const std::vector<InterpArray>& got);

 private:
  struct Expected {
    std::vector<InterpArray> same, wide;  // in the program's types, and with fp64 intermediates
  };
  Workload workload_;
  uint64_t seed_;
  PrimFunc func_;
  std::vector<InterpArray> integers_, floats_;
  std::optional<std::vector<InterpArray>> from_integers_;
  std::optional<Expected> from_floats_;
};

// What is wrong with a schedule of a workload, or "".
using Judge = std::function<std::string(const Workload& workload, const Schedule& schedule)>;

// A case at most as large that the judge still finds wrong: without the steps, and with the smallest extents, factors
// and decisions, that it can do without. `c` must be wrong.
Case Shrink(const Case& c, const Judge& judge);
// For a failing test: the shrunk case, what is wrong with it and its program; then the case and what was wrong with it.
std::string ReportOf(const Case& c, const std::string& wrong, const Judge& judge);

// A number in the environment, such as AUTOTUNE_SCHEDULES.
uint64_t FromEnvironment(const char* name, uint64_t otherwise);
// The case in the file that AUTOTUNE_SCHEDULE_CASE names; none where it names none. Fails the test if it is no case.
std::optional<Case> CaseFromEnvironment();

}  // namespace autotune::zoo
