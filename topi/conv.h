// Convolution (cross-correlation) over one to three spatial dimensions. Activations are N...C and weights ...IO; in two
// dimensions these are NHWC and HWIO. Thread-safe. Bias and activation are element-wise operators (topi/elementwise.h),
// which a schedule fuses.
#pragma once
#include <string>
#include <vector>

#include "target/target.h"
#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

struct ConvAttrs {                          // the defaults are for images of two dimensions
  std::vector<int64_t> stride = {1, 1};     // per spatial dimension: height, width
  std::vector<int64_t> dilation = {1, 1};   // likewise
  std::vector<int64_t> pad = {0, 0, 0, 0};  // first before each dimension, then behind each: top, left, bottom, right
  int64_t groups = 1;
  int64_t pad_value = 0;  // the number that the padding holds
};

// floor((in + pads - dilation*(kernel-1) - 1) / stride) + 1
int64_t ConvOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end);

// The axes of a window: kh and kw in two dimensions, kd before them in three.
std::vector<te::Axis> WindowAxes(const std::string& name, const Shape& extents);

// Returns the data with the padding around it, cut to the part that windows read: `used` pixels of each
// spatial dimension, counted from the corner of the padding. Returns the data itself if no window reads padding.
// `first`: the first spatial dimension.
Tensor PadForWindows(const std::string& name, const Tensor& data, const ConvAttrs& attrs, const Shape& used,
                     size_t first = 1);

// data [N, H, W, IC], weight [KH, KW, IC/groups, OC] -> [N, OH, OW, OC]. The shapes must fit (CHECK).
// Axes: (n, m, oc) over (N, OH*OW, OC), with groups (n, m, g, oc) over (N, OH*OW, G, OC/G); reduction (kh, kw, ic), kh
// and kw only if the kernel is larger than 1. Depthwise (groups > 1, IC/groups == 1): (n, h, w, c), reduction (kh, kw).
// One output channel: the form of SumRows (topi/reduce.h) over (n, m), if windows have enough contiguous elements. If
// windows read padding, a tensor <name>_pad holds the part of the padded data that they read. This is the form in two
// dimensions. In one dimension there is only W, and in three dimensions D comes before H. Sums of products of bytes are
// i32, those of floats of 16 bits f32.
Tensor Conv(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs);

// data [N, IC, H, W], weight [OC, IC, KH, KW], no groups -> [N, OC, OH, OW]. The axes are the dimensions of the
// result, reduction (ic, kh, kw). Meant for a few output channels, which do not fill a vector; vectors run along the
// pixels of a row instead. Padding as in Conv.
Tensor ConvChannelsFirst(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs);

// Like Conv without groups, but with the axes (n, h, w, oc), reduction (kh, kw, ic). Meant for images that are so small
// that a large part of the windows' positions lies in padding. Along the dimension with the fewest output pixels,
// padding is a condition of the update instead of zeros in <name>_pad. The condition depends only on that dimension's
// axes of the image and of the kernel. So a schedule tests it once for each row (or column) of the kernel, and skips
// those that meet only padding.
Tensor ConvSkippingPadding(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs);
// Returns true for images of two or three dimensions with a padding of zeros, if windows meet padding along that
// dimension at a share of at least kWorthSkipping of their positions. Returns false for GPUs, since no rule for GPUs
// makes the step that skips padding (SkipPadding): their kernels would compute with zeros as before.
bool SkippingPaddingApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);
// [chosen] A smaller share is not worth another alternative to search.
constexpr double kWorthSkipping = 1.0 / 16;

// Like Conv, but with the axes of a depthwise convolution: (n, h, w, c), reduction (ic, kh, kw). A vector along c holds
// outputs of several groups; a vector for one group would leave most lanes idle. The weights of a vector are contiguous
// in memory. Each lane needs the input channel of its own group. These inputs are neighbours in memory: they are loaded
// as one vector, permuted, and used for every column of the window.
Tensor ConvAcrossGroups(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs);
// Returns true for images of two dimensions, if a vector holds whole groups, and the input channels that its lanes read
// lie within one vector's length.
bool AcrossGroupsApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target);

}  // namespace autotune::topi
