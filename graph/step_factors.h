// Rounding to whole numbers is a step: a number near the middle of two whole ones goes to either, by the rounding
// errors of what computed it. So two right networks of 8-bit numbers differ by whole quanta. Step factors show by how
// much: they move each number before a step by a little. Pure; thread-safe.
#pragma once
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace autotune::graph {

inline constexpr std::string_view kStepFactors = "step_factors";  // name of the input

// Returns the graph with one more input, its last one: f32 [n], with a factor for the operand of each of its n steps
// (kRound of computed f32). With factors of 1 it computes the same. Returns nothing if it has no steps, or another
// input of that name.
std::optional<Graph> WithStepFactors(const Graph& graph);

}  // namespace autotune::graph
