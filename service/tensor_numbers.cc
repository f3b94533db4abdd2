#include "service/tensor_numbers.h"

#include <algorithm>

#include "graph/tensor_value.h"

namespace autotune {

std::vector<double> NumbersOf(const Tensor& tensor) {
  std::vector<double> numbers(static_cast<size_t>(tensor.num_elements()));
  if (DataTypeText(tensor.dtype()) == "f32") {
    std::copy_n(tensor.Data<float>(), numbers.size(), numbers.begin());
    return numbers;
  }
  const graph::TensorValue value{{*DType::Parse(DataTypeText(tensor.dtype())), tensor.shape()},
                                 graph::SharedBytes::Copy(tensor.bytes())};
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value.Number(static_cast<int64_t>(i));
  return numbers;
}

}  // namespace autotune
