// Pooling over height and width, NHWC. Thread-safe.
#pragma once
#include <array>
#include <string>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

struct PoolAttrs {
  std::array<int64_t, 2> kernel = {1, 1};  // height, width
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> dilation = {1, 1};
  std::array<int64_t, 4> pad = {0, 0, 0, 0};  // top, left, bottom, right
  bool ceil_mode = false;  // output extent rounded up; the last window still starts inside data or front padding
  bool count_include_pad = false;  // average: padding (but nothing beyond it) counts as zeros
};

int64_t PoolOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end,
                   bool ceil_mode);

// data [N, H, W, C] -> [N, OH, OW, C]; axes (n, h, w, c), reduction (kh, kw). Padding is never materialised. A
// window that holds no element of the data has the maximum -inf and no average.
Tensor MaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs);
// The sum is a tensor <name>_sum; the average multiplies by 1/count where the count is the same for all windows, else
// divides by it.
Tensor AvgPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs);
// [N, H, W, C] -> [N, 1, 1, C]; axes (n, c); the sum is <name>_sum.
Tensor GlobalAvgPool(const std::string& name, const Tensor& data);
Tensor GlobalMaxPool(const std::string& name, const Tensor& data);

}  // namespace autotune::topi
