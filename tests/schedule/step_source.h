// For tests: random schedule steps, many of them legal. Deterministic in the seed.
#pragma once
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "support/rng.h"

namespace autotune {

// Draws steps that refer to loops, blocks and buffers of the function, so that many of them are legal. Without
// `threads`, no step binds loops to axes of threads or uses scopes of GPUs.
class StepSource {
 public:
  explicit StepSource(uint64_t seed, bool threads = true) : rng_(seed), threads_(threads) {}

  Step Next(const Schedule& schedule);

  Rng& rng() { return rng_; }

 private:
  static constexpr int kCases = 26;       // cases of Next for programs of any kind: 0 to kCases - 1
  static constexpr int kThreadCases = 3;  // further cases for programs with threads
  int64_t Below(int64_t n) { return rng_.Below(n); }
  Step Pending();
  Name Fresh(const std::string& base) { return base + "_" + std::to_string(count_++); }
  Name Loop() { return loops_.empty() ? Name("none") : loops_[Below(loops_.size())]; }
  Name BlockName() { return blocks_[Below(blocks_.size())]; }
  Name LoopOf(const Name& block);
  Name ReductionLoop();
  // Makes a row of a matrix product innermost, separates the initialization, and tensorizes, in several steps.
  Step TowardsIntrinsic();
  // For a sum whose operands tensor cores can multiply: binds loops to warps of 8 by 4 threads. Each thread has two by
  // two elements.
  void TowardsTensorCore();
  // Copies an operand of a sum to shared memory in a pipelined loop over pieces. In most cases the threads of a block
  // share the copy, so a thread reads elements that other threads have copied.
  Step TowardsPipeline();
  Name Read(const Name& block);
  Name Written(const Name& block);
  Scope SomeScope(Scope otherwise);
  // Binds a loop: in most cases an outermost loop to an axis of blocks, or a loop inside those to an axis of threads.
  Step SomeBind();
  Factors SomeFactors();
  std::vector<Name> Neighbours(int64_t n);
  Step SampledSplit(const Schedule& schedule);
  // Aligns a buffer, in most cases the one that a block writes.
  Step Align();
  Step Layout();

  Rng rng_;
  bool threads_;
  const PrimFunc* func_ = nullptr;
  std::vector<Name> loops_, blocks_;
  std::vector<Step> pending_;  // the remaining steps of a case that has begun
  int count_ = 0;
};

}  // namespace autotune
