#include "topi/conv2d.h"

#include <algorithm>

#include "support/check.h"

namespace autotune::topi {

using te::Axis;

int64_t ConvOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end) {
  int64_t room = in + pad_begin + pad_end - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

Tensor PadForWindows(const std::string& name, const Tensor& data, const Conv2dAttrs& attrs, int64_t used_h,
                     int64_t used_w) {
  const Shape& in = data.shape();
  int64_t top = attrs.pad[0], left = attrs.pad[1];
  if (top == 0 && left == 0 && used_h <= in[1] && used_w <= in[2]) return data;
  std::vector<Axis> axes = te::NaturalAxes({in[0], used_h, used_w, in[3]});
  return te::Compute(name, axes, {data}, [&](const std::vector<Expr>& i) {
    Expr h = i[1] - top, w = i[2] - left, inside;
    auto require = [&](const Expr& condition) { inside = inside ? And(inside, condition) : condition; };
    if (top > 0) require(h >= 0);
    if (used_h - top > in[1]) require(h < in[1]);
    if (left > 0) require(w >= 0);
    if (used_w - left > in[2]) require(w < in[2]);
    Expr x = data({i[0], h, w, i[3]});
    return MakeSelect(inside, x, ConstOf(0, data.dtype()));
  });
}

Tensor Conv2d(const std::string& name, const Tensor& data, const Tensor& weight, const Conv2dAttrs& attrs) {
  CHECK(data.rank() == 4 && weight.rank() == 4) << name;
  const Shape &in = data.shape(), &kernel = weight.shape();
  int64_t groups = attrs.groups, ic = kernel[2], oc = kernel[3];
  CHECK(groups >= 1 && in[3] == ic * groups && oc % groups == 0) << name << ": channels and groups do not fit";
  auto [sh, sw] = attrs.stride;
  auto [dh, dw] = attrs.dilation;
  CHECK(sh > 0 && sw > 0 && dh > 0 && dw > 0) << name;
  CHECK(std::all_of(attrs.pad.begin(), attrs.pad.end(), [](int64_t p) { return p >= 0; })) << name;
  int64_t oh = ConvOutput(in[1], kernel[0], sh, dh, attrs.pad[0], attrs.pad[2]);
  int64_t ow = ConvOutput(in[2], kernel[1], sw, dw, attrs.pad[1], attrs.pad[3]);
  CHECK(oh > 0 && ow > 0) << name << ": the kernel is larger than the padded data";
  Tensor x = PadForWindows(name + "_pad", data, attrs, (oh - 1) * sh + (kernel[0] - 1) * dh + 1,
                           (ow - 1) * sw + (kernel[1] - 1) * dw + 1);
  Shape shape = {in[0], oh, ow, oc};
  Axis n{"n", in[0]}, kh{"kh", kernel[0]}, kw{"kw", kernel[1]};

  if (groups > 1 && ic == 1) {  // depthwise; `multiplier` outputs per channel
    int64_t multiplier = oc / groups;
    return te::Reduce(name, te::NaturalAxes(shape), {kh, kw}, te::Combiner::kSum, {x, weight},
                      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        return x({i[0], i[1] * sh + r[0] * dh, i[2] * sw + r[1] * dw, FloorDiv(i[3], multiplier)}) *
                               weight({r[0], r[1], 0, i[3]});
                      });
  }

  std::vector<Axis> axes = {n, {"m", oh * ow}};
  if (groups > 1) axes.push_back({"g", groups});
  axes.push_back({"oc", oc / groups});
  std::vector<Axis> reduce;  // no axes of one iteration: a 1x1 convolution reads as a matrix product
  for (const Axis& axis : {kh, kw}) {
    if (axis.extent > 1) reduce.push_back(axis);
  }
  reduce.push_back({"ic", ic});
  return te::Reduce(
      name, axes, reduce, te::Combiner::kSum, {x, weight},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> hw = te::ReshapeIndices({i[1]}, {oh * ow}, {oh, ow});
        Expr g = groups > 1 ? i[2] : Expr(0);
        Expr y = kh.extent > 1 ? r[0] : Expr(0);
        Expr z = kw.extent > 1 ? r[r.size() - 2] : Expr(0);
        return x({i[0], hw[0] * sh + y * dh, hw[1] * sw + z * dw, g * ic + r.back()}) *
               weight({y, z, r.back(), g * (oc / groups) + i.back()});
      },
      shape);
}

}  // namespace autotune::topi
