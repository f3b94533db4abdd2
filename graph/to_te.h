// From a fused subgraph to programs: every way that topi knows to compute it, as unscheduled PrimFuncs of one logical
// signature. Deterministic; thread-safe.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ir/stmt.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::graph {

struct Alternative {
  std::string name;  // stored in records: "direct", "winograd", ...
  PrimFunc func;
};

struct LowerOptions {
  bool exact = false;  // only alternatives that round as `direct` does: no Winograd
};

// `subgraph` is the body of a fused node. Parameters: its inputs, then its constants without data (role constant), then
// the output, named p0, p1, ..., out. Alternatives are those of the anchor; the first applies always. `name` becomes
// the functions' name. Errors: an operator, or an attribute of one, that has no computation (images in NCHW, for one:
// run ConvertLayout before).
Result<std::vector<Alternative>> LowerSubgraph(const Graph& subgraph, const Target& target,
                                               const std::string& name = "kernel", const LowerOptions& options = {});

// Returns the floating-point operations (ir/arithmetic.h) of one run of a network, each of its kernels by the first
// alternative. Optimizes the network before. Errors: as of Optimize and LowerSubgraph.
Result<double> FlopsOf(const Graph& network, const Target& target);

}  // namespace autotune::graph
