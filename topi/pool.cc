#include "topi/pool.h"

#include <algorithm>
#include <functional>

#include "support/check.h"
#include "support/integer.h"
#include "topi/conv.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

using te::Axis;
using te::Combiner;

struct Window {  // along one spatial dimension; `begin` and `end` are paddings
  int64_t in, out, kernel, stride, dilation, begin, end;
  bool reads_before() const { return begin > 0; }
  bool reads_after() const { return (out - 1) * stride + (kernel - 1) * dilation - begin >= in; }
  Expr Position(const Expr& o, const Expr& k) const { return o * stride + k * dilation - begin; }
};

size_t FirstSpatial(const PoolAttrs& attrs) { return attrs.channels_first ? 2 : 1; }

std::vector<Window> MakeWindows(const std::string& name, const Shape& in, const PoolAttrs& attrs) {
  const size_t dims = attrs.kernel.size();
  CHECK(in.size() == dims + 2 && attrs.stride.size() == dims && attrs.dilation.size() == dims) << name;
  CHECK(attrs.pad.size() == 2 * dims) << name;
  std::vector<Window> windows;
  for (size_t d = 0; d < dims; ++d) {
    Window w{in[d + FirstSpatial(attrs)], 0, attrs.kernel[d], attrs.stride[d], attrs.dilation[d], attrs.pad[d],
             attrs.pad[d + dims]};
    w.out = PoolOutput(w.in, w.kernel, w.stride, w.dilation, w.begin, w.end, attrs.ceil_mode);
    CHECK(w.out > 0) << name << ": the kernel is larger than the padded data";
    CHECK(w.begin >= 0 && w.end >= 0 && w.stride > 0 && w.dilation > 0) << name;
    windows.push_back(w);
  }
  return windows;
}

// Returns the contribution of an element of a window. `out` and `in` are the subscripts of the output and of the
// element.
using WindowFn = std::function<Expr(const std::vector<Expr>& out, const std::vector<Expr>& in)>;

// Combines fn over the elements of every window. Elements outside the data have the value `outside`. `first`: the first
// spatial dimension.
Tensor Combined(const std::string& name, const std::vector<Tensor>& inputs, const std::vector<Window>& windows,
                size_t first, Combiner combiner, const Expr& outside, const WindowFn& fn) {
  Shape shape = inputs[0].shape(), kernel;
  for (size_t d = 0; d < windows.size(); ++d) {
    shape[d + first] = windows[d].out;
    kernel.push_back(windows[d].kernel);
  }
  return te::Reduce(name, te::NaturalAxes(shape), WindowAxes(name, kernel), combiner, inputs,
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      std::vector<Expr> at = i;
                      Expr inside;
                      auto require = [&](const Expr& c) { inside = inside ? And(inside, c) : c; };
                      for (size_t d = 0; d < windows.size(); ++d) {
                        Expr& place = at[d + first];
                        place = windows[d].Position(i[d + first], r[d]);
                        if (windows[d].reads_before()) require(place >= 0);
                        if (windows[d].reads_after()) require(place < windows[d].in);
                      }
                      Expr value = fn(i, at);
                      return inside ? MakeSelect(inside, value, outside) : value;
                    });
}

Tensor Combined(const std::string& name, const Tensor& data, const PoolAttrs& attrs, Combiner combiner) {
  return Combined(name, {data}, MakeWindows(name, data.shape(), attrs), FirstSpatial(attrs), combiner,
                  te::IdentityOf(combiner, data.dtype()),
                  [&](const std::vector<Expr>&, const std::vector<Expr>& at) { return data(at); });
}

// Returns the number of positions of window `o` that count; a constant if all windows have the same number.
Expr Count(const Window& w, const Expr& o, bool include_pad) {
  int64_t low = include_pad ? -w.begin : 0, high = include_pad ? w.in + w.end : w.in;
  bool cut_low = low > -w.begin;
  bool cut_high = (w.out - 1) * w.stride - w.begin + (w.kernel - 1) * w.dilation >= high;
  // first_at: the least k with start + k*dilation >= bound.
  Expr start = o * w.stride - w.begin;
  auto first_at = [&](int64_t bound) { return FloorDiv(Expr(bound) - start + (w.dilation - 1), w.dilation); };
  Expr begin = cut_low ? Max(0, first_at(low)) : Expr(0);
  return cut_high ? Min(w.kernel, first_at(high)) - begin : Expr(w.kernel) - begin;
}

}  // namespace

int64_t PoolOutput(int64_t in, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad_begin, int64_t pad_end,
                   bool ceil_mode) {
  int64_t room = in + pad_begin + pad_end - dilation * (kernel - 1) - 1;
  if (room < 0) return 0;
  int64_t out = (ceil_mode ? CeilDiv(room, stride) : room / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad_begin) --out;
  return out;
}

Tensor MaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs) {
  return Combined(name, data, attrs, Combiner::kMax);
}

Tensor ArgMaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs) {
  CHECK(!attrs.channels_first) << name;
  const DType type = DType::Int(64);
  Tensor best = MaxPool(name + "_best", data, attrs);
  std::vector<Window> windows = MakeWindows(name, data.shape(), attrs);
  const Shape pixels(data.shape().begin() + 1, data.shape().end() - 1);
  Expr last = IntConst(te::Product(pixels) - 1, type);
  return Combined(name, {data, best}, windows, FirstSpatial(attrs), Combiner::kMin, last,
                  [&](const std::vector<Expr>& i, const std::vector<Expr>& at) {
                    Expr place = te::ReshapeIndices({at.begin() + 1, at.end() - 1}, pixels, {te::Product(pixels)})[0];
                    return MakeSelect(Eq(data(at), best(i)), MakeCast(type, place), last);
                  });
}

Tensor AvgPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs) {
  CHECK(data.dtype().IsFloat()) << name;
  std::vector<Window> windows = MakeWindows(name, data.shape(), attrs);
  Tensor sum = Combined(name + "_sum", data, attrs, Combiner::kSum);
  return te::Compute(name, sum->axes, {sum}, [&](const std::vector<Expr>& i) {
    Expr count;
    for (size_t d = 0; d < windows.size(); ++d) {
      Expr along = Count(windows[d], i[d + FirstSpatial(attrs)], attrs.count_include_pad);
      count = count ? count * along : along;
    }
    // A product with the reciprocal would make 0.99999994 of ones, if there are 41 of them.
    return sum(i) / MakeCast(data.dtype(), count);
  });
}

namespace {
Tensor Global(const std::string& name, const Tensor& data, Combiner combiner) {
  CHECK(data.rank() == 4) << name;
  const Shape& in = data.shape();
  return te::Reduce(name, {{"n", in[0]}, {"c", in[3]}}, {{"h", in[1]}, {"w", in[2]}}, combiner, {data},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      return data({i[0], r[0], r[1], i[1]});
                    },
                    {in[0], 1, 1, in[3]});
}
}  // namespace

Tensor GlobalAvgPool(const std::string& name, const Tensor& data) {
  Tensor sum = Global(name + "_sum", data, Combiner::kSum);
  double count = static_cast<double>(data.shape()[1] * data.shape()[2]);
  return Div(name, sum, te::Splat({}, count, data.dtype()));
}

Tensor GlobalMaxPool(const std::string& name, const Tensor& data) { return Global(name, data, Combiner::kMax); }

}  // namespace autotune::topi
