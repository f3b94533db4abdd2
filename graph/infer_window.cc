#include <algorithm>

#include "graph/infer.h"
#include "ir/dot.h"

namespace autotune::graph {
namespace {

// Positions of the dimensions of an image: of the channels, and of the first spatial dimension.
struct ImageAxes {
  size_t channels, spatial;
};
ImageAxes AxesOf(Layout layout, size_t dims) {
  return layout == Layout::kNCHW ? ImageAxes{1, 2} : ImageAxes{dims + 1, 1};
}

Status CheckWindow(size_t dims, const std::vector<int64_t>& strides, const std::vector<int64_t>& pads,
                   const std::vector<int64_t>& dilations) {
  auto below = [](const std::vector<int64_t>& v, int64_t least) {
    return std::any_of(v.begin(), v.end(), [&](int64_t x) { return x < least; });
  };
  if (strides.size() != dims || below(strides, 1)) return Err("strides must be ", dims, " positive numbers");
  if (dilations.size() != dims || below(dilations, 1)) return Err("dilations must be ", dims, " positive numbers");
  if (pads.size() != 2 * dims || below(pads, 0)) return Err("pads must be ", 2 * dims, " numbers, none negative");
  return {};
}

// Returns an error if no element of an image can hold the number in the padding.
Status CheckPadValue(int64_t value, DType type) {
  if (value == 0) return {};
  if (!IsByte(type)) return Err("pad_value ", value, " is for images of bytes, not of ", type.Text());
  const int64_t least = type.IsSigned() ? -128 : 0;
  if (value < least || value > least + 255) return Err("pad_value ", value, " is no ", type.Text());
  return {};
}

// Returns the output extent of a sliding window along one axis.
Result<int64_t> WindowExtent(int64_t in, int64_t kernel, int64_t stride, int64_t before, int64_t after,
                             int64_t dilation, bool ceil_mode) {
  int64_t span = in + before + after - (dilation * (kernel - 1) + 1);
  if (kernel < 1 || span < 0) {
    return Err("a window of ", kernel, " (dilation ", dilation, ") does not fit into ", in, " plus pads ", before,
               " and ", after);
  }
  int64_t out = span / stride + 1;
  // A window that would begin in the trailing pad is dropped.
  if (ceil_mode && span % stride != 0 && out * stride < in + before) ++out;
  return out;
}

}  // namespace

template <size_t dims>
Result<TensorSpec> InferConv(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<ConvAttrs>(attrs);
  TRY(NeedRank(in[0], dims + 2, "input"));
  TRY(NeedRank(in[1], dims + 2, "weight"));
  TRY(CheckWindow(dims, a.strides, a.pads, a.dilations));
  const Shape &x = in[0].shape, &w = in[1].shape;
  bool nchw = a.layout == Layout::kNCHW;
  ImageAxes ax = AxesOf(a.layout, dims);
  int64_t oc = nchw ? w[0] : w[dims + 1], ic = nchw ? w[1] : w[dims], channels = x[ax.channels];
  if (a.groups < 1 || a.groups > std::max<int64_t>(oc, 1) || oc % a.groups != 0)
    return Err(oc, " output channels do not divide into ", a.groups, " groups");
  if (channels != ic * a.groups) {
    return Err("input ", in[0].Text(), " has ", channels, " channels, weight ", in[1].Text(), " with ", a.groups,
               " groups wants ", ic * a.groups);
  }
  TRY(CheckPadValue(a.pad_value, in[0].dtype));
  TensorSpec out{SumType(in[0].dtype, in[1].dtype), x};
  out.shape[ax.channels] = oc;
  for (size_t d = 0; d < dims; ++d) {
    int64_t kernel = nchw ? w[d + 2] : w[d];
    out.shape[ax.spatial + d] =
        TRY(WindowExtent(x[ax.spatial + d], kernel, a.strides[d], a.pads[d], a.pads[d + dims], a.dilations[d], false));
  }
  return out;
}
template Result<TensorSpec> InferConv<2>(const Attrs&, const Specs&);
template Result<TensorSpec> InferConv<3>(const Attrs&, const Specs&);

template <size_t dims>
Result<TensorSpec> InferPool(const Attrs& attrs, const Specs& in) {
  const auto& a = std::get<PoolAttrs>(attrs);
  TRY(NeedRank(in[0], dims + 2, "input"));
  TRY(CheckWindow(dims, a.strides, a.pads, a.dilations));
  if (a.kernel.size() != dims) return Err("kernel must be ", dims, " numbers");
  TRY(CheckSize({in[0].dtype, a.kernel}));  // large pads can make a window of any size fit
  TensorSpec out = in[0];
  for (size_t d = 0; d < dims; ++d) {
    int64_t reach = (a.kernel[d] - 1) * a.dilations[d], before = a.pads[d], after = a.pads[d + dims];
    // With smaller pads, every window holds at least one element of the input.
    if (before > reach || after > reach) return Err("pads must be smaller than the window");
    int64_t& extent = out.shape[AxesOf(a.layout, dims).spatial + d];
    extent = TRY(WindowExtent(extent, a.kernel[d], a.strides[d], before, after, a.dilations[d], a.ceil_mode));
  }
  return out;
}
template Result<TensorSpec> InferPool<2>(const Attrs&, const Specs&);
template Result<TensorSpec> InferPool<3>(const Attrs&, const Specs&);

Result<TensorSpec> InferArgMaxPool(const Attrs& attrs, const Specs& in) {
  bool solid = std::get<PoolAttrs>(attrs).kernel.size() == 3;
  TensorSpec out = TRY(solid ? InferPool<3>(attrs, in) : InferPool<2>(attrs, in));
  return TensorSpec{DType::Int(64), out.shape};
}

Result<TensorSpec> InferGlobalPool(const Attrs& attrs, const Specs& in) {
  TRY(NeedRank(in[0], 4, "input"));
  size_t first = AxesOf(std::get<ImageAttrs>(attrs).layout, 2).spatial;
  TensorSpec out = in[0];
  out.shape[first] = out.shape[first + 1] = 1;
  return out;
}

}  // namespace autotune::graph
