// Moves the zero point of rounded floats into the bounds that clip them. Internal to graph passes.
#pragma once
#include "graph/graph.h"

namespace autotune::graph {

// Joins the zero point z that QuantizeLinear adds and the number c that is taken away behind it:
//
//   min(max(round(x) + z, low), high) - c  ->  min(max(round(x) + (z - c), low - c), high - c)
//
// c is z where DequantizeLinear follows: no sum is left. Results stay equal, bit for bit: round(x) may be -0 where the
// left side is 0, so this is done only where no result depends on the sign of a zero. All sums are of whole numbers
// that f32 holds, but those of numbers that are clipped on both sides.
Graph CenterRounded(const Graph& graph);

}  // namespace autotune::graph
