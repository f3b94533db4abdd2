#include "topi/winograd.h"

#include <algorithm>
#include <array>
#include <bit>
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

// ---- The guard ----

const DType kBits = DType::Int(32);  // magnitudes; see WinogradStage
constexpr int kMantissaBits = 23, kExponentBias = 127;
constexpr int64_t kLimit = int64_t{kTameExponent + kExponentBias} << kMantissaBits;
constexpr int64_t kPeakLaneCount = 16;   // lanes of kPeakLanes: whole vectors on every target, and few to combine
constexpr int64_t kPeakFoldedLanes = 4;  // the shortest vector of all targets
// Groups of channels that must each have a large number: the lanes of the fold, so that they cost nothing. Group g has
// the channels g, g + kGroups, ...
constexpr int64_t kGroups = kPeakFoldedLanes;

Expr Word(int64_t value) { return IntConst(value, kBits); }
Expr Magnitude(const Expr& x) {
  return MakeBinary(BinaryOp::kBitAnd, MakeExpr(kBits, Call{Op::kReinterpret, {x}}), Word(0x7fffffff));
}
Expr Flag(const Expr& condition) { return MakeSelect(condition, Word(1), Word(0)); }
// Returns true if `most` is tame, and at most 2^exponent times `least`.
Expr IsTame(const Expr& most, const Expr& least, int exponent) {
  return And(most < Word(kLimit), most <= least + Word(int64_t{exponent} << kMantissaBits));
}

// Returns a tensor of one element: 1 if all weights are tame, else 0.
Tensor TameWeights(const std::string& name, const Tensor& weight) {
  const Axis oc{"oc", weight.shape()[3]};
  const int64_t channels = weight.shape()[2];
  Tensor peak =
      te::Reduce(name + "_weight_peak", {{"kh", 3}, {"kw", 3}, {"g", kGroups}, oc}, {{"c", CeilDiv(channels, kGroups)}},
                 te::Combiner::kMax, {weight}, [&](const Exprs& i, const Exprs& r) {
                   const Expr channel = r[0] * kGroups + i[2];
                   const Expr bits = Magnitude(weight({i[0], i[1], channel, i[3]}));
                   if (channels % kGroups == 0) return bits;
                   return MakeSelect(channel < channels, bits, te::IdentityOf(te::Combiner::kMax, kBits));
                 });
  peak = Mark(peak, WinogradStage::kWeightPeak);
  Tensor range = te::Compute(name + "_weight_range", {oc}, {peak}, [&](const Exprs& i) {
    Expr most = Word(0), least = Word(kLimit);
    for (int64_t k = 0; k < 9 * kGroups; ++k) {
      const Expr tap = peak({k / kGroups / 3, k / kGroups % 3, k % kGroups, i[0]});
      most = Max(most, tap);
      least = Min(least, tap);
    }
    return Flag(IsTame(most, least, kTameWeights));
  });
  range = Mark(range, WinogradStage::kWeightRange);
  Tensor tame = te::Reduce(name + "_weight_tame", {{"one", 1}}, {oc}, te::Combiner::kMin, {range},
                           [&](const Exprs&, const Exprs& r) { return range({r[0]}); });
  return Mark(tame, WinogradStage::kWeightTame);
}

// Returns, for each cell, the largest magnitude of the data (kHighest), and the negative of the largest one of the
// group whose largest one is least (kLowest). Cell (y, x) has the rows 2 y - 1 and 2 y of the padded data, and likewise
// for columns. Padding counts as nothing.
constexpr int64_t kHighest = 0, kLowest = 1;
Tensor CellPeaks(const std::string& name, const Tensor& data, const ConvAttrs& attrs, int64_t rows, int64_t columns) {
  const Shape& in = data.shape();
  const int64_t lanes = kPeakLaneCount;
  const Axis n{"n", in[0]}, y{"y", rows}, x{"x", columns};
  Tensor peaks =
      te::Reduce(name + "_peak_lanes", {n, y, x, {"l", lanes}}, {{"dy", 2}, {"dx", 2}, {"k", CeilDiv(in[3], lanes)}},
                 te::Combiner::kMax, {data}, [&](const Exprs& i, const Exprs& r) {
                   const Expr row = i[1] * 2 + r[0] - (1 + attrs.pad[0]), column = i[2] * 2 + r[1] - (1 + attrs.pad[1]);
                   const Expr channel = r[2] * lanes + i[3];
                   Expr inside = And(And(row >= 0, row < in[1]), And(column >= 0, column < in[2]));
                   if (in[3] % lanes != 0) inside = And(inside, channel < in[3]);
                   return MakeSelect(inside, Magnitude(data({i[0], row, column, channel})),
                                     te::IdentityOf(te::Combiner::kMax, kBits));
                 });
  peaks = Mark(peaks, WinogradStage::kPeakLanes);
  const int64_t folded = kPeakFoldedLanes;
  Tensor fold = te::Reduce(name + "_peak_fold", {n, y, x, {"f", folded}}, {{"l", lanes / folded}}, te::Combiner::kMax,
                           {peaks}, [&](const Exprs& i, const Exprs& r) {
                             return peaks({i[0], i[1], i[2], r[0] * folded + i[3]});
                           });
  fold = Mark(fold, WinogradStage::kPeakFold);
  Tensor peak = te::Reduce(name + "_peak", {n, y, x, {"end", 2}}, {{"f", folded}}, te::Combiner::kMax, {fold},
                           [&](const Exprs& i, const Exprs& r) {
                             const Expr of_group = fold({i[0], i[1], i[2], r[0]});
                             return MakeSelect(Eq(i[3], Expr(kHighest)), of_group, Word(0) - of_group);
                           });
  return Mark(peak, WinogradStage::kPeak);
}

// Where tile t of group (gh, gw) of a batch lies: its image, and its row and column among all tiles of the image.
struct Tiles {
  int64_t tile, batch;    // outputs along a side of a tile; images of a group
  int64_t rows, columns;  // of tiles in a group
  Expr Image(const Expr& n, const Expr& t) const { return n * batch + FloorDiv(t, rows * columns); }
  Expr Row(const Expr& gh, const Expr& t) const { return gh * rows + FloorMod(FloorDiv(t, columns), rows); }
  Expr Column(const Expr& gw, const Expr& t) const { return gw * columns + FloorMod(t, columns); }
};

// Returns 1 for each tile that is tame, if the weights are tame, too; else 0. `axes`: n, gh, gw, t.
Tensor TameTiles(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                 const Tiles& tiles, const Grid& g, const std::vector<Axis>& axes) {
  const int64_t tile = tiles.tile;
  const int64_t cells = tile / 2;  // of a tile, along rows and columns; there is one more on each side
  const Tensor peak =
      CellPeaks(name, data, attrs, axes[1].extent * tiles.rows * cells + 2, axes[2].extent * tiles.columns * cells + 2);
  const Tensor tame_weights = TameWeights(name, weight);
  Tensor tame = te::Compute(name + "_tame", axes, {peak, tame_weights}, [&](const Exprs& i) {
    const Expr row = tiles.Row(i[1], i[3]), column = tiles.Column(i[2], i[3]);
    Expr most = Word(0), least = Word(kLimit);
    for (int64_t a = 0; a < cells + 2; ++a) {
      for (int64_t b = 0; b < cells + 2; ++b) {
        const Exprs place = {tiles.Image(i[0], i[3]), row * cells + a, column * cells + b};
        most = Max(most, peak({place[0], place[1], place[2], kHighest}));
        if (a == 0 || b == 0 || a > cells || b > cells) continue;
        // The windows of the outputs 2 a - 2 and 2 a - 1 of the tile contain the cell. It does not count if these
        // outputs do not exist.
        const Expr exists = And(row * tile + (2 * a - 2) < g.oh, column * tile + (2 * b - 2) < g.ow);
        const Expr lowest = Word(0) - peak({place[0], place[1], place[2], kLowest});
        least = Min(least, MakeSelect(exists, lowest, Word(kLimit)));
      }
    }
    const int limit = tile == 2 ? kTameTile2 : kTameTile4;
    return MakeSelect(IsTame(most, least, limit), tame_weights({Expr(int64_t{0})}), Word(0));
  });
  return Mark(tame, WinogradStage::kTame);
}

// Returns the direct sums of the tiles that are not tame, and zeros for the others. `axes`: n, gh, gw, t.
Tensor DirectSums(const std::string& name, const Tensor& data, const Tensor& weight, const Tensor& tame,
                  const ConvAttrs& attrs, const Tiles& tiles, std::vector<Axis> axes) {
  const Shape& in = data.shape();
  const int64_t tile = tiles.tile;
  for (const Axis& axis : {Axis{"a", tile}, {"b", tile}, {"oc", weight.shape()[3]}}) axes.push_back(axis);
  Tensor direct = te::Reduce(name + "_direct", axes, {{"kh", 3}, {"kw", 3}, {"c", in[3]}}, te::Combiner::kSum,
                             {tame, data, weight}, [&](const Exprs& i, const Exprs& r) {
                               const Expr row = tiles.Row(i[1], i[3]) * tile + i[4] + r[0] - attrs.pad[0];
                               const Expr column = tiles.Column(i[2], i[3]) * tile + i[5] + r[1] - attrs.pad[1];
                               Expr used = Eq(tame({i[0], i[1], i[2], i[3]}), Word(0));
                               used = And(used, And(And(row >= 0, row < in[1]), And(column >= 0, column < in[2])));
                               const Expr x = data({tiles.Image(i[0], i[3]), row, column, r[2]});
                               return MakeSelect(used, x, ConstOf(0, x.dtype())) * weight({r[0], r[1], r[2], i[6]});
                             });
  return Mark(direct, WinogradStage::kDirect);
}

}  // namespace

bool AreTameWeights(std::span<const float> weights, int64_t oc) {
  const size_t columns = static_cast<size_t>(oc), channels = weights.size() / 9 / columns;
  for (size_t column = 0; column < columns; ++column) {
    std::array<int64_t, 9 * kGroups> peaks{};
    for (size_t k = 0; k < 9 * channels; ++k) {
      int64_t& peak = peaks[k / channels * kGroups + k % channels % kGroups];
      peak = std::max<int64_t>(peak, std::bit_cast<uint32_t>(weights[k * columns + column]) & 0x7fffffff);
    }
    const auto [low, high] = std::minmax_element(peaks.begin(), peaks.end());
    const int64_t least = *low, most = *high;
    if (most >= kLimit || most > least + (int64_t{kTameWeights} << kMantissaBits)) return false;
  }
  return true;
}

Tensor Conv2dWinograd(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs,
                      const WinogradTiling& tiling) {
  const Shape &in = data.shape(), &kernel = weight.shape();
  const int64_t tile = tiling.tile, points = tile + 2, images = in[0], ic = in[3], oc = kernel[3];
  CHECK(tile == 2 || tile == 4) << name;
  CHECK(in.size() == 4 && attrs.groups == 1) << name;
  CHECK(data.dtype() == DType::Float(32) && weight.dtype() == data.dtype()) << name;
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

  const Tiles tiles{tile, batch, rows, columns};
  const std::vector<Axis> tile_axes = {n, gh, gw, t};
  const Tensor tame = TameTiles(name, data, weight, attrs, tiles, g, tile_axes);

  Tensor padded =
      PadForWindows(name + "_pad", data, attrs, {groups_h * rows * tile + 2, groups_w * columns * tile + 2});
  Tensor by_rows = te::Compute(name + "_rows", {n, gh, gw, y, t, {"j", points}, c}, {padded}, [&](const Exprs& i) {
    const Expr& v = i[4];
    Expr image = tiles.Image(i[0], v), top = tiles.Row(i[1], v) * tile, left = tiles.Column(i[2], v) * tile;
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
  const Tensor direct = DirectSums(name, data, weight, tame, attrs, tiles, tile_axes);
  Tensor out = te::Compute(name, te::NaturalAxes({images, g.oh, g.ow, oc}), {back, tame, direct}, [&](const Exprs& i) {
    Expr row = FloorDiv(i[1], tile), column = FloorDiv(i[2], tile);
    Expr in_group = (FloorMod(i[0], batch) * rows + FloorMod(row, rows)) * columns + FloorMod(column, columns);
    Exprs line = Each(points, [&](const Expr& k) {
      return back({FloorDiv(i[0], batch), FloorDiv(row, rows), FloorDiv(column, columns), FloorMod(i[1], tile), k,
                   in_group, i[3]});
    });
    const Expr a = FloorMod(i[1], tile), b = FloorMod(i[2], tile);
    const Exprs place = {FloorDiv(i[0], batch), FloorDiv(row, rows), FloorDiv(column, columns), in_group};
    return MakeSelect(Eq(tame(place), Word(1)), Choose(b, TransformProduct(tile, line)),
                      direct({place[0], place[1], place[2], place[3], a, b, i[3]}));
  });
  return Mark(out, WinogradStage::kOutput);
}

std::string WinogradObstacle(const Shape& window, const ConvAttrs& attrs) {
  if (window.size() != 2) return "its images do not have two dimensions";
  if (window != Shape{3, 3})
    return "its window is " + std::to_string(window[0]) + "x" + std::to_string(window[1]) + ", not 3x3";
  if (attrs.groups != 1) return "it has " + std::to_string(attrs.groups) + " groups";
  for (int d = 0; d < 2; ++d) {
    if (attrs.stride[d] != 1) return "its stride is " + std::to_string(attrs.stride[d]);
    if (attrs.dilation[d] != 1) return "its dilation is " + std::to_string(attrs.dilation[d]);
  }
  return "";
}

std::string WinogradObstacle(const Shape& data, const Shape& weight, const ConvAttrs& attrs, const Target& target) {
  const std::string obstacle = WinogradObstacle(Shape(weight.begin(), weight.end() - 2), attrs);
  if (!obstacle.empty()) return obstacle;
  const int64_t fewest = std::max<int64_t>(kFewestWinogradChannels, target.VectorLanes(32));
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
