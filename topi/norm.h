// Softmax and local response normalisation. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// exp(x - max) / sum(exp(x - max)) over all dimensions `axes` together. ONNX from version 13 on has one axis; earlier
// versions have all dimensions from an axis on. Blocks: those of FactorsOfSoftmax, then <name>.
Tensor Softmax(const std::string& name, const Tensor& x, const std::vector<int>& axes);

// The two factors of a softmax: exp(x - max), and the reciprocal of its sum over `axes`, which stay with extent 1.
// Blocks <name>_max, <name>_exp, <name>_sum, <name>_scale; reductions may have more blocks (topi/reduce.h).
struct SoftmaxFactors {
  Tensor exp, scale;
};
SoftmaxFactors FactorsOfSoftmax(const std::string& name, const Tensor& x, const std::vector<int>& axes);

struct LrnAttrs {
  int64_t size = 1;
  double alpha = 1e-4, beta = 0.75, bias = 1;
};
// x / (bias + alpha/size * s)^beta with s the sum of squares over channels c - (size-1)/2 .. c + size/2 of NHWC data
// (ONNX). Blocks <name>_sum, <name>. For beta = 0.75 the power is sqrt(b) * sqrt(sqrt(b)).
Tensor Lrn(const std::string& name, const Tensor& x, const LrnAttrs& attrs);

}  // namespace autotune::topi
