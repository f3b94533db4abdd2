// The lanes of a vector of indices, where their distances are constants. Thread-safe. Internal to codegen/.
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

// A comparison of two index vectors, written as a comparison of constants with one scalar: a + i < b + j becomes i - j
// < b - a. The distances i - j and the scalar, clamped to the range of 32 bits, compare like the indices themselves.
// Processors compare vectors of 32-bit numbers faster than vectors of 64-bit numbers.
struct LaneComparison {
  std::vector<int64_t> distances;  // by lane
  LinearForm limit;
};
// Returns nothing if the distances are not known or too large.
std::optional<LaneComparison> ComparisonOfLanes(const Expr& a, const Expr& b);

}  // namespace autotune
