// Coordinate descent: proposes all points that differ from the best measured point in one decision. It goes on from the
// point that is the best by then, or from the next best one if no such points are left.
#pragma once
#include <memory>

#include "tuner/search.h"

namespace autotune::bench {

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed);

}  // namespace autotune::bench
