// Resize and Upsample: each output element of an axis is a weighted sum of a few input elements, at places known here.
#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

constexpr int64_t kMostTaps = 4;  // input elements per output element, at most (cubic interpolation)

struct Rules {
  std::string mode = "nearest", coordinates = "asymmetric", nearest = "floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;
  double extrapolation = 0;  // what tf_crop_and_resize finds outside of the input
};

// The taps of every output element along one axis: element i is the sum over t of weights[t][i] * x[places[t][i]].
struct Taps {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<double> outside;  // whether element i lies outside of the input: 1 or 0
};

// One axis. `wanted`: the exact length of the output, which need not be whole. `start` and `end`: the part of the input
// that tf_crop_and_resize takes, its first element at 0 and its last at 1.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, wanted = 0, start = 0, end = 1;
};

// Where output element i lies among the input's.
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
  return (x + 0.5) / scale - 0.5;
}

double NearestOf(const std::string& rule, double x) {
  if (rule == "round_prefer_floor") return std::ceil(x - 0.5);
  if (rule == "round_prefer_ceil") return std::floor(x + 0.5);
  return rule == "ceil" ? std::ceil(x) : std::floor(x);
}

// Keys' cubic convolution, for the elements at distances 1+f, f, 1-f, 2-f.
std::array<double, 4> CubicWeights(double f, double a) {
  auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(1 + f), near(f), near(1 - f), far(2 - f)};
}

Taps TapsOf(const Rules& rules, const Axis& axis) {
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

Result<ValueId> ResizeAxis(ImportContext& c, const Rules& rules, ValueId x, int64_t axis, const Taps& taps) {
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
  if (std::find(taps.outside.begin(), taps.outside.end(), 1) == taps.outside.end()) return *sum;
  ValueId outside = c.builder.AddConstant("", TensorValue::FromNumbers(DType::Bool(), along, taps.outside));
  return c.Where(outside, c.Number(rules.extrapolation, x), *sum);
}

// `scales` or `sizes`: one number per dimension. `box`: none, or first all starts, then all ends.
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
        return Err("makes ", sizes[d], " elements of dimension ", d, " of ", ShapeText(in), ", which has none");
      continue;
    }
    double scale = sizes.empty() ? scales[d] : static_cast<double>(sizes[d]) / static_cast<double>(in[d]);
    Axis axis{.in = in[d], .scale = scale, .wanted = scale * static_cast<double>(in[d])};
    if (!box.empty()) {
      axis.start = box[d], axis.end = box[in.size() + d];
      if (sizes.empty()) axis.wanted *= axis.end - axis.start;
    }
    // A hair more, for scales such as 0.6 that binary fractions miss.
    double out = sizes.empty() ? std::floor(axis.wanted + 1e-6) : static_cast<double>(sizes[d]);
    if (!(scale > 0) || !(out >= 1) || out > 1 << 24)
      return Err("makes ", out, " elements of dimension ", d, " of ", ShapeText(in));
    if (scale == 1 && axis.start == 0 && axis.end == 1) continue;
    axis.out = static_cast<int64_t>(out);
    TRY(c.Reserve({kMostTaps, axis.out}));
    x = TRY(ResizeAxis(c, rules, x, static_cast<int64_t>(d), TapsOf(rules, axis)));
  }
  return c.Bind(x);
}

// The constant floats of an input; `what` names them in the error.
Result<std::vector<double>> Floats(ImportContext& c, size_t input, const char* what = "the scales") {
  const TensorValue* value = c.Constant(input);
  if (!value) return Err(what, " are computed at run time; they must be constants");
  if (!value->spec.dtype.IsFloat() || !IsSupported(value->spec.dtype)) return Err(what, " must be floats");
  std::vector<double> numbers;
  for (int64_t i = 0; i < value->spec.NumElements(); ++i) numbers.push_back(value->Number(i));
  return numbers;
}

Status CheckOneOf(const std::string& value, const char* what, std::initializer_list<const char*> known) {
  std::string list;
  for (const char* word : known) {
    if (value == word) return {};
    list += (list.empty() ? "" : ", ") + std::string(word);
  }
  return Err(what, " '", value, "' is not one of ", list);
}

Status ImportResize(ImportContext& c) {
  Rules rules;
  rules.mode = TRY(c.String("mode", "nearest"));
  TRY(CheckOneOf(rules.mode, "mode", {"nearest", "linear", "cubic"}));
  if (c.opset < 11) return BindResized(c, rules, TRY(Floats(c, 1)), {});
  rules.coordinates = TRY(c.String("coordinate_transformation_mode", "half_pixel"));
  TRY(CheckOneOf(rules.coordinates, "coordinate_transformation_mode",
                 {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                  "tf_crop_and_resize"}));
  rules.nearest = TRY(c.String("nearest_mode", "round_prefer_floor"));
  TRY(CheckOneOf(rules.nearest, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  rules.cubic_a = TRY(c.Float("cubic_coeff_a", -0.75f));
  rules.exclude_outside = TRY(c.Int("exclude_outside", 0)) != 0 && rules.mode == "cubic";
  std::vector<int64_t> sizes;
  std::vector<double> scales;
  if (c.Has(3)) sizes = TRY(c.Ints(3, "the sizes of Resize"));
  if (sizes.empty()) scales = TRY(Floats(c, 2));
  if (rules.coordinates != "tf_crop_and_resize") return BindResized(c, rules, scales, sizes);
  rules.extrapolation = TRY(c.Float("extrapolation_value", 0));
  std::vector<double> box = TRY(Floats(c, 1, "the starts and ends of roi"));
  size_t rank = TRY(c.ShapeOf(0)).size();
  if (box.size() != 2 * rank)
    return Err("roi has ", box.size(), " numbers, not a start and an end per dimension of ", rank);
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
      {"Resize", 10, 17, ImportResize},
      {"Upsample", 7, 9, ImportUpsample},
  };
  return rows;
}

}  // namespace autotune::onnx_import
