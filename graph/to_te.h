// From a fused subgraph to programs: every way that topi knows to compute it, as unscheduled PrimFuncs of one logical
// signature. Deterministic; thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ir/stmt.h"
#include "support/result.h"
#include "target/target.h"
#include "topi/conv.h"

namespace autotune::graph {

topi::ConvAttrs ToTopi(const ConvAttrs& attrs);

struct Alternative {
  std::string name;  // stored in records: "direct", "winograd", ...
  PrimFunc func;
};

struct LowerOptions {
  bool exact = false;  // true: only alternatives that round as `direct` does, so not Winograd's
};

// `subgraph` is the body of a fused node. Parameters: its inputs, then its constants without data (role constant), then
// the output, named p0, p1, ..., out. The alternatives are those of the anchor; the first always applies. `name`
// becomes the functions' name. Errors: an operator or an attribute that has no computation, such as most images in NCHW
// (run ConvertLayout before).
Result<std::vector<Alternative>> LowerSubgraph(const Graph& subgraph, const Target& target,
                                               const std::string& name = "kernel", const LowerOptions& options = {});

// Returns why Winograd's algorithm cannot compute the convolution of a subgraph; an empty text if it can, and nothing
// if there is no convolution.
std::optional<std::string> WinogradObstacle(const Graph& subgraph, const Target& target);

// Optimizes the network and returns the floating-point operations (ir/arithmetic.h) of one run, with each kernel by its
// first alternative. Errors: as of Optimize and LowerSubgraph.
Result<double> FlopsOf(const Graph& network, const Target& target);

}  // namespace autotune::graph
