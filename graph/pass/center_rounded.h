// Moves the zero point of rounded floats into the bounds that clip them. Internal to graph passes.
#pragma once
#include "graph/graph.h"

namespace autotune::graph {

// Leaves out the zero point z that QuantizeLinear adds and DequantizeLinear takes away again:
//
//   min(max(round(x) + z, low), high) - z  ->  min(max(round(x), low - z), high - z)
//
// Results stay equal, bit for bit: round(x) may be -0 where the left side is 0, so this is done only where no result
// depends on the sign of a zero. All sums are of whole numbers that f32 holds.
Graph CenterRounded(const Graph& graph);

}  // namespace autotune::graph
