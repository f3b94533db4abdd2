#include "topi/conv.h"

#include <algorithm>

#include "support/check.h"
#include "support/integer.h"
#include "topi/reduce.h"

namespace autotune::topi {

using te::Axis;

int64_t ConvOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end) {
  int64_t room = in + pad_begin + pad_end - dilation * (kernel - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

std::vector<Axis> WindowAxes(const std::string& name, const Shape& extents) {
  static constexpr const char* kNames[] = {"kd", "kh", "kw"};
  size_t skip = std::size(kNames) - extents.size();
  CHECK(!extents.empty() && extents.size() <= std::size(kNames)) << name << ": one to three dimensions";
  std::vector<Axis> axes;
  for (size_t d = 0; d < extents.size(); ++d) axes.push_back({kNames[skip + d], extents[d]});
  return axes;
}

Tensor PadForWindows(const std::string& name, const Tensor& data, const ConvAttrs& attrs, const Shape& used,
                     size_t first) {
  const Shape& in = data.shape();
  bool all = true;
  for (size_t d = 0; d < used.size(); ++d) all = all && attrs.pad[d] == 0 && used[d] <= in[d + first];
  if (all) return data;
  Shape shape = in;
  std::copy(used.begin(), used.end(), shape.begin() + static_cast<std::ptrdiff_t>(first));
  return te::Compute(name, te::NaturalAxes(shape), {data}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> at = i;
    Expr inside;
    auto require = [&](const Expr& condition) { inside = inside ? And(inside, condition) : condition; };
    for (size_t d = 0; d < used.size(); ++d) {
      Expr& place = at[d + first];
      place = place - attrs.pad[d];
      if (attrs.pad[d] > 0) require(place >= 0);
      if (used[d] - attrs.pad[d] > in[d + first]) require(place < in[d + first]);
    }
    return MakeSelect(inside, data(at), ConstOf(static_cast<double>(attrs.pad_value), data.dtype()));
  });
}

namespace {

struct Extents {
  Shape pixels;  // of the output
  Shape used;    // of the part of the padded data that windows read, counted from its corner
};

Extents WindowExtents(const std::string& name, const Shape& image, const Shape& kernel, const ConvAttrs& attrs) {
  const size_t dims = image.size();
  CHECK(kernel.size() == dims && attrs.stride.size() == dims && attrs.dilation.size() == dims) << name;
  CHECK(attrs.pad.size() == 2 * dims) << name;
  CHECK(std::all_of(attrs.pad.begin(), attrs.pad.end(), [](int64_t p) { return p >= 0; })) << name;
  Extents e;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t stride = attrs.stride[d], dilation = attrs.dilation[d];
    CHECK(stride > 0 && dilation > 0) << name;
    e.pixels.push_back(ConvOutput(image[d], kernel[d], stride, dilation, attrs.pad[d], attrs.pad[d + dims]));
    CHECK(e.pixels[d] > 0) << name << ": the kernel is larger than the padded data";
    e.used.push_back((e.pixels[d] - 1) * stride + (kernel[d] - 1) * dilation + 1);
  }
  return e;
}

// Returns a convolution of the padded x to one output channel. Since one channel does not fill a vector, lanes run
// along the part of a window that is contiguous in x and in the weights: the channels of one position or, without
// dilation, of all positions of a row. `shape` is the shape of the result. Returns null if the contiguous part is too
// short for lanes.
Tensor OneChannel(const std::string& name, const Tensor& x, const Tensor& weight, const ConvAttrs& attrs,
                  const Shape& shape) {
  const size_t dims = shape.size() - 2;
  const int64_t ic = x.shape().back(), columns = attrs.dilation.back() == 1 ? weight.shape()[dims - 1] : 1;
  if (columns * ic < kShortestRow) return Tensor();
  const Shape pixels(shape.begin() + 1, shape.end() - 1);
  std::vector<Axis> outer = WindowAxes(name, {weight.shape().begin(), weight.shape().begin() + static_cast<int>(dims)});
  if (columns > 1 || outer.back().extent == 1) outer.pop_back();
  return SumRows(
      name, {{"n", shape[0]}, {"m", te::Product(pixels)}}, outer, columns * ic, {x, weight},
      [&](const std::vector<Expr>& kept, const std::vector<Expr>& r, const Expr& place) {
        std::vector<Expr> pixel = te::ReshapeIndices({kept[1]}, {te::Product(pixels)}, pixels), at = {kept[0]}, tap = r;
        if (tap.size() < dims) tap.push_back(columns > 1 ? FloorDiv(place, ic) : Expr(0));
        for (size_t d = 0; d < dims; ++d) at.push_back(pixel[d] * attrs.stride[d] + tap[d] * attrs.dilation[d]);
        const Expr channel = columns > 1 ? FloorMod(place, ic) : place;
        at.push_back(channel);
        tap.insert(tap.end(), {channel, Expr(0)});
        return Term(x(at), weight(tap));
      },
      shape);
}

// `by_channel`: the axes are (n, h, w, c), as for depthwise convolutions. Otherwise pixels are fused into one axis, and
// the convolution is a matrix product.
Tensor Convolve(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                bool by_channel) {
  CHECK(data.rank() >= 3 && weight.rank() == data.rank()) << name;
  const Shape &in = data.shape(), &kernel = weight.shape();
  const size_t dims = in.size() - 2;
  const Shape &stride = attrs.stride, &dilation = attrs.dilation;
  int64_t groups = attrs.groups, ic = kernel[dims], oc = kernel[dims + 1];
  CHECK(groups >= 1 && in.back() == ic * groups && oc % groups == 0) << name << ": channels and groups do not fit";
  const auto [pixels, used] =
      WindowExtents(name, {in.begin() + 1, in.end() - 1}, {kernel.begin(), kernel.end() - 2}, attrs);
  Tensor x = PadForWindows(name + "_pad", data, attrs, used);
  Shape shape = {in[0]};
  shape.insert(shape.end(), pixels.begin(), pixels.end());
  shape.push_back(oc);
  std::vector<Axis> window = WindowAxes(name, {kernel.begin(), kernel.end() - 2});

  if (by_channel) {
    int64_t outputs = oc / groups;  // of a group
    std::vector<Axis> reduce = window;
    if (ic > 1) reduce.insert(reduce.begin(), Axis{"ic", ic});
    return te::Reduce(name, te::NaturalAxes(shape), reduce, te::Combiner::kSum, {x, weight},
                      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        std::vector<Expr> at = i, tap(r.end() - static_cast<std::ptrdiff_t>(dims), r.end());
                        for (size_t d = 0; d < dims; ++d) at[d + 1] = i[d + 1] * stride[d] + tap[d] * dilation[d];
                        at.back() = FloorDiv(i.back(), outputs);
                        if (ic > 1) at.back() = at.back() * ic + r[0];
                        tap.insert(tap.end(), {ic > 1 ? r[0] : Expr(0), i.back()});
                        return Term(x(at), weight(tap));
                      });
  }

  if (oc == 1 && groups == 1) {
    if (Tensor sums = OneChannel(name, x, weight, attrs, shape)) return sums;
  }

  int64_t m = te::Product(pixels);
  std::vector<Axis> axes = {{"n", in[0]}, {"m", m}};
  if (groups > 1) axes.push_back({"g", groups});
  axes.push_back({"oc", oc / groups});
  std::vector<Axis> reduce;  // without axes of one iteration, so that a 1x1 convolution is a matrix product
  for (const Axis& axis : window) {
    if (axis.extent > 1) reduce.push_back(axis);
  }
  reduce.push_back({"ic", ic});
  return te::Reduce(
      name, axes, reduce, te::Combiner::kSum, {x, weight},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> pixel = te::ReshapeIndices({i[1]}, {m}, pixels), at = {i[0]}, tap;
        Expr g = groups > 1 ? i[2] : Expr(0);
        size_t next = 0;
        for (size_t d = 0; d < dims; ++d) {
          tap.push_back(window[d].extent > 1 ? r[next++] : Expr(0));
          at.push_back(pixel[d] * stride[d] + tap[d] * dilation[d]);
        }
        at.push_back(g * ic + r.back());
        tap.insert(tap.end(), {r.back(), g * (oc / groups) + i.back()});
        return Term(x(at), weight(tap));
      },
      shape);
}

}  // namespace

Tensor Conv(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs) {
  bool depthwise = attrs.groups > 1 && weight.rank() >= 2 && weight.shape()[weight.rank() - 2] == 1;
  return Convolve(name, data, weight, attrs, depthwise);
}

Tensor ConvChannelsFirst(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs) {
  CHECK(data.rank() >= 3 && weight.rank() == data.rank() && attrs.groups == 1) << name;
  const Shape &in = data.shape(), &w = weight.shape();
  CHECK(in[1] == w[1]) << name << ": channels do not fit";
  const Shape kernel(w.begin() + 2, w.end());
  const auto [pixels, used] = WindowExtents(name, {in.begin() + 2, in.end()}, kernel, attrs);
  const Tensor x = PadForWindows(name + "_pad", data, attrs, used, 2);
  std::vector<Axis> axes = {{"n", in[0]}, {"oc", w[0]}}, reduce = WindowAxes(name, kernel);
  for (size_t d = 0; d < pixels.size(); ++d) axes.push_back({"o" + std::to_string(d), pixels[d]});
  std::erase_if(reduce, [](const Axis& axis) { return axis.extent == 1; });
  reduce.insert(reduce.begin(), {"ic", in[1]});
  return te::Reduce(name, axes, reduce, te::Combiner::kSum, {x, weight},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      std::vector<Expr> at = {i[0], r[0]}, tap = {i[1], r[0]};
                      size_t next = 1;
                      for (size_t d = 0; d < kernel.size(); ++d) {
                        tap.push_back(kernel[d] > 1 ? r[next++] : Expr(0));
                        at.push_back(i[d + 2] * attrs.stride[d] + tap.back() * attrs.dilation[d]);
                      }
                      return Term(x(at), weight(tap));
                    });
}

namespace {

// Returns the spatial dimension with the fewest output pixels. Register tiles run along the other one.
size_t ShortestDim(const Shape& pixels) {
  return static_cast<size_t>(std::min_element(pixels.begin(), pixels.end()) - pixels.begin());
}

}  // namespace

Tensor ConvSkippingPadding(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs) {
  CHECK(data.rank() >= 3 && weight.rank() == data.rank() && attrs.groups == 1) << name;
  const Shape &in = data.shape(), &w = weight.shape();
  CHECK(in.back() == w[w.size() - 2]) << name << ": channels do not fit";
  const Shape kernel(w.begin(), w.end() - 2);
  auto [pixels, used] = WindowExtents(name, {in.begin() + 1, in.end() - 1}, kernel, attrs);
  const size_t skipped = ShortestDim(pixels);
  ConvAttrs others = attrs;
  others.pad[skipped] = 0;
  used[skipped] = in[skipped + 1];
  const Tensor x = PadForWindows(name + "_pad", data, others, used);
  Shape shape = {in[0]};
  shape.insert(shape.end(), pixels.begin(), pixels.end());
  shape.push_back(w.back());
  std::vector<Axis> reduce = WindowAxes(name, kernel);
  reduce.push_back({"ic", in.back()});
  return te::Reduce(name, te::NaturalAxes(shape), reduce, te::Combiner::kSum, {x, weight},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      std::vector<Expr> at = {i[0]}, tap = r;
                      for (size_t d = 0; d < kernel.size(); ++d)
                        at.push_back(i[d + 1] * attrs.stride[d] + r[d] * attrs.dilation[d]);
                      at.push_back(r.back());
                      tap.push_back(i.back());
                      Expr& place = at[skipped + 1];
                      place = place - attrs.pad[skipped];
                      const Expr inside = And(place >= 0, place < in[skipped + 1]);
                      return Term(MakeSelect(inside, x(at), ConstOf(0, x.dtype())), weight(tap));
                    });
}

bool SkippingPaddingApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
  // In one dimension, register tiles run along the only dimension, so nothing can be skipped.
  if (attrs.groups > 1 || attrs.pad_value != 0 || target.IsGpu() || data.size() < 4) return false;
  const Shape image(data.begin() + 1, data.end() - 1), kernel(weight.begin(), weight.end() - 2);
  const Shape pixels = WindowExtents("conv", image, kernel, attrs).pixels;
  const size_t d = ShortestDim(pixels);
  int64_t in_data = 0;
  for (int64_t tap = 0; tap < kernel[d]; ++tap) {
    // The tap meets data at the pixels in [first, end).
    const int64_t before = attrs.pad[d] - tap * attrs.dilation[d];
    const int64_t first = CeilDiv(std::max<int64_t>(0, before), attrs.stride[d]);
    const int64_t end = std::min(pixels[d], CeilDiv(std::max<int64_t>(0, image[d] + before), attrs.stride[d]));
    in_data += std::max<int64_t>(0, end - first);
  }
  const auto all = static_cast<double>(pixels[d] * kernel[d]);
  return all - static_cast<double>(in_data) >= kWorthSkipping * all;
}

Tensor ConvAcrossGroups(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs) {
  return Convolve(name, data, weight, attrs, true);
}

bool AcrossGroupsApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
  if (data.size() != 4) return false;
  const int64_t lanes = target.VectorLanes(32), ic = weight[2], oc = weight[3], outputs = oc / attrs.groups;
  if (attrs.groups == 1 || ic == 1 || outputs >= lanes || lanes % outputs != 0) return false;
  return (lanes / outputs - 1) * ic < lanes;
}

}  // namespace autotune::topi
