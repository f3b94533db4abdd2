// Rounding to whole numbers is a step: a number near the middle of two whole ones goes to either, by the rounding
// errors of what computed it. So two right networks of 8-bit numbers differ by whole quanta. Step moves show by how
// much: they move the numbers before each step by a little. Pure; thread-safe.
#pragma once
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace autotune::graph {

// Returns the graph with one more input, its last one: f32 [n], a number u for each of its n steps (kRound of computed
// floats). The operand of the step is multiplied by 1 + u times the roundoff of f32, or of a type of 16 bits if
// element-wise operations compute the operand from one. With zeros the graph computes the same. Returns nothing if it
// has no steps.
std::optional<Graph> WithStepMoves(const Graph& graph);

}  // namespace autotune::graph
