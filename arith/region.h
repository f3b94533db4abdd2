// Region: the interval of values that an index takes while some loops run. Steps of a schedule use it to find the part
// of a buffer that a block needs, and lowering to find how small a buffer may be. Pure functions; thread-safe.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "arith/affine.h"

namespace autotune {

struct Region {  // the closed interval [min, min + span]; `min` uses no variable of a running loop
  LinearForm min;
  int64_t span = 0;
};
// The regions of the variables that run. A fixed variable needs no entry; an entry that maps it to itself with span 0
// means the same.
using RegionMap = std::vector<std::pair<Name, Region>>;
// Returns an interval that contains all values of `e`, and perhaps others; absent if none is known. Variables that are
// not in `map` are fixed; `ranges` has their ranges.
std::optional<Region> RegionOf(const Expr& e, const RegionMap& map, const Ranges& ranges);
// The smallest interval that contains both; absent if the distance of their minima is not a constant.
std::optional<Region> Union(const Region& a, const Region& b);
Region Union(const Region& a, const Region& b, int64_t distance);  // distance = b.min - a.min

// A form in two parts: the terms in variables that run, and the others with the constant.
struct Parts {
  LinearForm fixed, running;
};
// Absent if a term uses both fixed and running variables, or a running variable in a load.
std::optional<Parts> PartsOf(const LinearForm& form, const Ranges& running);

// Splits a form into fixed terms (min) and terms of the running loops. Absent unless the running terms take every value
// of [0, span]. The form then takes exactly the values in [min, min + span].
std::optional<Region> DenseRegionOf(const LinearForm& form, const Ranges& running);

}  // namespace autotune
