// Operators that read images at computed positions. Each result element is a sum of a few weighted pixels: taps, whose
// places and weights are computed element-wise, and which gather_sum adds up.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

const DType kPlaceType = DType::Int(32);

enum class Interpolation { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

// The taps along one dimension, or of the whole image: places as i32 and weights, both [batch, points, taps].
struct Taps {
  ValueId places = 0, weights = 0;
};

Result<ValueId> Range(ImportContext& c, const Shape& shape, int64_t begin, DType type) {
  TRY(c.Reserve(shape));
  std::vector<double> numbers(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(begin));
  return c.builder.AddConstant("", TensorValue::FromNumbers(type, shape, numbers));
}

Result<ValueId> Clamped(ImportContext& c, ValueId x, int64_t n) {
  return c.Emit(Op::kClip, {x}, ClipAttrs{0, static_cast<float>(n - 1)});
}

// Mirrors positions at both ends of [low, high] until they lie between: a triangular wave.
Result<ValueId> Reflected(ImportContext& c, ValueId x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return c.ApplyNumber(Op::kMul, x, 0);
  ValueId u = TRY(c.ApplyNumber(Op::kSub, x, low));
  ValueId waves = TRY(c.Apply(Op::kFloor, TRY(c.ApplyNumber(Op::kMul, u, 0.5 / range))));
  u = TRY(c.Apply(Op::kSub, u, TRY(c.ApplyNumber(Op::kMul, waves, 2 * range))));
  ValueId from_top = TRY(c.Apply(Op::kAbs, TRY(c.ApplyNumber(Op::kSub, u, range))));
  return c.ApplyToNumber(Op::kSub, low + range, from_top);
}

// Keys' cubic convolution, of a distance below 2.
Result<ValueId> CubicWeight(ImportContext& c, ValueId s) {
  constexpr double a = -0.75;
  auto times = [&](ValueId x, double y) { return c.ApplyNumber(Op::kMul, x, y); };
  auto plus = [&](ValueId x, double y) { return c.ApplyNumber(Op::kAdd, x, y); };
  ValueId near = TRY(plus(TRY(times(s, a + 2)), -(a + 3)));
  near = TRY(c.Apply(Op::kMul, near, TRY(c.Apply(Op::kMul, s, s))));
  near = TRY(plus(near, 1));
  ValueId far = TRY(plus(TRY(times(s, a)), -5 * a));
  far = TRY(plus(TRY(c.Apply(Op::kMul, far, s)), 8 * a));
  far = TRY(plus(TRY(c.Apply(Op::kMul, far, s)), -4 * a));
  return c.Where(TRY(c.ApplyNumber(Op::kLess, s, 1)), near, far);
}

struct Sampling {
  Interpolation mode = Interpolation::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = false;
};

// The taps of positions [batch, points, 1], in pixels, along a dimension of n pixels.
Result<Taps> TapsAlong(ImportContext& c, ValueId position, int64_t n, const Sampling& s) {
  const double low = s.align_corners ? 0 : -0.5, high = static_cast<double>(n - 1) - low;
  auto placed = [&](ValueId v) -> Result<ValueId> {
    if (s.outside == Outside::kReflection) v = TRY(Reflected(c, v, low, high));
    return s.outside == Outside::kZeros ? v : Clamped(c, v, n);
  };
  if (s.mode == Interpolation::kNearest) {
    position = TRY(c.Apply(Op::kRound, position));
  } else if (s.outside == Outside::kBorder) {
    position = TRY(Clamped(c, position, n));
  } else if (s.outside == Outside::kReflection) {
    position = TRY(Reflected(c, position, low, high));
  }
  ValueId at = position, weight = 0;
  if (s.mode == Interpolation::kNearest) {
    at = TRY(placed(at));
    weight = TRY(c.ApplyNumber(Op::kAdd, TRY(c.ApplyNumber(Op::kMul, at, 0)), 1));
  } else {
    const bool cubic = s.mode == Interpolation::kCubic;
    ValueId offsets = TRY(Range(c, {1, 1, cubic ? 4 : 2}, cubic ? -1 : 0, c.Type(position)));
    at = TRY(c.Apply(Op::kAdd, TRY(c.Apply(Op::kFloor, position)), offsets));
    ValueId distance = TRY(c.Apply(Op::kAbs, TRY(c.Apply(Op::kSub, at, position))));
    weight = cubic ? TRY(CubicWeight(c, distance)) : TRY(c.ApplyToNumber(Op::kSub, 1, distance));
    at = TRY(placed(at));
  }
  if (s.outside == Outside::kZeros) {
    ValueId before = TRY(c.ApplyNumber(Op::kLess, at, 0)), behind = TRY(c.ApplyToNumber(Op::kLess, n - 1, at));
    weight = TRY(c.Where(TRY(c.Apply(Op::kOr, before, behind)), c.Number(0, weight), weight));
    at = TRY(Clamped(c, at, n));
  }
  return Taps{TRY(c.Cast(at, kPlaceType)), weight};
}

// All combinations of the taps of two dimensions, the second of which has n pixels.
Result<Taps> Combined(ImportContext& c, const Taps& a, const Taps& b, int64_t n) {
  auto spread = [&](ValueId v, bool first) {
    Shape shape = c.ShapeOfValue(v);
    shape.insert(first ? shape.end() : shape.end() - 1, 1);
    return c.Reshape(v, shape);
  };
  ValueId rows = TRY(spread(TRY(c.ApplyNumber(Op::kMul, a.places, static_cast<double>(n))), true));
  ValueId places = TRY(c.Apply(Op::kAdd, rows, TRY(spread(b.places, false))));
  ValueId weights = TRY(c.Apply(Op::kMul, TRY(spread(a.weights, true)), TRY(spread(b.weights, false))));
  Shape shape = c.ShapeOfValue(places);
  const int64_t last = shape.back();
  shape.pop_back();
  shape.back() *= last;
  places = TRY(c.Reshape(places, shape));
  return Taps{places, TRY(c.Reshape(weights, shape))};
}

Status CheckPlaces(const ImportContext& c, ValueId x) {
  if (!c.Type(x).IsFloat()) return Err("of ", c.builder.Spec(x).Text(), " is not supported");
  if (c.builder.Spec(x).NumElements() > std::numeric_limits<int32_t>::max())
    return Err("the image ", c.builder.Spec(x).Text(), " is too large");
  return {};
}

// An image [batch, channels, pixels...] as rows of channels: [batch, pixels, channels].
Result<ValueId> AsRows(ImportContext& c, ValueId x) {
  const Shape shape = c.ShapeOfValue(x);
  const int64_t images = shape[0] * shape[1];
  x = TRY(c.Reshape(x, {shape[0], shape[1], c.builder.Spec(x).NumElements() / images}));
  return c.Transpose(x, {0, 2, 1});
}

Result<Sampling> ReadSampling(ImportContext& c) {
  Sampling s;
  s.align_corners = TRY(c.Int("align_corners", 0)) != 0;
  const std::string mode = TRY(c.String("mode", c.opset < 20 ? "bilinear" : "linear"));
  const std::string outside = TRY(c.String("padding_mode", "zeros"));
  if (mode == "nearest") {
    s.mode = Interpolation::kNearest;
  } else if (mode == "bicubic" || mode == "cubic") {
    s.mode = Interpolation::kCubic;
  } else if (mode != "bilinear" && mode != "linear") {
    return Err("mode '", mode, "' is not one of nearest, linear, cubic");
  }
  if (outside == "border") {
    s.outside = Outside::kBorder;
  } else if (outside == "reflection") {
    s.outside = Outside::kReflection;
  } else if (outside != "zeros") {
    return Err("padding_mode '", outside, "' is not one of zeros, border, reflection");
  }
  return s;
}

// The last dimension of the grid names a position from -1 to 1 in each spatial dimension, the last one first.
Status ImportGridSample(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), grid = TRY(c.Tensor(1));
  const Shape image = c.ShapeOfValue(x), where = c.ShapeOfValue(grid);
  if (image.size() < 3 || where.size() != image.size() || where[0] != image[0] ||
      where.back() != static_cast<int64_t>(image.size()) - 2)
    return Err("the grid ", ShapeText(where), " does not fit the image ", ShapeText(image));
  TRY(CheckPlaces(c, x));
  if (!c.Type(grid).IsFloat()) return Err("takes positions that are floats, not ", c.builder.Spec(grid).Text());
  const size_t dims = image.size() - 2;
  const Sampling s = TRY(ReadSampling(c));
  Shape out = {image[0], image[1]};
  out.insert(out.end(), where.begin() + 1, where.end() - 1);
  const int64_t points = c.builder.Spec(grid).NumElements() / std::max<int64_t>(1, image[0] * where.back());
  if (c.builder.Spec(x).NumElements() == 0 || points == 0) return Err("the image or the grid has no elements");
  grid = TRY(c.Reshape(grid, {image[0], points, where.back()}));
  std::optional<Taps> all;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t n = image[d + 2];
    SliceAttrs a{{0, 0, static_cast<int64_t>(dims - 1 - d)}, {image[0], points, 1}, {1, 1, 1}};
    ValueId g = TRY(c.ApplyNumber(Op::kAdd, TRY(c.Emit(Op::kSlice, {grid}, a)), 1));
    if (s.align_corners) {
      g = TRY(c.ApplyNumber(Op::kMul, TRY(c.ApplyNumber(Op::kMul, g, 0.5)), static_cast<double>(n - 1)));
    } else {
      g = TRY(c.ApplyNumber(Op::kSub, TRY(c.ApplyNumber(Op::kMul, g, static_cast<double>(n))), 1));
      g = TRY(c.ApplyNumber(Op::kMul, g, 0.5));
    }
    const Taps taps = TRY(TapsAlong(c, g, n, s));
    all = all ? TRY(Combined(c, *all, taps, n)) : taps;
  }
  ValueId weights = TRY(c.Cast(all->weights, c.Type(x))), rows = TRY(AsRows(c, x));
  ValueId y = TRY(c.Emit(Op::kGatherSum, {rows, weights, all->places}));
  return c.Bind(TRY(c.Reshape(TRY(c.Transpose(y, {0, 2, 1})), out)));
}

// The positions of an image's pixels from -1 to 1, turned by a matrix.
Status ImportAffineGrid(ImportContext& c) {
  ValueId theta = TRY(c.Tensor(0));
  const Shape size = TRY(c.Ints(1, "the size of AffineGrid")), matrix = c.ShapeOfValue(theta);
  const int64_t dims = static_cast<int64_t>(size.size()) - 2;
  if (dims < 2 || dims > 3 || matrix != Shape{size[0], dims, dims + 1} || !c.Type(theta).IsFloat())
    return Err("theta ", c.builder.Spec(theta).Text(), " does not fit an image ", ShapeText(size));
  TRY(CheckSize({c.Type(theta), size}));
  const bool align_corners = TRY(c.Int("align_corners", 0)) != 0;
  const int64_t points = std::accumulate(size.begin() + 2, size.end(), int64_t{1}, std::multiplies<>());
  if (points == 0) return Err("the image ", ShapeText(size), " has no pixels");
  TRY(c.Reserve({points, dims + 1}));
  std::vector<double> base(points * (dims + 1), 1);
  int64_t stride = 1;
  for (int64_t d = dims; d-- > 0;) {
    const int64_t n = size[d + 2];
    for (int64_t p = 0; p < points; ++p) {
      const double i = static_cast<double>(p / stride % n), extent = static_cast<double>(n);
      base[p * (dims + 1) + dims - 1 - d] =
          !align_corners ? (2 * i + 1) / extent - 1 : n == 1 ? 0 : 2 * i / (extent - 1) - 1;
    }
    stride *= n;
  }
  ValueId positions =
      c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(theta), {points, dims + 1}, base));
  ValueId grid = TRY(MatMulValues(c, positions, TRY(c.Transpose(theta, {0, 2, 1}))));
  Shape out(size);
  out.erase(out.begin() + 1);
  out.push_back(dims);
  return c.Bind(TRY(c.Reshape(grid, out)));
}

// Regions of interest: what RoiAlign's attributes and inputs say.
struct Regions {
  int64_t count = 0, batches = 0;
  int64_t bins[2] = {1, 1}, image[2] = {1, 1}, samples[2] = {1, 1};  // rows, then columns; samples of a bin at most
  ValueId rois = 0;
  double scale = 1;
  bool half_pixel = false;
  bool adaptive = false;  // bins have as many samples as they have pixels, rounded up
};

// Begins and extents of all regions along a dimension, [count, 1, 1] each, in pixels.
struct Span {
  ValueId begin = 0, extent = 0;
};
Result<Span> SpanOf(ImportContext& c, const Regions& r, int64_t dim) {
  auto edge = [&](int64_t i) -> Result<ValueId> {
    ValueId v = TRY(c.Emit(Op::kSlice, {r.rois}, SliceAttrs{{0, i}, {r.count, 1}, {1, 1}}));
    v = TRY(c.ApplyNumber(Op::kMul, TRY(c.Reshape(v, {r.count, 1, 1})), r.scale));
    return r.half_pixel ? c.ApplyNumber(Op::kSub, v, 0.5) : v;
  };
  Span span{TRY(edge(1 - dim)), 0};
  span.extent = TRY(c.Apply(Op::kSub, TRY(edge(3 - dim)), span.begin));
  if (!r.half_pixel) span.extent = TRY(c.ApplyNumber(Op::kMax, span.extent, 1));
  return span;
}

// The taps of all samples along a dimension, [count, bins * samples, 2], and how many samples each bin has, [count,
// 1, 1].
struct RegionTaps {
  Taps taps;
  ValueId samples = 0;
};
Result<RegionTaps> TapsOfRegions(ImportContext& c, const Regions& r, int64_t dim) {
  const Span span = TRY(SpanOf(c, r, dim));
  const int64_t bins = r.bins[dim], most = r.samples[dim], n = r.image[dim];
  const DType type = c.Type(r.rois);
  ValueId bin = TRY(c.ApplyNumber(Op::kDiv, span.extent, static_cast<double>(bins)));
  ValueId samples = TRY(c.ApplyNumber(Op::kAdd, TRY(c.ApplyNumber(Op::kMul, bin, 0)), static_cast<double>(most)));
  if (r.adaptive) samples = TRY(c.Apply(Op::kCeil, bin));
  std::vector<double> bin_numbers(bins * most), sample_numbers(bins * most);
  TRY(c.Reserve({2, bins * most}));
  for (int64_t i = 0; i < bins * most; ++i) {
    bin_numbers[i] = static_cast<double>(i / most);
    sample_numbers[i] = static_cast<double>(i % most);
  }
  const Shape along = {1, bins * most, 1};
  ValueId which = c.builder.AddConstant("", TensorValue::FromNumbers(type, along, bin_numbers));
  ValueId sample = c.builder.AddConstant("", TensorValue::FromNumbers(type, along, sample_numbers));
  // begin + (which + (sample + 0.5) / samples) * bin
  ValueId share = TRY(c.Apply(Op::kDiv, TRY(c.ApplyNumber(Op::kAdd, sample, 0.5)), samples));
  ValueId position = TRY(c.Apply(Op::kMul, TRY(c.Apply(Op::kAdd, which, share)), bin));
  position = TRY(c.Apply(Op::kAdd, position, span.begin));
  ValueId before = TRY(c.ApplyNumber(Op::kLess, position, -1));
  ValueId behind = TRY(c.ApplyToNumber(Op::kLess, static_cast<double>(n), position));
  ValueId left_out = TRY(c.Apply(Op::kOr, before, behind));
  if (r.adaptive) {
    ValueId needless = TRY(c.Apply(Op::kLessEqual, samples, sample));
    left_out = TRY(c.Apply(Op::kOr, left_out, needless));
  }
  Taps taps = TRY(TapsAlong(c, position, n, {.outside = Outside::kBorder, .align_corners = true}));
  taps.weights = TRY(c.Where(left_out, c.Number(0, taps.weights), taps.weights));
  return RegionTaps{taps, samples};
}

// [count, ah * sh, 2] and [count, aw * sw, 2] combined to [count, ah * aw, sh * sw * 4].
Result<ValueId> OverBins(ImportContext& c, const Regions& r, ValueId rows, ValueId columns, Op op) {
  rows = TRY(c.Reshape(rows, {r.count, r.bins[0], 1, r.samples[0], 1, 2, 1}));
  columns = TRY(c.Reshape(columns, {r.count, 1, r.bins[1], 1, r.samples[1], 1, 2}));
  ValueId all = TRY(c.Apply(op, rows, columns));
  return c.Reshape(all, {r.count, r.bins[0] * r.bins[1], r.samples[0] * r.samples[1] * 4});
}

Result<Regions> ReadRegions(ImportContext& c, const Shape& image) {
  Regions r{.half_pixel = c.opset >= 16};
  r.rois = TRY(c.Tensor(1));
  const Shape shape = c.ShapeOfValue(r.rois);
  if (image.size() != 4 || shape.size() != 2 || shape[1] != 4 || TRY(c.ShapeOf(2)) != Shape{shape[0]})
    return Err("regions ", ShapeText(shape), " do not fit the image ", ShapeText(image));
  if (shape[0] < 1) return Err("has no regions");
  r.count = shape[0], r.batches = image[0];
  r.image[0] = image[2], r.image[1] = image[3];
  r.scale = TRY(c.Float("spatial_scale", 1));
  const std::string mode = TRY(c.String("coordinate_transformation_mode", "half_pixel"));
  if (mode != "half_pixel" && mode != "output_half_pixel")
    return Err("coordinate_transformation_mode '", mode, "' is neither half_pixel nor output_half_pixel");
  if (mode == "output_half_pixel") r.half_pixel = false;
  r.bins[0] = TRY(c.Int("output_height", 1)), r.bins[1] = TRY(c.Int("output_width", 1));
  const int64_t ratio = TRY(c.Int("sampling_ratio", 0));
  constexpr int64_t kMost = 1 << 12;
  if (std::min({r.bins[0], r.bins[1], ratio + 1}) < 1 || std::max({r.bins[0], r.bins[1], ratio}) > kMost)
    return Err("output_height, output_width or sampling_ratio is not between 1 and ", kMost);
  r.samples[0] = r.samples[1] = ratio;
  r.adaptive = ratio == 0;
  if (!r.adaptive) return r;
  const TensorValue* known = c.Constant(1);
  if (!known) return Err("with sampling_ratio 0 the regions must be constants: they say how many samples there are");
  for (int64_t dim = 0; dim < 2; ++dim) {
    r.samples[dim] = 1;
    for (int64_t i = 0; i < r.count; ++i) {
      double extent = (known->Number(4 * i + 3 - dim) - known->Number(4 * i + 1 - dim)) * r.scale;
      if (!r.half_pixel) extent = std::max(extent, 1.0);
      // A rounding error may make it one more than this.
      const double samples = std::ceil(extent / static_cast<double>(r.bins[dim])) + 1;
      if (!(samples <= kMost)) return Err("a region needs more than ", kMost, " samples of a bin");
      r.samples[dim] = std::max(r.samples[dim], static_cast<int64_t>(samples));
    }
  }
  return r;
}

// Averages (or maxima) of bilinear samples in the bins of regions.
Status ImportRoiAlign(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  TRY(CheckPlaces(c, x));
  const Shape image = c.ShapeOfValue(x);
  const Regions r = TRY(ReadRegions(c, image));
  const std::string mode = TRY(c.String("mode", "avg"));
  if (mode != "avg" && mode != "max") return Err("mode '", mode, "' is neither avg nor max");
  const RegionTaps rows = TRY(TapsOfRegions(c, r, 0)), columns = TRY(TapsOfRegions(c, r, 1));
  ValueId weights = TRY(OverBins(c, r, rows.taps.weights, columns.taps.weights, Op::kMul));
  ValueId lines = TRY(c.ApplyNumber(Op::kMul, rows.taps.places, static_cast<double>(image[3])));
  ValueId places = TRY(OverBins(c, r, lines, columns.taps.places, Op::kAdd));
  ValueId batch = TRY(c.Reshape(TRY(c.Cast(TRY(c.Tensor(2)), kPlaceType)), {r.count, 1, 1}));
  batch = TRY(c.ApplyNumber(Op::kMul, batch, static_cast<double>(image[2] * image[3])));
  places = TRY(c.Apply(Op::kAdd, places, batch));
  const int64_t points = r.count * r.bins[0] * r.bins[1], taps = c.ShapeOfValue(places).back();
  if (mode == "avg") {
    ValueId samples = TRY(c.Apply(Op::kMul, rows.samples, columns.samples));
    weights = TRY(c.Apply(Op::kDiv, weights, TRY(c.ApplyNumber(Op::kMax, samples, 1))));
  }
  weights = TRY(c.Cast(weights, c.Type(x)));
  const Shape pixels = {1, image[0] * image[2] * image[3], image[1]};
  ValueId y = TRY(c.Reshape(TRY(AsRows(c, x)), pixels));
  if (mode == "avg") {
    weights = TRY(c.Reshape(weights, {1, points, taps}));
    y = TRY(c.Emit(Op::kGatherSum, {y, weights, TRY(c.Reshape(places, {1, points, taps}))}));
  } else {  // of the weighted pixels, as ONNX's reference has it
    places = TRY(c.Reshape(places, {points, taps}));
    y = TRY(c.Emit(Op::kGather, {TRY(c.Reshape(y, {pixels[1], pixels[2]})), places}, AxisAttrs{0}));
    y = TRY(c.Apply(Op::kMul, y, TRY(c.Reshape(weights, {points, taps, 1}))));
    y = TRY(c.Reduce(Op::kReduceMax, y, {1}));
  }
  y = TRY(c.Reshape(y, {r.count, r.bins[0], r.bins[1], image[1]}));
  return c.Bind(TRY(c.Transpose(y, {0, 3, 1, 2})));
}

// The largest pixels in the bins of regions, whose edges are rounded to pixels. Rows first, then columns.
Status ImportMaxRoiPool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), rois = TRY(c.Tensor(1));
  const Shape image = c.ShapeOfValue(x), regions = c.ShapeOfValue(rois);
  const std::vector<int64_t> bins = TRY(c.IntList("pooled_shape", {}));
  const double scale = TRY(c.Float("spatial_scale", 1));
  if (image.size() != 4 || regions.size() != 2 || regions[1] != 5 || bins.size() != 2 || regions[0] < 1)
    return Err("regions ", ShapeText(regions), " do not fit the image ", ShapeText(image));
  if (!c.Type(x).IsFloat() || c.Type(x) != c.Type(rois) || std::min(bins[0], bins[1]) < 1)
    return Err("of ", c.builder.Spec(x).Text(), " is not supported");
  const int64_t count = regions[0];
  auto column = [&](int64_t i) -> Result<ValueId> {
    return c.Emit(Op::kSlice, {rois}, SliceAttrs{{0, i}, {count, 1}, {1, 1}});
  };
  auto rounded = [&](int64_t i) -> Result<ValueId> {  // halves away from 0; regions begin at 0
    ValueId v = TRY(c.ApplyNumber(Op::kMul, TRY(column(i)), scale));
    return c.Apply(Op::kFloor, TRY(c.ApplyNumber(Op::kAdd, v, 0.5)));
  };
  ValueId batch = TRY(c.Reshape(TRY(c.Cast(TRY(column(0)), DType::Int(64))), {count}));
  ValueId y = TRY(c.Emit(Op::kGather, {x, batch}, AxisAttrs{0}));
  for (int64_t dim = 0; dim < 2; ++dim) {
    const int64_t n = image[2 + dim], own = bins[dim];
    ValueId begin = TRY(rounded(2 - dim)), end = TRY(rounded(4 - dim));
    ValueId extent = TRY(c.ApplyNumber(Op::kAdd, TRY(c.Apply(Op::kSub, end, begin)), 1));
    extent = TRY(c.ApplyNumber(Op::kMax, extent, 1));
    ValueId bin = TRY(c.ApplyNumber(Op::kDiv, extent, static_cast<double>(own)));
    auto edge = [&](int64_t first, Op rounding) -> Result<ValueId> {  // [count, own]
      ValueId v = TRY(c.Apply(Op::kMul, TRY(Range(c, {1, own}, first, c.Type(x))), bin));
      return c.Apply(Op::kAdd, TRY(c.Apply(rounding, v)), begin);
    };
    ValueId low = TRY(c.Reshape(TRY(edge(0, Op::kFloor)), {count, own, 1}));
    ValueId high = TRY(c.Reshape(TRY(edge(1, Op::kCeil)), {count, own, 1}));
    ValueId at = TRY(Range(c, {1, 1, n}, 0, c.Type(x)));
    ValueId inside = TRY(c.Apply(Op::kLessEqual, low, at));
    inside = TRY(c.Apply(Op::kAnd, inside, TRY(c.Apply(Op::kLess, at, high))));  // [count, own, n]
    // y is [count, channels, rows, columns]; then [count, channels, bins, columns].
    const Shape shape = c.ShapeOfValue(y);
    const Shape mask = dim == 0 ? Shape{count, 1, own, n, 1} : Shape{count, 1, 1, own, n};
    const Shape wide =
        dim == 0 ? Shape{count, shape[1], 1, n, shape[3]} : Shape{count, shape[1], shape[2], 1, n};
    ValueId lowest = c.Number(-std::numeric_limits<double>::infinity(), x);
    y = TRY(c.Where(TRY(c.Reshape(inside, mask)), TRY(c.Reshape(y, wide)), lowest));
    y = TRY(c.Reduce(Op::kReduceMax, y, {dim == 0 ? 3 : 4}));
    y = TRY(c.Reshape(y, dim == 0 ? Shape{count, shape[1], own, shape[3]} : Shape{count, shape[1], shape[2], own}));
  }
  // Empty bins are 0.
  ValueId empty = TRY(c.ApplyNumber(Op::kEqual, y, -std::numeric_limits<double>::infinity()));
  return c.Bind(TRY(c.Where(empty, c.Number(0, y), y)));
}

// What a deformable convolution's inputs and attributes say.
struct Deformed {
  int64_t groups = 1, offset_groups = 1, taps = 1;  // taps of a kernel
  Shape image, weight, out;
  Window window;
};

Result<Deformed> ReadDeformed(ImportContext& c) {
  Deformed d{.image = TRY(c.ShapeOf(0)), .weight = TRY(c.ShapeOf(1)), .out = TRY(c.ShapeOf(2))};
  if (d.image.size() != 4 || d.weight.size() != 4 || d.out.size() != 4)
    return Err("works on images of two dimensions, not ", ShapeText(d.image));
  d.window = TRY(ReadWindow(c, {d.image[2], d.image[3]}, {d.weight[2], d.weight[3]}));
  d.groups = TRY(c.Int("group", 1));
  d.offset_groups = TRY(c.Int("offset_group", 1));
  d.taps = d.weight[2] * d.weight[3];
  const int64_t channels = d.image[1];
  if (d.groups < 1 || d.offset_groups < 1 || channels % d.offset_groups != 0 || d.weight[1] * d.groups != channels ||
      d.weight[0] % d.groups != 0 || d.out[0] != d.image[0] || d.out[1] != 2 * d.offset_groups * d.taps)
    return Err("image ", ShapeText(d.image), ", weight ", ShapeText(d.weight), " and offset ", ShapeText(d.out),
               " do not fit");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span = (d.weight[i + 2] - 1) * d.window.dilations[i] + 1;
    const int64_t room = d.image[i + 2] + d.window.pads[i] + d.window.pads[i + 2] - span;
    if (d.window.strides[i] < 1 || d.window.dilations[i] < 1 || room < 0 ||
        room / d.window.strides[i] + 1 != d.out[i + 2])
      return Err("offset ", ShapeText(d.out), " does not fit the windows of ", ShapeText(d.image));
  }
  return d;
}

// The samples of all windows, [batch * offset_groups, out pixels * taps, channels of a group].
Result<ValueId> DeformedSamples(ImportContext& c, ValueId x, const Deformed& d) {
  const int64_t batch = d.image[0] * d.offset_groups, pixels = d.out[2] * d.out[3], points = pixels * d.taps;
  ValueId offset = TRY(c.Reshape(TRY(c.Tensor(2)), {batch, d.taps, 2, pixels}));
  offset = TRY(c.Transpose(offset, {0, 3, 1, 2}));  // [batch, pixels, taps, 2]
  std::optional<Taps> all;
  for (int64_t dim = 0; dim < 2; ++dim) {
    TRY(c.Reserve({points}));
    std::vector<double> base(points);
    for (int64_t i = 0; i < points; ++i) {
      const int64_t pixel = i / d.taps, tap = i % d.taps;
      const int64_t at = dim == 0 ? pixel / d.out[3] : pixel % d.out[3];
      const int64_t k = dim == 0 ? tap / d.weight[3] : tap % d.weight[3];
      base[i] = static_cast<double>(at * d.window.strides[dim] - d.window.pads[dim] + k * d.window.dilations[dim]);
    }
    ValueId from = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(offset), {1, points, 1}, base));
    SliceAttrs a{{0, 0, 0, dim}, {batch, pixels, d.taps, 1}, {1, 1, 1, 1}};
    ValueId moved = TRY(c.Reshape(TRY(c.Emit(Op::kSlice, {offset}, a)), {batch, points, 1}));
    const Taps taps = TRY(TapsAlong(c, TRY(c.Apply(Op::kAdd, moved, from)), d.image[dim + 2], {}));
    all = all ? TRY(Combined(c, *all, taps, d.image[dim + 2])) : taps;
  }
  if (c.Has(4)) {
    ValueId mask = TRY(c.Tensor(4));
    mask = TRY(c.Transpose(TRY(c.Reshape(mask, {batch, d.taps, pixels})), {0, 2, 1}));
    all->weights = TRY(c.Apply(Op::kMul, all->weights, TRY(c.Reshape(mask, {batch, points, 1}))));
  }
  const int64_t channels = d.image[1] / d.offset_groups;
  ValueId rows = TRY(AsRows(c, TRY(c.Reshape(x, {batch, channels, d.image[2], d.image[3]}))));
  return c.Emit(Op::kGatherSum, {rows, TRY(c.Cast(all->weights, c.Type(x))), all->places});
}

// A convolution whose windows' pixels are moved by an offset each: samples, then a product for each group.
Status ImportDeformConv(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  TRY(CheckPlaces(c, x));
  const Deformed d = TRY(ReadDeformed(c));
  const int64_t rows = d.image[0] * d.out[2] * d.out[3], own = d.weight[1], outputs = d.weight[0] / d.groups;
  ValueId y = TRY(DeformedSamples(c, x, d));
  y = TRY(c.Reshape(y, {d.image[0], d.offset_groups, d.out[2] * d.out[3], d.taps, d.image[1] / d.offset_groups}));
  y = TRY(c.Transpose(y, {0, 2, 3, 1, 4}));
  y = TRY(c.Transpose(TRY(c.Reshape(y, {rows, d.taps, d.groups, own})), {2, 0, 1, 3}));
  y = TRY(c.Reshape(y, {d.groups, rows, d.taps * own}));
  ValueId w = TRY(c.Reshape(TRY(c.Tensor(1)), {d.groups, outputs, own, d.taps}));
  w = TRY(c.Reshape(TRY(c.Transpose(w, {0, 3, 2, 1})), {d.groups, d.taps * own, outputs}));
  y = TRY(MatMulValues(c, y, w));
  y = TRY(c.Transpose(TRY(c.Reshape(y, {d.groups, d.image[0], d.out[2] * d.out[3], outputs})), {1, 0, 3, 2}));
  y = TRY(c.Reshape(y, {d.image[0], d.weight[0], d.out[2], d.out[3]}));
  if (c.Has(3)) {
    ValueId bias = TRY(c.Tensor(3));
    if (c.ShapeOfValue(bias) != Shape{d.weight[0]}) return Err("the bias does not fit ", ShapeText(d.weight));
    y = TRY(c.Apply(Op::kAdd, y, TRY(c.Reshape(bias, {1, d.weight[0], 1, 1}))));
  }
  return c.Bind(y);
}

// Windows of columns, added up where they overlap: each pixel is a sum of the elements that cover it.
Status ImportCol2Im(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape columns = c.ShapeOfValue(x), image = TRY(c.Ints(1, "image_shape")), block = TRY(c.Ints(2, "block_shape"));
  const size_t dims = image.size();
  const std::vector<int64_t> strides = TRY(c.IntList("strides", Shape(dims, 1)));
  const std::vector<int64_t> dilations = TRY(c.IntList("dilations", Shape(dims, 1)));
  const std::vector<int64_t> pads = TRY(c.IntList("pads", Shape(2 * dims, 0)));
  if (!c.Type(x).IsFloat()) return Err("of ", c.builder.Spec(x).Text(), " is not supported");
  if (dims < 1 || block.size() != dims || strides.size() != dims || dilations.size() != dims ||
      pads.size() != 2 * dims || columns.size() != 3)
    return Err("columns ", ShapeText(columns), " do not fit an image ", ShapeText(image));
  Shape windows(dims);
  int64_t pixels = 1, taps = 1, places = 1;
  for (size_t d = 0; d < dims; ++d) {
    constexpr int64_t kMost = 1 << 24;
    for (int64_t n : {image[d], block[d], strides[d], dilations[d], pads[d] + 1, pads[d + dims] + 1}) {
      if (n < 1 || n > kMost) return Err("image_shape, block_shape, strides, dilations or pads hold ", n);
    }
    windows[d] = (image[d] + pads[d] + pads[d + dims] - dilations[d] * (block[d] - 1) - 1) / strides[d] + 1;
    if (windows[d] < 1) return Err("a block ", ShapeText(block), " does not fit the image ", ShapeText(image));
    pixels *= image[d], taps *= block[d], places *= windows[d];
    if (std::max({pixels, taps, places}) > int64_t{1} << 27) return Err("the image ", ShapeText(image), " is too large");
  }
  if (columns[2] != places || columns[1] % taps != 0 || columns[0] < 1 || columns[1] < 1)
    return Err("columns ", ShapeText(columns), " do not fit an image ", ShapeText(image));
  // For each pixel the elements of the columns that lie on it: tap * places + window.
  std::vector<std::vector<int64_t>> sources(pixels);
  TRY(c.Reserve({taps, places}));
  size_t most = 1;
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t place = 0; place < places; ++place) {
      int64_t pixel = 0, stride = 1, t = tap, p = place;
      bool inside = true;
      for (size_t d = dims; d-- > 0; t /= block[d], p /= windows[d]) {
        const int64_t at = p % windows[d] * strides[d] - pads[d] + t % block[d] * dilations[d];
        inside = inside && at >= 0 && at < image[d];
        pixel += at * stride;
        stride *= image[d];
      }
      if (!inside) continue;
      sources[pixel].push_back(tap * places + place);
      most = std::max(most, sources[pixel].size());
    }
  }
  const int64_t width = static_cast<int64_t>(most);
  TRY(c.Reserve({2, pixels, width}));
  std::vector<int32_t> at(pixels * width, 0);
  std::vector<double> weights(pixels * width, 0);
  for (int64_t i = 0; i < pixels; ++i) {
    for (size_t k = 0; k < sources[i].size(); ++k) {
      at[i * width + static_cast<int64_t>(k)] = static_cast<int32_t>(sources[i][k]);
      weights[i * width + static_cast<int64_t>(k)] = 1;
    }
  }
  const int64_t channels = columns[1] / taps, images = columns[0] * channels;
  x = TRY(c.Transpose(TRY(c.Reshape(x, {1, images, taps * places})), {0, 2, 1}));
  ValueId y = TRY(c.Emit(
      Op::kGatherSum,
      {x, c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), {1, pixels, width}, weights)),
       c.builder.AddConstant("", TensorValue::Of<int32_t>({1, pixels, width}, at))}));
  Shape out = {columns[0], channels};
  out.insert(out.end(), image.begin(), image.end());
  return c.Bind(TRY(c.Reshape(TRY(c.Transpose(y, {0, 2, 1})), out)));
}

// The maxima of a pool back at their places, zeros elsewhere.
Status ImportMaxUnpool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), places = TRY(c.Tensor(1));
  const Shape in = c.ShapeOfValue(x);
  if (in.size() < 3 || c.ShapeOfValue(places) != in)
    return Err("places ", c.builder.Spec(places).Text(), " do not fit ", c.builder.Spec(x).Text());
  const size_t dims = in.size() - 2;
  const std::vector<int64_t> kernel = TRY(c.IntList("kernel_shape", {})), strides = TRY(c.IntList("strides", Shape(dims, 1))),
                             pads = TRY(c.IntList("pads", Shape(2 * dims, 0)));
  if (kernel.size() != dims || strides.size() != dims || pads.size() != 2 * dims)
    return Err("kernel_shape, strides or pads do not fit ", ShapeText(in));
  Shape shape = in;
  for (size_t d = 0; d < dims; ++d) {
    constexpr int64_t kMost = 1 << 24;
    for (int64_t n : {kernel[d], strides[d], pads[d] + 1, pads[d + dims] + 1}) {
      if (n < 1 || n > kMost) return Err("kernel_shape, strides or pads hold ", n);
    }
    shape[d + 2] = (in[d + 2] - 1) * strides[d] - pads[d] - pads[d + dims] + kernel[d];
    if (shape[d + 2] < 1) return Err("its result would have no elements");
  }
  TRY(CheckSize({c.Type(x), shape}));
  const int64_t all = TensorSpec{c.Type(x), shape}.NumElements(), count = c.builder.Spec(x).NumElements();
  if (count == 0) return Err("the input has no elements");
  ValueId zeros = TRY(c.Emit(Op::kBroadcastTo, {c.Number(0, x)}, ReshapeAttrs{{all}}));
  x = TRY(c.Reshape(x, {count}));
  ValueId y = TRY(c.Emit(Op::kScatter, {zeros, x, TRY(c.Reshape(places, {count}))}, ScatterAttrs{}));
  y = TRY(c.Reshape(y, shape));
  if (c.Has(2)) {  // cut or padded behind
    const Shape wanted = TRY(c.Ints(2, "output_shape"));
    if (wanted.size() != shape.size()) return Err("output_shape ", ShapeText(wanted), " does not fit ", ShapeText(in));
    PadAttrs a{Shape(shape.size(), 0), Shape(shape.size(), 0), Shape(shape.size(), 0), PadMode::kConstant, 0};
    SliceAttrs cut{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
    for (size_t d = 0; d < shape.size(); ++d) {
      if (wanted[d] < 1) return Err("output_shape ", ShapeText(wanted), " has no elements");
      cut.extent[d] = std::min(shape[d], wanted[d]);
      a.after[d] = wanted[d] - cut.extent[d];
    }
    if (cut.extent != shape) y = TRY(c.Emit(Op::kSlice, {y}, cut));
    if (wanted != shape) y = TRY(c.Emit(Op::kPad, {y}, a));
  }
  return c.Bind(y);
}

}  // namespace

const std::vector<OperatorRow>& SampleOperators() {
  static const std::vector<OperatorRow> rows = {
      {"GridSample", 16, 28, ImportGridSample}, {"AffineGrid", 20, 28, ImportAffineGrid},
      {"RoiAlign", 10, 28, ImportRoiAlign},     {"MaxRoiPool", 1, 28, ImportMaxRoiPool},
      {"DeformConv", 19, 28, ImportDeformConv}, {"Col2Im", 18, 28, ImportCol2Im},
      {"MaxUnpool", 9, 28, ImportMaxUnpool},
  };
  return rows;
}

}  // namespace autotune::onnx_import
