// State: the function that steps rewrite, and the declarations of all rewrites. Used inside schedule/ only; not
// thread-safe.
#pragma once
#include <utility>
#include <vector>

#include "ir/threads.h"
#include "schedule/step.h"
#include "schedule/tree.h"
#include "support/result.h"
#include "support/rng.h"

namespace autotune::schedule {

struct State {
  PrimFunc func;
  std::vector<std::pair<Name, std::vector<int64_t>>> samples;  // results of sample_tile and sample_categorical
  std::vector<std::pair<Name, Name>> locations;  // results of sample_compute_location: a loop; empty: root
  bool prefetches = false;                       // a prefetch step was applied
  Rng* rng = nullptr;                            // draws decisions while a step is applied
  bool has_threads = false;                      // some loop of the function is bound to an axis

  State() = default;
  explicit State(PrimFunc func) : func(std::move(func)), has_threads(HasThreads(this->func.body)) {}

  Result<int64_t> Value(const IntArg& arg) const;
  const std::vector<int64_t>* Sample(const Name& name) const;
  Status CheckNewSample(const Name& name) const;
};

// Checks that the step is allowed after the steps so far, applies it, and checks the rules of programs of threads. On
// error the state is undefined, and the caller discards it.
Status Apply(State& state, Step& step);
// Checks the rules of programs of threads (schedule/threads.cc).
Status CheckProgramOfThreads(const State& state);

// Each function rewrites state.func (or adds a sample), and fills in the results and the decision of the step. On error
// the state is undefined, and the caller discards it.
Status ApplyStep(State& state, Split& step);
Status ApplyStep(State& state, Fuse& step);
Status ApplyStep(State& state, Reorder& step);
Status ApplyStep(State& state, Parallel& step);
Status ApplyStep(State& state, Vectorize& step);
Status ApplyStep(State& state, Unroll& step);
Status ApplyStep(State& state, Bind& step);
Status ApplyStep(State& state, ComputeAt& step);
Status ApplyStep(State& state, ReverseComputeAt& step);
Status ApplyStep(State& state, ComputeInline& step);
Status ApplyStep(State& state, ReverseComputeInline& step);
Status ApplyStep(State& state, CacheRead& step);
Status ApplyStep(State& state, CacheWrite& step);
Status ApplyStep(State& state, SetScope& step);
Status ApplyStep(State& state, StorageAlign& step);
Status ApplyStep(State& state, TransformLayout& step);
Status ApplyStep(State& state, Reindex& step);
Status ApplyStep(State& state, DecomposeReduction& step);
Status ApplyStep(State& state, Rfactor& step);
Status ApplyStep(State& state, PadBlock& step);
Status ApplyStep(State& state, SkipPadding& step);
Status ApplyStep(State& state, BranchOnSelect& step);
Status ApplyStep(State& state, Pipeline& step);
Status ApplyStep(State& state, TensorCore& step);
Status ApplyStep(State& state, Prefetch& step);
Status ApplyStep(State& state, Blockize& step);
Status ApplyStep(State& state, Tensorize& step);
Status ApplyStep(State& state, Annotate& step);
Status ApplyStep(State& state, SampleTile& step);
Status ApplyStep(State& state, SampleCategorical& step);
Status ApplyStep(State& state, SampleComputeLocation& step);

}  // namespace autotune::schedule
