#include "topi/winograd.h"

#include <algorithm>
#include <array>
#include <utility>

#include "support/check.h"
#include "support/integer.h"

namespace autotune::topi {
namespace {

using te::Axis;
using Exprs = std::vector<Expr>;

Expr Scaled(double a, const Expr& x) { return ConstOf(a, x.dtype()) * x; }
Expr Fma(double a, const Expr& x, const Expr& y) { return MakeCall(Op::kFma, {ConstOf(a, x.dtype()), x, y}); }

// The one-dimensional transforms for T outputs, without multiplications by 0. The interpolation points are the roots of
// m(x) = x (x^2 - p^2) (x^2 - q^2), or x (x^2 - 1) for T = 2, and infinity. The weights are evaluated at each point and
// divided by the derivative of m there. The data are multiplied by m / (x - point). Output k sums the products times
// point^k; the product at infinity is added to the last output.
constexpr double kP = 5.0 / 8, kQ = 3.0 / 2;

Exprs TransformWeight(int64_t tile, const Exprs& w) {
  auto pair = [&](double point, double derivative) {
    Expr even = Scaled(1 / derivative, Fma(point * point, w[2], w[0])), odd = Scaled(point / derivative, w[1]);
    return std::array<Expr, 2>{even + odd, even - odd};
  };
  if (tile == 2) {
    auto [plus, minus] = pair(1, 2);
    return {w[0], plus, minus, w[2]};
  }
  double pp = kP * kP, qq = kQ * kQ;
  auto [p_plus, p_minus] = pair(kP, 2 * pp * (pp - qq));
  auto [q_plus, q_minus] = pair(kQ, 2 * qq * (qq - pp));
  return {Scaled(1 / (pp * qq), w[0]), p_plus, p_minus, q_plus, q_minus, w[2]};
}

Exprs TransformData(int64_t tile, const Exprs& d) {
  if (tile == 2) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[3] - d[1]};
  double pp = kP * kP, qq = kQ * kQ;
  Expr even_p = Fma(-qq, d[2], d[4]), odd_p = Fma(-qq, d[1], d[3]);
  Expr even_q = Fma(-pp, d[2], d[4]), odd_q = Fma(-pp, d[1], d[3]);
  return {Fma(pp * qq, d[0], Fma(-(pp + qq), d[2], d[4])),
          Fma(kP, odd_p, even_p),
          Fma(-kP, odd_p, even_p),
          Fma(kQ, odd_q, even_q),
          Fma(-kQ, odd_q, even_q),
          Fma(pp * qq, d[1], Fma(-(pp + qq), d[3], d[5]))};
}

Exprs TransformProduct(int64_t tile, const Exprs& m) {
  Expr sum_p = m[1] + m[2], difference_p = m[1] - m[2];
  if (tile == 2) return {m[0] + sum_p, difference_p + m[3]};
  Expr sum_q = m[3] + m[4], difference_q = m[3] - m[4];
  return {m[0] + sum_p + sum_q, Fma(kP, difference_p, Scaled(kQ, difference_q)),
          Fma(kP * kP, sum_p, Scaled(kQ * kQ, sum_q)),
          Fma(kP * kP * kP, difference_p, Fma(kQ * kQ * kQ, difference_q, m[5]))};
}

// Returns forms[index] as selections. If a schedule unrolls the index, simplification leaves one form.
Expr Choose(const Expr& index, const Exprs& forms) {
  Expr e = forms.back();
  for (size_t i = forms.size() - 1; i-- > 0;) e = MakeSelect(Eq(index, Expr(static_cast<int64_t>(i))), forms[i], e);
  return e;
}

template <class Fn>
Exprs Each(int64_t count, const Fn& fn) {
  Exprs list;
  for (int64_t i = 0; i < count; ++i) list.push_back(fn(Expr(i)));
  return list;
}

Tensor Mark(const Tensor& t, WinogradStage stage) { return te::Annotated(t, kWinograd, static_cast<int64_t>(stage)); }

struct Grid {
  int64_t oh, ow;                     // outputs
  int64_t rows, columns;              // tiles
  int64_t images, products, weights;  // bytes after the transforms: data of one tile, results of one tile, all weights
};

Grid GridOf(int64_t tile, const Shape& data, const Shape& weight, const ConvAttrs& attrs) {
  Grid g{};
  g.oh = ConvOutput(data[1], 3, 1, 1, attrs.pad[0], attrs.pad[2]);
  g.ow = ConvOutput(data[2], 3, 1, 1, attrs.pad[1], attrs.pad[3]);
  g.rows = CeilDiv(g.oh, tile);
  g.columns = CeilDiv(g.ow, tile);
  int64_t points = (tile + 2) * (tile + 2);
  g.images = points * data[3] * 4;
  g.products = points * weight[3] * 4;
  g.weights = points * data[3] * weight[3] * 4;
  return g;
}

// Returns the relative time per row of a product of `tiles` rows, with the best register tile. The table has the rows
// of a register tile and its relative time per computed row. Rows beyond the end are computed, too.
double TimePerTile(int64_t tiles) {
  constexpr std::pair<int64_t, double> kRegisterTiles[] = {{6, 1.0}, {5, 1.02}, {4, 1.05}, {14, 1.08}, {7, 1.12}};
  double best = 1e9;
  for (auto [rows, time] : kRegisterTiles) {
    double computed = static_cast<double>(CeilDiv(tiles, rows) * rows);
    best = std::min(best, time * computed / static_cast<double>(tiles));
  }
  return best;
}

}  // namespace

Tensor Conv2dWinograd(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                      const WinogradTiling& tiling) {
  const Shape &in = data.shape(), &kernel = weight.shape();
  const int64_t tile = tiling.tile, points = tile + 2, images = in[0], ic = in[3], oc = kernel[3];
  CHECK(tile == 2 || tile == 4) << name;
  CHECK(in.size() == 4 && attrs.groups == 1) << name;
  CHECK(kernel[0] == 3 && kernel[1] == 3 && kernel[2] == ic) << name;
  CHECK(attrs.stride == (Shape{1, 1}) && attrs.dilation == attrs.stride) << name;
  Grid g = GridOf(tile, in, kernel, attrs);
  CHECK(g.oh > 0 && g.ow > 0) << name << ": the kernel is larger than the padded data";
  // A group has `batch` images, `rows` rows of `columns` tiles of each.
  const bool whole = tiling.rows == 0;
  const int64_t batch = whole ? images : 1;
  const int64_t groups_h = whole ? 1 : CeilDiv(g.rows, tiling.rows), rows = CeilDiv(g.rows, groups_h);
  const int64_t groups_w = whole ? 1 : CeilDiv(g.columns, tiling.columns), columns = CeilDiv(g.columns, groups_w);
  const Axis n{"n", images / batch}, gh{"gh", groups_h}, gw{"gw", groups_w}, t{"t", batch * rows * columns};
  const Axis y{"y", points}, x{"x", points}, c{"c", ic};

  Tensor padded =
      PadForWindows(name + "_pad", data, attrs, {groups_h * rows * tile + 2, groups_w * columns * tile + 2});
  Tensor by_rows = te::Compute(name + "_rows", {n, gh, gw, y, t, {"j", points}, c}, {padded}, [&](const Exprs& i) {
    const Expr& v = i[4];
    Expr image = i[0] * batch + FloorDiv(v, rows * columns);
    Expr top = (i[1] * rows + FloorMod(FloorDiv(v, columns), rows)) * tile;
    Expr left = (i[2] * columns + FloorMod(v, columns)) * tile;
    Exprs column = Each(points, [&](const Expr& k) { return padded({image, top + k, left + i[5], i[6]}); });
    return Choose(i[3], TransformData(tile, column));
  });
  by_rows = Mark(by_rows, WinogradStage::kRows);
  Tensor v = te::Compute(name + "_data", {n, gh, gw, y, x, t, c}, {by_rows}, [&](const Exprs& i) {
    Exprs row = Each(points, [&](const Expr& k) { return by_rows({i[0], i[1], i[2], i[3], i[5], k, i[6]}); });
    return Choose(i[4], TransformData(tile, row));
  });
  v = Mark(v, WinogradStage::kData);
  Tensor weight_rows = te::Compute(name + "_weight_rows", {y, {"j", 3}, c, {"oc", oc}}, {weight}, [&](const Exprs& i) {
    Exprs column = Each(3, [&](const Expr& k) { return weight({k, i[1], i[2], i[3]}); });
    return Choose(i[0], TransformWeight(tile, column));
  });
  weight_rows = Mark(weight_rows, WinogradStage::kWeightRows);
  Tensor u = te::Compute(name + "_weight", {y, x, c, {"oc", oc}}, {weight_rows}, [&](const Exprs& i) {
    Exprs row = Each(3, [&](const Expr& k) { return weight_rows({i[0], k, i[2], i[3]}); });
    return Choose(i[1], TransformWeight(tile, row));
  });
  u = Mark(u, WinogradStage::kWeight);
  Tensor product = te::Reduce(name + "_product", {n, gh, gw, y, x, t, {"oc", oc}}, {c}, te::Combiner::kSum, {v, u},
                              [&](const Exprs& i, const Exprs& r) {
                                return v({i[0], i[1], i[2], i[3], i[4], i[5], r[0]}) * u({i[3], i[4], r[0], i[6]});
                              });
  product = Mark(product, WinogradStage::kProduct);
  Tensor back = te::Compute(name + "_back", {n, gh, gw, {"a", tile}, x, t, {"oc", oc}}, {product}, [&](const Exprs& i) {
    Exprs column = Each(points, [&](const Expr& k) { return product({i[0], i[1], i[2], k, i[4], i[5], i[6]}); });
    return Choose(i[3], TransformProduct(tile, column));
  });
  back = Mark(back, WinogradStage::kBack);
  Tensor out = te::Compute(name, te::NaturalAxes({images, g.oh, g.ow, oc}), {back}, [&](const Exprs& i) {
    Expr row = FloorDiv(i[1], tile), column = FloorDiv(i[2], tile);
    Expr in_group = (FloorMod(i[0], batch) * rows + FloorMod(row, rows)) * columns + FloorMod(column, columns);
    Exprs line = Each(points, [&](const Expr& k) {
      return back({FloorDiv(i[0], batch), FloorDiv(row, rows), FloorDiv(column, columns), FloorMod(i[1], tile), k,
                   in_group, i[3]});
    });
    return Choose(FloorMod(i[2], tile), TransformProduct(tile, line));
  });
  return Mark(out, WinogradStage::kOutput);
}

std::string WinogradObstacle(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
  if (data.size() != 4) return "its images do not have two dimensions";
  if (weight[0] != 3 || weight[1] != 3)
    return "its window is " + std::to_string(weight[0]) + "x" + std::to_string(weight[1]) + ", not 3x3";
  if (attrs.groups != 1) return "it has " + std::to_string(attrs.groups) + " groups";
  for (int d = 0; d < 2; ++d) {
    if (attrs.stride[d] != 1) return "its stride is " + std::to_string(attrs.stride[d]);
    if (attrs.dilation[d] != 1) return "its dilation is " + std::to_string(attrs.dilation[d]);
  }
  // With few channels, the transforms cost more than the products save. The limit is chosen, not derived.
  const int64_t fewest = std::max<int64_t>(16, target.VectorLanes(32));
  if (data[3] < fewest || weight[3] < fewest) return "it has fewer than " + std::to_string(fewest) + " channels";
  const Grid g = GridOf(2, data, weight, attrs);
  return g.oh >= 2 && g.ow >= 2 ? "" : "its result has fewer than 2x2 pixels";
}

bool WinogradApplies(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
  return WinogradObstacle(data, weight, attrs, target).empty();
}

std::optional<WinogradTiling> WinogradGroups(int64_t tile, const Shape& data, const Shape& weight,
                                             const ConvAttrs& attrs, const Target& target) {
  // The least number of tiles that is wanted in a group. With fewer than two register tiles, reading the weights from
  // the shared cache limits the speed. Weights that stay in a core's own cache need one register tile. Groups from half
  // of the wanted size on are considered, since they may waste less at the edges.
  Grid g = GridOf(tile, data, weight, attrs);
  const int64_t fewest = 2 * g.weights <= target.l2_bytes ? 6 : 12;
  // A group fits the L2 cache, and there is at least one for each core: a core then reads only what it has written.
  const int64_t fitting = target.l2_bytes * 9 / 10 / (g.images + g.products), all = data[0] * g.rows * g.columns;
  const int64_t wanted = std::max(fewest, std::min(fitting, CeilDiv(all, target.num_cores)));
  if (all < 2 * wanted) return std::nullopt;
  std::optional<WinogradTiling> best;
  double best_cost = 0;
  for (int64_t a = 1; a <= g.rows; ++a) {
    for (int64_t b = 1; b <= g.columns && 4 * a * b <= 5 * wanted; ++b) {
      int64_t rows = CeilDiv(g.rows, CeilDiv(g.rows, a)), columns = CeilDiv(g.columns, CeilDiv(g.columns, b));
      if (rows != a || columns != b || 2 * a * b < wanted) continue;
      double count = static_cast<double>(a * b);
      double tiles = static_cast<double>(CeilDiv(g.rows, a) * a * CeilDiv(g.columns, b) * b);
      double halo = static_cast<double>((a * tile + 2) * (b * tile + 2)) / count;
      double cost = tiles * (TimePerTile(a * b) + 0.01 * halo + 0.02 * static_cast<double>(wanted) / count);
      if (!best || cost < best_cost) best = {tile, a, b}, best_cost = cost;
    }
  }
  return best;
}

std::optional<WinogradTiling> WinogradWhole(int64_t tile, const Shape& data, const Shape& weight,
                                            const ConvAttrs& attrs, const Target& target) {
  Grid g = GridOf(tile, data, weight, attrs);
  const int64_t largest = std::max(target.l2_bytes, target.l3_bytes);
  if (data[0] * g.rows * g.columns * (g.images + g.products) > largest) return std::nullopt;
  return WinogradTiling{tile, 0, 0};
}

}  // namespace autotune::topi
