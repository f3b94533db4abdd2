#include "topi/pool.h"

#include <algorithm>
#include <limits>

#include "support/check.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

using te::Axis;
using te::Combiner;

struct Window {  // one of height, width
  int64_t in, out, kernel, stride, dilation, begin, end;
  bool reads_before() const { return begin > 0; }
  bool reads_after() const { return (out - 1) * stride + (kernel - 1) * dilation - begin >= in; }
  Expr Position(const Expr& o, const Expr& k) const { return o * stride + k * dilation - begin; }
};

Window MakeWindow(const std::string& name, const Shape& in, const PoolAttrs& attrs, int d) {
  Window w{in[d + 1], 0, attrs.kernel[d], attrs.stride[d], attrs.dilation[d], attrs.pad[d], attrs.pad[d + 2]};
  w.out = PoolOutput(w.in, w.kernel, w.stride, w.dilation, w.begin, w.end, attrs.ceil_mode);
  CHECK(w.out > 0) << name << ": the kernel is larger than the padded data";
  CHECK(w.begin >= 0 && w.end >= 0 && w.stride > 0 && w.dilation > 0) << name;
  return w;
}

// Combines the elements of every window that are inside the data.
Tensor Windows(const std::string& name, const Tensor& data, const Window& h, const Window& w, Combiner combiner) {
  const Shape& in = data.shape();
  Shape shape = {in[0], h.out, w.out, in[3]};
  return te::Reduce(name, te::NaturalAxes(shape), {{"kh", h.kernel}, {"kw", w.kernel}}, combiner, {data},
                    [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                      Expr y = h.Position(i[1], r[0]), x = w.Position(i[2], r[1]), inside;
                      auto require = [&](const Expr& c) { inside = inside ? And(inside, c) : c; };
                      if (h.reads_before()) require(y >= 0);
                      if (h.reads_after()) require(y < h.in);
                      if (w.reads_before()) require(x >= 0);
                      if (w.reads_after()) require(x < w.in);
                      Expr element = data({i[0], y, x, i[3]});
                      return inside ? MakeSelect(inside, element, te::IdentityOf(combiner, data.dtype())) : element;
                    });
}

// How many positions of window `o` count; a constant where all windows agree.
Expr Count(const Window& w, const Expr& o, bool include_pad) {
  int64_t low = include_pad ? -w.begin : 0, high = include_pad ? w.in + w.end : w.in;
  bool cut_low = low > -w.begin;
  bool cut_high = (w.out - 1) * w.stride - w.begin + (w.kernel - 1) * w.dilation >= high;
  // Positions from the first k with start + k*dilation >= bound.
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
  int64_t out = (ceil_mode ? (room + stride - 1) / stride : room / stride) + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad_begin) --out;
  return out;
}

Tensor MaxPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs) {
  CHECK(data.rank() == 4) << name;
  return Windows(name, data, MakeWindow(name, data.shape(), attrs, 0), MakeWindow(name, data.shape(), attrs, 1),
                 Combiner::kMax);
}

Tensor AvgPool(const std::string& name, const Tensor& data, const PoolAttrs& attrs) {
  CHECK(data.rank() == 4 && data.dtype().IsFloat()) << name;
  Window h = MakeWindow(name, data.shape(), attrs, 0), w = MakeWindow(name, data.shape(), attrs, 1);
  Tensor sum = Windows(name + "_sum", data, h, w, Combiner::kSum);
  return te::Compute(name, sum->axes, {sum}, [&](const std::vector<Expr>& i) {
    Expr count = Count(h, i[1], attrs.count_include_pad) * Count(w, i[2], attrs.count_include_pad);
    const int64_t* constant = AsInt(count);
    if (constant) return sum(i) * FloatConst(1.0 / static_cast<double>(*constant), data.dtype());
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
  return Mul(name, sum, te::Splat({}, 1.0 / count, data.dtype()));
}

Tensor GlobalMaxPool(const std::string& name, const Tensor& data) { return Global(name, data, Combiner::kMax); }

}  // namespace autotune::topi
