#include "tests/runtime/ramp.h"

#include <utility>

namespace autotune {

Tensor Ramp(std::vector<int64_t> shape, float start) {
  Tensor tensor = Tensor::Zeros(std::move(shape), "f32").value();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.Data<float>()[i] = start + static_cast<float>(i);
  return tensor;
}

}  // namespace autotune
