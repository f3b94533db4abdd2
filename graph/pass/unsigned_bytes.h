// Bytes with a sign that products read without one. Internal to graph passes.
#pragma once
#include "graph/graph.h"

namespace autotune::graph {

// Where bytes with a sign are read as u8(x + 128) by products, and otherwise are only widened to i32, the other readers
// take i32(u8(x + 128)) - 128. Then only the bytes without a sign need memory. Results stay equal, bit for bit.
Graph ReadUnsigned(const Graph& graph);

}  // namespace autotune::graph
