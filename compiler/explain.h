// Explain: the cause of a kernel's speed, as one sentence and the numbers behind it. Evidence is collected from the
// schedule, the machine code and a measurement; Explain decides by these numbers alone. It is for kernels of CPUs.
// Thread-safe.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/machine_code.h"
#include "compiler/schedule_facts.h"
#include "package/package.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

enum class Cause {
  kScalar,      // arithmetic or copies of one element at a time
  kStrided,     // the lanes of vectors are not neighbours in memory
  kSpilled,     // values move between registers and the stack
  kMemory,      // waits for the data of one level of memory
  kFewTasks,    // its parallel loops do not fill the threads
  kPadding,     // much of the work is padding
  kIndices,     // most instructions compute addresses
  kFunctions,   // functions such as exp
  kDirect,      // arithmetic, of which Winograd's algorithm needs less
  kArithmetic,  // its arithmetic fills the CPU
  kOverhead,    // a call takes as long as its work
  kUnknown,     // nothing dominates
};
AUTOTUNE_ENUM(Cause, "scalar", "strided", "spilled", "memory-bound", "too few tasks", "padding", "indices", "functions",
              "direct", "arithmetic", "overhead", "unknown")

// The instructions of the code that runs most, by operation.
struct CodeFacts {
  double vector = 0, scalar = 0, integer = 0, lane = 0, stack = 0, all = 0;
};
// `samples`: how often each region was found running; empty: unknown, then the deepest loop with most work counts.
CodeFacts CodeFactsOf(const std::vector<CodeRegion>& regions, std::span<const int64_t> samples = {});
// Returns the index of the region that runs most; `regions` must not be empty.
size_t HotRegion(const std::vector<CodeRegion>& regions, std::span<const int64_t> samples = {});

// A measurement of the kernel on this machine.
struct TimeFacts {
  double seconds = 0;       // of one run
  double roof_seconds = 0;  // the least that the machine allows (the roofline); 0: unknown
  std::string roof_bound;   // "arithmetic", or the level that holds all of the data
};

struct Evidence {
  Target target;
  int threads = 1;
  std::string alternative;                // the algorithm
  std::vector<std::string> alternatives;  // those that the task has
  std::string winograd;                   // as PackagedKernel::winograd
  ScheduleFacts schedule;
  std::optional<CodeFacts> code;
  std::optional<TimeFacts> time;
};

struct Finding {
  Cause cause = Cause::kUnknown;
  double gain = 1;       // the kernel would be about this many times as fast without the cause, by the estimate
  std::string sentence;  // begins with the cause: "scalar: ..."
};

struct Explanation {
  Finding main;
  std::vector<Finding> others;  // further causes, the largest gain first
  std::string winograd;         // whether Winograd's algorithm is used, and why not; empty: no convolution
};
Explanation Explain(const Evidence& evidence);

// Replays the kernel's schedule and collects its facts; adds neither code nor times. `threads`: of the run. Errors: the
// package holds no schedule, or one of another version.
Result<Evidence> EvidenceOf(const PackagedKernel& kernel, const Target& target, int threads);

}  // namespace autotune
