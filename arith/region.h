// Region: the interval of values that an index takes while some loops run. The one analysis of what a part of a program
// touches: steps of a schedule ask which part of a buffer a block needs, lowering how small a buffer may be. Pure
// functions; thread-safe.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "arith/affine.h"

namespace autotune {

struct Region {  // [min, min + span], min being free of the loops that run
  LinearForm min;
  int64_t span = 0;
};
// The region of each variable of an expression. Fixed variables map to themselves with span 0.
using RegionMap = std::vector<std::pair<Name, Region>>;
// Over-approximates. Absent if nothing better than "anywhere" is known. Variables absent from `map` are fixed; `ranges`
// has the ranges of the fixed ones.
std::optional<Region> RegionOf(const Expr& e, const RegionMap& map, const Ranges& ranges);
// The smallest box that holds both; absent if their distance is not a constant.
std::optional<Region> Union(const Region& a, const Region& b);
Region Union(const Region& a, const Region& b, int64_t distance);  // distance = b.min - a.min

// A form in two parts: the terms in variables that run, and the others with the constant.
struct Parts {
  LinearForm fixed, running;
};
// Absent if a term has variables of both kinds, or depends on memory and runs.
std::optional<Parts> PartsOf(const LinearForm& form, const Ranges& running);

// Splits a form into fixed terms (min) and terms of the running loops, if the latter take all values of an interval
// from 0. The form then takes exactly the values [min, min + span].
std::optional<Region> DenseRegionOf(const LinearForm& form, const Ranges& running);

}  // namespace autotune
