// The facts of a scheduled program that decide its speed on a CPU, and an estimate of its time without one of its
// faults. Computed from the program and the target alone; nothing is measured. Pure functions; thread-safe.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "costmodel/footprint.h"
#include "schedule/nest.h"
#include "target/target.h"

namespace autotune {

// Where data comes from: the level that holds it.
enum class MemoryLevel { kL1, kL2, kL3, kMemory };
AUTOTUNE_ENUM(MemoryLevel, "L1", "L2", "L3", "memory")
inline constexpr size_t kMemoryLevels = 4;

// How a block accesses one buffer that is not in registers.
struct AccessFacts {
  std::string buffer;
  Contiguity contiguity = Contiguity::kNoVector;
  bool writes = false;
  int64_t stride = 0;       // elements between the lanes of the vector loop; 0: none, or not constant
  double lane_cost = 1;     // instructions for one element, if the lanes are not contiguous
  double elements = 0;      // moved between registers and memory
  double unique_bytes = 0;  // bytes that the block touches; each counts once
  // Bytes that each level delivers: whole cache lines from L2 on.
  std::array<double, kMemoryLevels> bytes{};
  // The same if each cache kept all that it can reuse.
  std::array<double, kMemoryLevels> least{};
};

// The facts of one block (ir/stmt.h) with its loops.
struct BlockFacts {
  std::string name;
  std::string inner;          // the innermost loop of several iterations; empty if there is none
  std::string vector_loop;    // the outermost vectorized loop; empty if there is none
  double instances = 1;       // executions of the block
  double useful = 1;          // those that are not padding
  double slots = 0;           // arithmetic instructions of one instance if it has one lane
  double transcendental = 0;  // of these, for functions such as exp
  double reduction = 1;       // length of its sums
  double lanes = 1;           // iterations of its vectorized loops
  double full_lanes = 1;      // elements that a vector of the target holds
  double tasks = 1;           // iterations of its parallel loops
  std::vector<AccessFacts> accesses;
};

struct ScheduleFacts {
  std::vector<BlockFacts> blocks;  // in program order, without those that run in `prepare`
};
ScheduleFacts ScheduleFactsOf(const Nest& nest, const Target& target);

// What limits a block in the estimate.
enum class Limit { kArithmetic, kLoads, kL2, kL3, kMemory };

// A fault that the estimate can leave out.
enum class Fault { kNone, kScalar, kStrided, kFewTasks, kTraffic, kPadding };

struct Estimate {
  double seconds = 0;
  Limit limit = Limit::kArithmetic;
};
// Estimates the time of a block on `threads` cores of the target, as if it did not have the fault.
Estimate EstimateBlock(const BlockFacts& block, const Target& target, int threads, Fault without = Fault::kNone);
// The sum over all blocks.
double EstimateSeconds(const ScheduleFacts& facts, const Target& target, int threads, Fault without = Fault::kNone);

}  // namespace autotune
