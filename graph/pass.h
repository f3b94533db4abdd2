// Graph passes and what a caller may say about, and learn from, a run of them. A pass is a name and a function from
// graph to graph; the pipeline is the list in graph/pipeline.cc. Not thread-safe: one PassContext per run.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "support/result.h"

namespace autotune::graph {

// Computes the outputs, in order, of a graph that has no inputs: the compiler layer fuses it (Fuse), builds default
// kernels and runs them. One call gets all the work there is, so that builds can be shared and run side by side.
using ConstantEvaluator = std::function<Result<std::vector<TensorValue>>(const Graph&)>;

struct PassContext {
  ConstantEvaluator evaluate;                                      // without it, work on constants stays in the graph
  std::set<std::string> disabled;                                  // passes to leave out, by name
  std::map<std::string, double> times_ms;                          // filled: milliseconds by pass, summed over its runs
  std::function<void(std::string_view pass, const Graph&)> after;  // called after each pass: dump, count, evaluate
};

struct Pass {
  std::string_view name;
  Result<Graph> (*run)(const Graph&, PassContext&);
};

// Each pass keeps the graph's inputs and outputs: number, order, names and types.

// Drops nodes and constants that no output needs. Inputs stay.
Result<Graph> DropDeadCode(const Graph& graph, PassContext& context);

// Joins reshapes of reshapes and transposes of transposes, and drops those that do nothing. Divisions by a number
// become multiplications by its reciprocal: results differ by rounding.
Result<Graph> Simplify(const Graph& graph, PassContext& context);

// Reshapes move behind the element-wise operators and reductions that read them, so that these meet what is computed
// before the reshape: a product of a batch of matrices as one matrix, and its bias.
Result<Graph> SinkReshapes(const Graph& graph, PassContext& context);

// One node for equal operators on equal inputs; one constant for equal ones of few elements.
Result<Graph> ShareCommonSubexpressions(const Graph& graph, PassContext& context);

// Inference batch normalization becomes x*s + t; a multiplication by a constant per output channel goes into the
// constant weight of the convolution or product before it (through an addition of a constant too), and additions of
// constants are joined. Reassociates: results differ by rounding. Makes work on constants, to be folded.
Result<Graph> FoldBatchNorm(const Graph& graph, PassContext& context);

// Images become NHWC and weights HWIO: NCHW image operators are rewritten, element-wise operators, concat and others
// with an axis follow, transposes are put where the rest needs the old layout, and cancel where they meet.
Result<Graph> ConvertLayout(const Graph& graph, PassContext& context);

// Windows lose the taps that meet padding at every output: of convolutions, whose weights are sliced, and of pools.
// Zeros that a pad puts around a convolution's input become the convolution's own padding. Exact but for the product of
// padding and an infinite or NaN weight, which takes no part. Transposes leave out the rows that windows of one row
// skip by their stride.
Result<Graph> TrimWindows(const Graph& graph, PassContext& context);

// Evaluates everything that depends on constants only, in one call of context.evaluate.
Result<Graph> FoldConstants(const Graph& graph, PassContext& context);

// Groups nodes into kernels (kFused): an anchor or reduction with the element-wise nodes after it, element-wise nodes
// and a transpose among themselves, a slice and its transpose, or reductions of rows with the element-wise nodes around
// them (a layer normalization in parts). A group has one anchor at most and one output. Reshapes stay outside: they are
// aliases. Constants of one element that only element-wise nodes read move into the body.
Result<Graph> Fuse(const Graph& graph, PassContext& context);

// Runs the passes in order; checks the graph after each. An error names the pass.
Result<Graph> RunPasses(Graph graph, const std::vector<Pass>& passes, PassContext& context);

}  // namespace autotune::graph
