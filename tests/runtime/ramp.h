// For tests: tensors of consecutive numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/tensor.h"

namespace autotune {

// Returns a tensor of f32 whose elements are `start`, `start` + 1 and so on.
Tensor Ramp(std::vector<int64_t> shape, float start = 0);

}  // namespace autotune
