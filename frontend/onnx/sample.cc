#include "frontend/onnx/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace autotune::onnx_import {

Result<ValueId> Counted(ImportContext& c, const Shape& shape, int64_t begin, DType type) {
  TRY(c.Reserve(shape));
  std::vector<double> numbers(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(begin));
  return c.builder.AddConstant("", TensorValue::FromNumbers(type, shape, numbers));
}

namespace {

Result<ValueId> Clamped(ImportContext& c, ValueId x, int64_t n) {
  return c.Emit(Op::kClip, {x}, ClipAttrs{0, static_cast<float>(n - 1)});
}

// Reflects positions at both ends of [low, high] until they lie between them. This is a triangular wave of x.
Result<ValueId> Reflected(ImportContext& c, ValueId x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return c.ApplyNumber(Op::kMul, x, 0);
  ValueId u = TRY(c.ApplyNumber(Op::kSub, x, low));
  ValueId waves = TRY(c.Apply(Op::kFloor, TRY(c.ApplyNumber(Op::kMul, u, 0.5 / range))));
  u = TRY(c.Apply(Op::kSub, u, TRY(c.ApplyNumber(Op::kMul, waves, 2 * range))));
  ValueId from_top = TRY(c.Apply(Op::kAbs, TRY(c.ApplyNumber(Op::kSub, u, range))));
  return c.ApplyToNumber(Op::kSub, low + range, from_top);
}

// Returns the weight of Keys' cubic convolution for a distance below 2.
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

}  // namespace

Result<PixelTaps> TapsAlong(ImportContext& c, ValueId position, int64_t n, const Sampling& s) {
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
    ValueId offsets = TRY(Counted(c, {1, 1, cubic ? 4 : 2}, cubic ? -1 : 0, c.Type(position)));
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
  at = TRY(c.Cast(at, kPlaceType));
  return PixelTaps{at, weight};
}

Result<PixelTaps> Combined(ImportContext& c, const PixelTaps& a, const PixelTaps& b, int64_t n) {
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
  weights = TRY(c.Reshape(weights, shape));
  return PixelTaps{places, weights};
}

Status CheckPlaces(const ImportContext& c, ValueId x) {
  if (!c.Type(x).IsFloat()) return Err("is supported on floats, not on ", c.builder.Spec(x).Text());
  if (c.builder.Spec(x).NumElements() > std::numeric_limits<int32_t>::max())
    return Err("the image ", c.builder.Spec(x).Text(), " is too large");
  if (c.builder.Spec(x).NumElements() == 0) return Err("the image ", c.builder.Spec(x).Text(), " has no elements");
  return {};
}

Result<ValueId> AsRows(ImportContext& c, ValueId x) {
  const Shape shape = c.ShapeOfValue(x);
  const int64_t images = shape[0] * shape[1];
  x = TRY(c.Reshape(x, {shape[0], shape[1], c.builder.Spec(x).NumElements() / images}));
  return c.Transpose(x, {0, 2, 1});
}

namespace {

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

// Imports GridSample. The last dimension of the grid holds a position: one number from -1 to 1 for each spatial
// dimension of the image, in reverse order of the dimensions.
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
  const int64_t points = c.builder.Spec(grid).NumElements() / (image[0] * where.back());
  if (points == 0) return Err("the grid ", c.builder.Spec(grid).Text(), " has no elements");
  grid = TRY(c.Reshape(grid, {image[0], points, where.back()}));
  std::optional<PixelTaps> all;
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
    const PixelTaps taps = TRY(TapsAlong(c, g, n, s));
    all = all ? TRY(Combined(c, *all, taps, n)) : taps;
  }
  ValueId weights = TRY(c.Cast(all->weights, c.Type(x))), rows = TRY(AsRows(c, x));
  ValueId y = TRY(c.Emit(Op::kGatherSum, {rows, weights, all->places}));
  return c.Bind(TRY(c.Reshape(TRY(c.Transpose(y, {0, 2, 1})), out)));
}

// Imports AffineGrid: the positions of an image's pixels, from -1 to 1, transformed by a matrix.
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
      base[p * (dims + 1) + dims - 1 - d] = !align_corners ? (2 * i + 1) / extent - 1
                                            : n == 1       ? 0
                                                           : 2 * i / (extent - 1) - 1;
    }
    stride *= n;
  }
  ValueId positions = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(theta), {points, dims + 1}, base));
  ValueId grid = TRY(MatMulValues(c, positions, TRY(c.Transpose(theta, {0, 2, 1}))));
  Shape out(size);
  out.erase(out.begin() + 1);
  out.push_back(dims);
  return c.Bind(TRY(c.Reshape(grid, out)));
}

// The inputs and attributes of a deformable convolution.
struct Deformed {
  int64_t groups = 1, offset_groups = 1, taps = 1;  // `taps`: number of pixels of a window
  Shape image, weight, out;
  Window window;
};

Result<Deformed> ReadDeformed(ImportContext& c) {
  Deformed d;
  d.image = TRY(c.ShapeOf(0));
  d.weight = TRY(c.ShapeOf(1));
  d.out = TRY(c.ShapeOf(2));
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

// Returns the samples of all windows, [batch * offset_groups, out pixels * taps, channels of a group].
Result<ValueId> DeformedSamples(ImportContext& c, ValueId x, const Deformed& d) {
  const int64_t batch = d.image[0] * d.offset_groups, pixels = d.out[2] * d.out[3], points = pixels * d.taps;
  ValueId offset = TRY(c.Reshape(TRY(c.Tensor(2)), {batch, d.taps, 2, pixels}));
  offset = TRY(c.Transpose(offset, {0, 3, 1, 2}));  // [batch, pixels, taps, 2]
  std::optional<PixelTaps> all;
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
    const PixelTaps taps = TRY(TapsAlong(c, TRY(c.Apply(Op::kAdd, moved, from)), d.image[dim + 2], {}));
    all = all ? TRY(Combined(c, *all, taps, d.image[dim + 2])) : taps;
  }
  if (c.Has(4)) {
    ValueId mask = TRY(c.Tensor(4));
    mask = TRY(c.Transpose(TRY(c.Reshape(mask, {batch, d.taps, pixels})), {0, 2, 1}));
    all->weights = TRY(c.Apply(Op::kMul, all->weights, TRY(c.Reshape(mask, {batch, points, 1}))));
  }
  const int64_t channels = d.image[1] / d.offset_groups;
  ValueId rows = TRY(AsRows(c, TRY(c.Reshape(x, {batch, channels, d.image[2], d.image[3]}))));
  ValueId weights = TRY(c.Cast(all->weights, c.Type(x)));
  return c.Emit(Op::kGatherSum, {rows, weights, all->places});
}

// Imports DeformConv, a convolution in which an offset moves each sample of a window. Interpolates the samples, then
// multiplies them by the weights of each group.
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

}  // namespace

const std::vector<OperatorRow>& SampleOperators() {
  static const std::vector<OperatorRow> rows = {
      {"GridSample", 16, 28, ImportGridSample},
      {"AffineGrid", 20, 28, ImportAffineGrid},
      {"DeformConv", 19, 28, ImportDeformConv},
  };
  return rows;
}

}  // namespace autotune::onnx_import
