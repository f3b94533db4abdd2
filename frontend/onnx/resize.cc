// Imports Resize and Upsample, one axis after the other. Each output element is a weighted sum of a few input elements
// along the axis, called taps. Their places and weights are known at import.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "frontend/onnx/importer.h"
#include "support/join.h"

namespace autotune::onnx_import {
namespace {

constexpr int64_t kMostTaps = 4;  // most taps of an output element that are gathered; more become a matrix product

struct Rules {
  std::string mode = "nearest", coordinates = "asymmetric", nearest = "floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  bool antialias = false;    // along an axis that shrinks, stretch the filter by the inverse of the scale
  double extrapolation = 0;  // value of the elements outside of the input, for tf_crop_and_resize
};

// The taps of every output element along one axis: element i is the sum over t of weights[t][i] * x[places[t][i]].
struct Taps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<double> outside;  // 1 if output element i lies outside of the input, else 0
};

// One axis: extents of input and output, and their ratio `scale`. `wanted` is the exact length of the output, which
// need not be a whole number. `start` and `end` limit the part of the input that tf_crop_and_resize takes; 0 is the
// first element of the input and 1 the last.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, wanted = 0, start = 0, end = 1;
};

// Returns the position of output element i in the input.
double SourceOf(const Rules& rules, int64_t i, const Axis& axis) {
  const auto [in, out, scale, wanted, start, end] = axis;
  double x = static_cast<double>(i), last = static_cast<double>(in - 1);
  if (rules.coordinates == "tf_crop_and_resize") {
    if (out == 1) return 0.5 * (start + end) * last;
    return start * last + x * (end - start) * last / static_cast<double>(out - 1);
  }
  if (rules.coordinates == "align_corners") return wanted == 1 ? 0 : x * last / (wanted - 1);
  if (rules.coordinates == "asymmetric") return x / scale;
  if (rules.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
  if (rules.coordinates == "pytorch_half_pixel" && wanted <= 1) return 0;
  if (rules.coordinates == "half_pixel_symmetric") {  // the centre of the output lies on that of the input
    const double offset = static_cast<double>(in) / 2 * (1 - static_cast<double>(out) / wanted);
    return offset + (x + 0.5) / scale - 0.5;
  }
  return (x + 0.5) / scale - 0.5;
}

double NearestOf(const std::string& rule, double x) {
  if (rule == "round_prefer_floor") return std::ceil(x - 0.5);
  if (rule == "round_prefer_ceil") return std::floor(x + 0.5);
  return rule == "ceil" ? std::ceil(x) : std::floor(x);
}

// Returns the weights of Keys' cubic convolution for the elements at distances 1+f, f, 1-f, 2-f.
std::array<double, 4> CubicWeights(double f, double a) {
  auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(1 + f), near(f), near(1 - f), far(2 - f)};
}

// Returns the weight of an element at a distance from the sampled position.
double Kernel(const Rules& rules, double distance) {
  const double d = std::abs(distance), a = rules.cubic_a;
  if (rules.mode == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// Returns the number of input elements that an antialiased filter covers on each side of a position.
int64_t ReachOf(const Rules& rules, const Axis& axis) {
  return static_cast<int64_t>(std::ceil((rules.mode == "linear" ? 1 : 2) / axis.scale));
}

// Returns the taps of an axis that shrinks, with a filter that is stretched by 1 / scale.
Taps AntialiasedTaps(const Rules& rules, const Axis& axis) {
  const int64_t reach = ReachOf(rules, axis);
  Taps taps{std::vector<std::vector<int64_t>>(2 * reach), std::vector<std::vector<double>>(2 * reach)};
  for (int64_t i = 0; i < axis.out; ++i) {
    const double x = SourceOf(rules, i, axis), base = std::ceil(x) - 1;  // `base`: element to the left of x
    std::vector<double> weights;
    double sum = 0;
    for (int64_t t = 0; t < 2 * reach; ++t) {
      const double place = base + static_cast<double>(t + 1 - reach);
      const bool outside = place < 0 || place > static_cast<double>(axis.in - 1);
      weights.push_back(rules.exclude_outside && outside ? 0 : Kernel(rules, (place - x) * axis.scale));
      sum += weights.back();
      taps.places[t].push_back(static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(axis.in - 1))));
    }
    for (int64_t t = 0; t < 2 * reach; ++t) taps.weights[t].push_back(weights[t] / sum);
    taps.outside.push_back(rules.coordinates == "tf_crop_and_resize" &&
                           (x < 0 || x > static_cast<double>(axis.in - 1)));
  }
  return taps;
}

bool IsAntialiased(const Rules& rules, const Axis& axis) { return rules.antialias && axis.scale < 1; }

Taps TapsOf(const Rules& rules, const Axis& axis) {
  if (IsAntialiased(rules, axis)) return AntialiasedTaps(rules, axis);
  size_t count = rules.mode == "nearest" ? 1 : rules.mode == "linear" ? 2 : 4;
  Taps taps{std::vector<std::vector<int64_t>>(count), std::vector<std::vector<double>>(count)};
  const auto in = static_cast<double>(axis.in);
  for (int64_t i = 0; i < axis.out; ++i) {
    double x = SourceOf(rules, i, axis), base = std::floor(x), f = x - base;
    std::array<double, 4> weights = {1, 0, 0, 0};
    if (count == 1) base = NearestOf(rules.nearest, x);
    if (count == 2) weights = {1 - f, f, 0, 0};
    if (count == 4) weights = CubicWeights(f, rules.cubic_a), base -= 1;
    double sum = 0;
    for (size_t t = 0; t < count; ++t) {
      double place = base + static_cast<double>(t);
      if (rules.exclude_outside && (place < 0 || place >= in)) weights[t] = 0;
      sum += weights[t];
      taps.places[t].push_back(static_cast<int64_t>(std::clamp(place, 0.0, in - 1)));
    }
    for (size_t t = 0; t < count; ++t) taps.weights[t].push_back(rules.exclude_outside ? weights[t] / sum : weights[t]);
    taps.outside.push_back(rules.coordinates == "tf_crop_and_resize" && (x < 0 || x > in - 1) ? 1 : 0);
  }
  return taps;
}

// Computes the weighted sums of all output elements as a product with a matrix of weights.
Result<ValueId> TapsAsProduct(ImportContext& c, ValueId x, int64_t axis, const Taps& taps) {
  const auto out = static_cast<int64_t>(taps.places[0].size()), in = c.ShapeOfValue(x)[axis];
  TRY(c.Reserve({in, out}));
  std::vector<double> matrix(in * out);
  for (size_t t = 0; t < taps.places.size(); ++t) {
    for (int64_t i = 0; i < out; ++i) matrix[taps.places[t][i] * out + i] += taps.weights[t][i];
  }
  ValueId weights = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), {in, out}, matrix));
  std::vector<int64_t> swap(c.Rank(x));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[axis], swap.back());
  return c.Transpose(TRY(MatMulValues(c, TRY(c.Transpose(x, swap)), weights)), swap);
}

// Returns taps with the same sums, each of which has a weight. Otherwise an infinite element that is not part of a sum
// would make it NaN. The weights of each place are added up: beyond the border all taps read the last element x, and
// x * 2/3 + x * 1/3 may differ from x by a rounding. Each tap that is left over takes half of the largest weight, which
// is exact.
Taps WithoutIdleTaps(Taps taps) {
  const size_t count = taps.places.size();
  for (size_t i = 0; i < taps.places[0].size(); ++i) {
    std::vector<std::pair<int64_t, double>> used;  // distinct places and their weights
    for (size_t t = 0; t < count; ++t) {
      const int64_t place = taps.places[t][i];
      const auto same = std::find_if(used.begin(), used.end(), [&](const auto& tap) { return tap.first == place; });
      if (same != used.end()) {
        same->second += taps.weights[t][i];
      } else if (taps.weights[t][i] != 0) {
        used.emplace_back(place, taps.weights[t][i]);
      }
    }
    if (used.empty()) continue;
    while (used.size() < count) {
      const auto heaviest = std::max_element(used.begin(), used.end(), [](const auto& a, const auto& b) {
        return std::abs(a.second) < std::abs(b.second);
      });
      heaviest->second /= 2;
      used.push_back(*heaviest);
    }
    for (size_t t = 0; t < count; ++t) std::tie(taps.places[t][i], taps.weights[t][i]) = used[t];
  }
  return taps;
}

Result<ValueId> GatheredTaps(ImportContext& c, ValueId x, int64_t axis, const Taps& taps) {
  int64_t n = static_cast<int64_t>(taps.places[0].size());
  Shape along(c.Rank(x), 1);
  along[axis] = n;
  std::optional<ValueId> sum;
  for (size_t t = 0; t < taps.places.size(); ++t) {
    ValueId places = c.builder.AddConstant("", TensorValue::Of<int64_t>({n}, taps.places[t]));
    ValueId part = TRY(c.Emit(Op::kGather, {x, places}, AxisAttrs{axis}));
    if (taps.places.size() > 1) {
      ValueId weights = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), along, taps.weights[t]));
      part = TRY(c.Apply(Op::kMul, part, weights));
    }
    sum = sum ? TRY(c.Apply(Op::kAdd, *sum, part)) : part;
  }
  return *sum;
}

Result<ValueId> ResizeAxis(ImportContext& c, const Rules& rules, ValueId x, int64_t axis, const Taps& taps) {
  const bool few = static_cast<int64_t>(taps.places.size()) <= kMostTaps;
  ValueId sum = few ? TRY(GatheredTaps(c, x, axis, WithoutIdleTaps(taps))) : TRY(TapsAsProduct(c, x, axis, taps));
  if (std::find(taps.outside.begin(), taps.outside.end(), 1) == taps.outside.end()) return sum;
  Shape along(c.Rank(x), 1);
  along[axis] = static_cast<int64_t>(taps.outside.size());
  ValueId outside = c.builder.AddConstant("", TensorValue::FromNumbers(DType::Bool(), along, taps.outside));
  return c.Where(outside, c.Number(rules.extrapolation, x), sum);
}

// Resizes input 0 and binds the result. `scales` or `sizes` has one number per dimension; if both are given, the scales
// determine the positions of output elements. `box` is empty, or holds the starts of all dimensions, then the ends.
Status BindResized(ImportContext& c, const Rules& rules, const std::vector<double>& scales,
                   const std::vector<int64_t>& sizes, const std::vector<double>& box = {}) {
  ValueId x = TRY(c.Tensor(0));
  if (rules.mode != "nearest" && !c.Type(x).IsFloat())
    return Err("interpolates ", c.builder.Spec(x).Text(), "; only floats are supported");
  Shape in = c.ShapeOfValue(x);
  size_t given = sizes.empty() ? scales.size() : sizes.size();
  if (given != in.size()) return Err("has ", given, " scales or sizes for ", ShapeText(in));
  for (size_t d = 0; d < in.size(); ++d) {
    if (in[d] == 0) {
      if (!sizes.empty() && sizes[d] != 0)
        return Err("cannot make ", sizes[d], " elements of dimension ", d, " of ", ShapeText(in), ", which has none");
      continue;
    }
    double scale = !scales.empty() ? scales[d] : static_cast<double>(sizes[d]) / static_cast<double>(in[d]);
    Axis axis{.in = in[d], .scale = scale, .wanted = scale * static_cast<double>(in[d])};
    if (!box.empty()) {
      axis.start = box[d], axis.end = box[in.size() + d];
      if (sizes.empty()) axis.wanted *= axis.end - axis.start;
    }
    // Add 1e-6 before rounding down, since scales such as 0.6 are not exact in binary.
    double out = sizes.empty() ? std::floor(axis.wanted + 1e-6) : static_cast<double>(sizes[d]);
    if (!(scale > 0) || !(out >= 1) || out > 1 << 24)
      return Err("makes ", out, " elements of dimension ", d, " of ", ShapeText(in));
    if (scale == 1 && axis.start == 0 && axis.end == 1) continue;
    axis.out = static_cast<int64_t>(out);
    const int64_t taps = IsAntialiased(rules, axis) ? 2 * ReachOf(rules, axis) : kMostTaps;
    TRY(c.Reserve({taps, axis.out}));
    x = TRY(ResizeAxis(c, rules, x, static_cast<int64_t>(d), TapsOf(rules, axis)));
  }
  return c.Bind(x);
}

// Returns the constant floats of an input; `what` names them in the error.
Result<std::vector<double>> Floats(ImportContext& c, size_t input, const char* what = "the scales") {
  const TensorValue* value = c.Constant(input);
  if (!value) return Err(what, " are computed at run time; they must be constants");
  if (!value->spec.dtype.IsFloat()) return Err(what, " must be floats");
  std::vector<double> numbers;
  for (int64_t i = 0; i < value->spec.NumElements(); ++i) numbers.push_back(value->Number(i));
  return numbers;
}

Status CheckOneOf(const std::string& value, const char* what, std::initializer_list<const char*> known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return {};
  return Err(what, " '", value, "' is not one of ", Joined(known));
}

// Returns the dimensions to which roi, scales and sizes apply: all or, since operator set 18, those of attribute
// `axes`.
Result<std::vector<int64_t>> ResizedAxes(const ImportContext& c) {
  const auto rank = static_cast<int64_t>(TRY(c.ShapeOf(0)).size());
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.opset < 18 || !c.HasAttr("axes")) return axes;
  axes = TRY(c.IntList("axes", {}));
  for (int64_t& axis : axes) axis = TRY(NormalizeAxis(axis, static_cast<int>(rank)));
  if (std::set<int64_t>(axes.begin(), axes.end()).size() != axes.size()) return Err("names an axis twice");
  return axes;
}

// Returns one number for each dimension: those of `numbers` for the axes, and `rest` for the others.
template <class T>
Result<std::vector<T>> Spread(const ImportContext& c, const std::vector<T>& numbers, const std::vector<int64_t>& axes,
                              T rest) {
  const Shape in = TRY(c.ShapeOf(0));
  if (numbers.size() != axes.size())
    return Err("has ", numbers.size(), " scales or sizes for ", axes.size(), " axes of ", ShapeText(in));
  std::vector<T> all(in.size(), rest);
  for (size_t i = 0; i < axes.size(); ++i) all[axes[i]] = numbers[i];
  return all;
}

// Extends `sizes` from the listed axes to all dimensions. If attribute keep_aspect_ratio_policy asks to keep the aspect
// ratio, sets `scales` to one scale for all listed axes, and computes `sizes` from it.
Status FitSizes(const ImportContext& c, const std::vector<int64_t>& axes, std::vector<int64_t>& sizes,
                std::vector<double>& scales) {
  const Shape in = TRY(c.ShapeOf(0));
  std::string policy = c.opset < 18 ? "stretch" : TRY(c.String("keep_aspect_ratio_policy", "stretch"));
  TRY(CheckOneOf(policy, "keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"}));
  const std::vector<int64_t> wanted = sizes;
  sizes = in;
  const std::vector<int64_t> spread = TRY(Spread<int64_t>(c, wanted, axes, 0));
  for (int64_t axis : axes) sizes[axis] = spread[axis];
  if (policy == "stretch") return {};
  std::optional<double> scale;
  for (int64_t axis : axes) {
    if (in[axis] == 0) return Err("cannot keep the aspect ratio of ", ShapeText(in), ", since an extent is 0");
    const double own = static_cast<double>(sizes[axis]) / static_cast<double>(in[axis]);
    scale = !scale ? own : policy == "not_larger" ? std::min(*scale, own) : std::max(*scale, own);
  }
  scales.assign(in.size(), 1);
  for (int64_t axis : axes) {
    scales[axis] = *scale;
    const double size = std::floor(*scale * static_cast<double>(in[axis]) + 0.5);
    if (!(size >= 1 && size <= 1 << 24)) return Err("makes ", size, " elements of dimension ", axis);
    sizes[axis] = static_cast<int64_t>(size);
  }
  return {};
}

Status ImportResize(ImportContext& c) {
  Rules rules;
  rules.mode = TRY(c.String("mode", "nearest"));
  TRY(CheckOneOf(rules.mode, "mode", {"nearest", "linear", "cubic"}));
  if (c.opset < 11) return BindResized(c, rules, TRY(Floats(c, 1)), {});
  rules.coordinates = TRY(c.String("coordinate_transformation_mode", "half_pixel"));
  TRY(CheckOneOf(rules.coordinates, "coordinate_transformation_mode",
                 {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                  "tf_crop_and_resize", "half_pixel_symmetric"}));
  rules.nearest = TRY(c.String("nearest_mode", "round_prefer_floor"));
  TRY(CheckOneOf(rules.nearest, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  rules.cubic_a = TRY(c.Float("cubic_coeff_a", -0.75f));
  rules.antialias = c.opset >= 18 && TRY(c.Int("antialias", 0)) != 0 && rules.mode != "nearest";
  rules.exclude_outside = TRY(c.Int("exclude_outside", 0)) != 0 && (rules.mode == "cubic" || rules.antialias);
  const std::vector<int64_t> axes = TRY(ResizedAxes(c));
  std::vector<int64_t> sizes;
  std::vector<double> scales;
  if (c.Has(3)) sizes = TRY(c.Ints(3, "the sizes of Resize"));
  if (sizes.empty()) {
    scales = TRY(Spread<double>(c, TRY(Floats(c, 2)), axes, 1));
  } else {
    TRY(FitSizes(c, axes, sizes, scales));
  }
  if (rules.coordinates != "tf_crop_and_resize") return BindResized(c, rules, scales, sizes);
  rules.extrapolation = TRY(c.Float("extrapolation_value", 0));
  std::vector<double> given = TRY(Floats(c, 1, "the starts and ends of roi"));
  if (given.size() != 2 * axes.size())
    return Err("roi has ", given.size(), " numbers, not a start and an end per dimension of ", axes.size());
  const auto middle = given.begin() + static_cast<int64_t>(axes.size());
  std::vector<double> box = TRY(Spread<double>(c, {given.begin(), middle}, axes, 0));
  const std::vector<double> ends = TRY(Spread<double>(c, {middle, given.end()}, axes, 1));
  box.insert(box.end(), ends.begin(), ends.end());
  for (double bound : box) {
    if (!(std::abs(bound) <= 1 << 24))
      return Err("roi holds ", bound, ", which is not between ", -(1 << 24), " and ", 1 << 24);
  }
  return BindResized(c, rules, scales, sizes, box);
}

Status ImportUpsample(ImportContext& c) {
  Rules rules;
  rules.mode = TRY(c.String("mode", "nearest"));
  TRY(CheckOneOf(rules.mode, "mode", {"nearest", "linear"}));
  if (c.opset >= 9) return BindResized(c, rules, TRY(Floats(c, 1)), {});
  std::vector<float> scales = TRY(c.FloatList("scales", {}));
  return BindResized(c, rules, {scales.begin(), scales.end()}, {});
}

}  // namespace

const std::vector<OperatorRow>& ResizeOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Resize", 10, 28, ImportResize},
      {"Upsample", 7, 9, ImportUpsample},
  };
  return rows;
}

}  // namespace autotune::onnx_import
