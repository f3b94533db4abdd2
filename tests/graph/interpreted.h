// For tests: lowers a fused body to PrimFuncs, interprets them, and compares the results with the reference.
#pragma once
#include <string>

#include "graph/graph.h"

namespace autotune::reference {

// Compares the results of all alternatives with the reference, on random inputs. Returns "" if all are right, else what
// is wrong, or why an alternative could not be computed.
std::string LoweredMismatch(const graph::Graph& body, uint64_t seed);

}  // namespace autotune::reference
