// Coordinate descent: proposes all points that differ from the best measured point in one decision. Then it continues
// from the point that is the best now, or from the next best one if all such neighbours have been measured.
#pragma once
#include <memory>

#include "tuner/search.h"

namespace autotune::bench {

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed);

}  // namespace autotune::bench
