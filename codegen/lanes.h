// Computes the lanes of index vectors whose lanes are constant distances apart. Thread-safe. Internal to codegen/.
#pragma once
#include <optional>
#include <vector>

#include "ir/expr.h"
#include "ir/linear_form.h"

namespace autotune {

struct Lanes {
  Expr base;                     // scalar
  std::vector<int64_t> offsets;  // lane i is base + offsets[i]
};
// Returns nothing if the distances between the lanes are not known.
std::optional<Lanes> LanesOf(const Expr& index);

// A comparison of two index vectors, rewritten as a comparison of constants with one scalar. a + i < b + j, where i and
// j are the constant offsets of a lane, becomes i - j < b - a. The distances i - j are small, so the scalar b - a may
// be clamped to 32 bits, and processors compare vectors of 32-bit numbers faster than vectors of 64-bit numbers.
struct LaneComparison {
  std::vector<int64_t> distances;  // i - j, by lane
  LinearForm limit;                // b - a, not clamped
};
// Returns nothing if the distances are not known or too large.
std::optional<LaneComparison> ComparisonOfLanes(const Expr& a, const Expr& b);

}  // namespace autotune
