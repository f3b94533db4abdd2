// Pooling over one to three spatial dimensions, N...C: NHWC in two. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

struct PoolAttrs {                       // the defaults are for images of two dimensions
  std::vector<int64_t> kernel = {1, 1};  // per spatial dimension: height, width
  std::vector<int64_t> stride = {1, 1};
  std::vector<int64_t> dilation = {1, 1};
  std::vector<int64_t> pad = {0, 0, 0, 0};  // first before each dimension, then behind each: top, left, bottom, right
  bool ceil_mode = false;  // output extent rounded up; the last window still starts inside data or front padding
  bool count_include_pad = false;  // average: padding (but nothing beyond it) counts as zeros
  bool channels_first = false;     // NC... instead of N...C: for MaxPool and AvgPool
};

int64_t PoolOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end,
                   bool ceil_mode);

// data [N, H, W, C] -> [N, OH, OW, C]; axes te::NaturalAxes, reduction (kh, kw), in three dimensions with kd before
// them. Padding is never materialised. A window without elements of the data has the maximum -inf and an
// undefined average.
Tensor MaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs);
// Returns the place of the first largest element of each window, as i64: h * W + w, in three dimensions (d * H + h) * W
// + w. The largest element is a tensor <name>_best. If a window has a NaN, the place is any place of the image.
Tensor ArgMaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs);
// The sum is a tensor <name>_sum. It is multiplied by 1 / count if the count is the same for all windows, else divided
// by the count.
Tensor AvgPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs);
// [N, H, W, C] -> [N, 1, 1, C]; axes (n, c); the sum is <name>_sum.
Tensor GlobalAvgPool(const std::string& name, const Tensor& data);
Tensor GlobalMaxPool(const std::string& name, const Tensor& data);

}  // namespace autotune::topi
