// Coordinate descent: proposes the neighbours of the best measured point, which differ from it by one move of one
// decision (NeighboursOf in tuner/sketch.h). Then it continues from the point that is the best by then, or from the
// next best one if all neighbours of the best point have been measured.
#pragma once
#include <memory>

#include "tuner/search.h"

namespace autotune::bench {

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed);

}  // namespace autotune::bench
