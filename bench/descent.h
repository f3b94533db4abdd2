// Coordinate descent: proposes what differs from the best measured point in one decision, all of these, then goes on
// from the point that is best by then; where none is left, from the next best one.
#pragma once
#include <memory>

#include "tuner/search.h"

namespace autotune::bench {

std::unique_ptr<SearchStrategy> MakeDescent(const TaskSpace& space, uint64_t seed);

}  // namespace autotune::bench
