// The elements of a tensor as numbers. Thread-safe.
#pragma once
#include <vector>

#include "runtime/tensor.h"

namespace autotune {

// `tensor` is in the host's memory and contiguous.
std::vector<double> NumbersOf(const Tensor& tensor);

}  // namespace autotune
