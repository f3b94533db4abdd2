// 2-D convolution (cross-correlation), NHWC activations, HWIO weights. Thread-safe. Not its bias or activation: those
// are element-wise (topi/elementwise.h) and fuse by schedule.
#pragma once
#include <array>
#include <string>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

struct Conv2dAttrs {
  std::array<int64_t, 2> stride = {1, 1};     // height, width
  std::array<int64_t, 2> dilation = {1, 1};   // height, width
  std::array<int64_t, 4> pad = {0, 0, 0, 0};  // top, left, bottom, right
  int64_t groups = 1;
};

// floor((in + pads - dilation*(kernel-1) - 1) / stride) + 1
int64_t ConvOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end);

// The data with zeros around it, `used_h` x `used_w` pixels from the top left corner of the padding on: no larger than
// what windows read. The data itself where no padding is read.
Tensor PadForWindows(const std::string& name, const Tensor& data, const Conv2dAttrs& attrs, int64_t used_h,
                     int64_t used_w);

// data [N, H, W, IC], weight [KH, KW, IC/groups, OC] -> [N, OH, OW, OC]. The shapes must fit (CHECK).
// Axes: (n, m, oc) over (N, OH*OW, OC), with groups (n, m, g, oc) over (N, OH*OW, G, OC/G); reduction (kh, kw, ic), kh
// and kw only where the kernel is larger than 1. Depthwise (IC/groups == 1): (n, h, w, c), reduction (kh, kw).
// Where padding is read, a tensor <name>_pad holds the padded data, no larger than what is read.
Tensor Conv2d(const std::string& name, const Tensor& data, const Tensor& weight, const Conv2dAttrs& attrs);

}  // namespace autotune::topi
