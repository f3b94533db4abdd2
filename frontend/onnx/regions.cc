// Imports RoiAlign and MaxRoiPool, which pool over regions of interest, and NonMaxSuppression, which selects boxes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/sample.h"
#include "support/hint.h"

namespace autotune::onnx_import {
namespace {

// The regions of interest of RoiAlign, from its attributes and inputs.
struct Regions {
  int64_t count = 0, batches = 0;
  // Numbers of rows and columns: of bins in a region, of pixels in the image, and (at most) of samples in a bin.
  int64_t bins[2] = {1, 1}, image[2] = {1, 1}, samples[2] = {1, 1};
  ValueId rois = 0;
  double scale = 1;
  bool half_pixel = false;
  bool adaptive = false;  // true: a bin has as many samples along a dimension as pixels, rounded up
};

// The begins and extents of all regions along a dimension, [count, 1, 1] each, in pixels.
struct Span {
  ValueId begin = 0, extent = 0;
};
Result<Span> SpanOf(ImportContext& c, const Regions& r, int64_t dim) {
  auto edge = [&](int64_t i) -> Result<ValueId> {
    ValueId v = TRY(c.Emit(Op::kSlice, {r.rois}, SliceAttrs{{0, i}, {r.count, 1}, {1, 1}}));
    v = TRY(c.ApplyNumber(Op::kMul, TRY(c.Reshape(v, {r.count, 1, 1})), r.scale));
    return r.half_pixel ? c.ApplyNumber(Op::kSub, v, 0.5) : v;
  };
  Span span;
  span.begin = TRY(edge(1 - dim));
  span.extent = TRY(c.Apply(Op::kSub, TRY(edge(3 - dim)), span.begin));
  if (!r.half_pixel) span.extent = TRY(c.ApplyNumber(Op::kMax, span.extent, 1));
  return span;
}

// The taps of all samples along a dimension, [count, bins * samples, 2], and the number of samples per bin,
// [count, 1, 1].
struct RegionTaps {
  PixelTaps taps;
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
  // The position of a sample is begin + (which + (sample + 0.5) / samples) * bin.
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
  PixelTaps taps = TRY(TapsAlong(c, position, n, {.outside = Outside::kBorder, .align_corners = true}));
  taps.weights = TRY(c.Where(left_out, c.Number(0, taps.weights), taps.weights));
  return RegionTaps{taps, samples};
}

// Combines the taps along rows, [count, bins[0] * samples[0], 2], and along columns, [count, bins[1] * samples[1], 2],
// with `op` to those of all bins, [count, bins[0] * bins[1], samples[0] * samples[1] * 4].
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
  if (!known) return Err("with sampling_ratio 0 the regions must be constants: they determine the number of samples");
  for (int64_t dim = 0; dim < 2; ++dim) {
    r.samples[dim] = 1;
    for (int64_t i = 0; i < r.count; ++i) {
      double extent = (known->Number(4 * i + 3 - dim) - known->Number(4 * i + 1 - dim)) * r.scale;
      if (!r.half_pixel) extent = std::max(extent, 1.0);
      // The added 1 allows for a rounding error at run time.
      const double samples = std::ceil(extent / static_cast<double>(r.bins[dim])) + 1;
      if (!(samples <= kMost)) return Err("a region needs more than ", kMost, " samples of a bin");
      r.samples[dim] = std::max(r.samples[dim], static_cast<int64_t>(samples));
    }
  }
  return r;
}

// Imports RoiAlign: averages or maxima of bilinear samples in the bins of regions.
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
    places = TRY(c.Reshape(places, {1, points, taps}));
    y = TRY(c.Emit(Op::kGatherSum, {y, weights, places}));
  } else {  // the maximum of the weighted pixels, as in ONNX's reference implementation
    places = TRY(c.Reshape(places, {points, taps}));
    y = TRY(c.Reshape(y, {pixels[1], pixels[2]}));
    y = TRY(c.Emit(Op::kGather, {y, places}, AxisAttrs{0}));
    y = TRY(c.Apply(Op::kMul, y, TRY(c.Reshape(weights, {points, taps, 1}))));
    y = TRY(c.Reduce(Op::kReduceMax, y, {1}));
  }
  y = TRY(c.Reshape(y, {r.count, r.bins[0], r.bins[1], image[1]}));
  return c.Bind(TRY(c.Transpose(y, {0, 3, 1, 2})));
}

// Imports MaxRoiPool: the largest pixels in the bins of regions, whose edges are rounded to pixels. Reduces the rows
// first, then the columns.
Status ImportMaxRoiPool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), rois = TRY(c.Tensor(1));
  const Shape image = c.ShapeOfValue(x), regions = c.ShapeOfValue(rois);
  const std::vector<int64_t> bins = TRY(c.IntList("pooled_shape", {}));
  const double scale = TRY(c.Float("spatial_scale", 1));
  if (image.size() != 4 || regions.size() != 2 || regions[1] != 5 || bins.size() != 2 || regions[0] < 1)
    return Err("regions ", ShapeText(regions), " do not fit the image ", ShapeText(image));
  if (std::min(bins[0], bins[1]) < 1) return Err("pooled_shape ", ShapeText(bins), " must be positive");
  if (!c.Type(x).IsFloat()) return Err("is supported on floats, not on ", c.builder.Spec(x).Text());
  if (c.Type(x) != c.Type(rois))
    return Err("the types of ", c.builder.Spec(x).Text(), " and ", c.builder.Spec(rois).Text(), " differ");
  const int64_t count = regions[0];
  auto column = [&](int64_t i) -> Result<ValueId> {
    return c.Emit(Op::kSlice, {rois}, SliceAttrs{{0, i}, {count, 1}, {1, 1}});
  };
  auto rounded = [&](int64_t i) -> Result<ValueId> {  // rounds halves up; edges are not negative
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
      ValueId v = TRY(c.Apply(Op::kMul, TRY(Counted(c, {1, own}, first, c.Type(x))), bin));
      return c.Apply(Op::kAdd, TRY(c.Apply(rounding, v)), begin);
    };
    ValueId low = TRY(c.Reshape(TRY(edge(0, Op::kFloor)), {count, own, 1}));
    ValueId high = TRY(c.Reshape(TRY(edge(1, Op::kCeil)), {count, own, 1}));
    ValueId at = TRY(Counted(c, {1, 1, n}, 0, c.Type(x)));
    ValueId inside = TRY(c.Apply(Op::kLessEqual, low, at));
    inside = TRY(c.Apply(Op::kAnd, inside, TRY(c.Apply(Op::kLess, at, high))));  // [count, own, n]
    // y is [count, channels, rows, columns] at first, and [count, channels, bins, columns] after the rows are reduced.
    const Shape shape = c.ShapeOfValue(y);
    const Shape mask = dim == 0 ? Shape{count, 1, own, n, 1} : Shape{count, 1, 1, own, n};
    const Shape wide = dim == 0 ? Shape{count, shape[1], 1, n, shape[3]} : Shape{count, shape[1], shape[2], 1, n};
    ValueId lowest = c.Number(-std::numeric_limits<double>::infinity(), x);
    y = TRY(c.Where(TRY(c.Reshape(inside, mask)), TRY(c.Reshape(y, wide)), lowest));
    y = TRY(c.Reduce(Op::kReduceMax, y, {dim == 0 ? 3 : 4}));
    y = TRY(c.Reshape(y, dim == 0 ? Shape{count, shape[1], own, shape[3]} : Shape{count, shape[1], shape[2], own}));
  }
  // Empty bins are 0.
  ValueId empty = TRY(c.ApplyNumber(Op::kEqual, y, -std::numeric_limits<double>::infinity()));
  return c.Bind(TRY(c.Where(empty, c.Number(0, y), y)));
}

}  // namespace

// The number of selected boxes depends on their scores, but shapes are static. So the user states the largest number of
// rows with --dim. Rows after the last selected box are -1.
Status ImportNonMaxSuppression(ImportContext& c) {
  ValueId boxes = TRY(c.Tensor(0)), scores = TRY(c.Tensor(1));
  for (ValueId v : {boxes, scores}) {
    if (c.Rank(v) != 3) return Err("boxes and scores must have rank 3, not ", c.builder.Spec(v).Text());
  }
  const Shape shape = c.ShapeOfValue(scores);
  BoxesAttrs attrs;
  attrs.most = 0;
  if (c.Has(2)) {
    const std::vector<int64_t> most = TRY(c.Ints(2, "max_output_boxes_per_class"));
    if (most.size() != 1) return Err("max_output_boxes_per_class must be one number");
    attrs.most = most[0];
  }
  attrs.centers = TRY(c.Int("center_point_box", 0)) != 0;
  attrs.most = std::min(attrs.most, shape[2]);
  const std::string& result = c.node().outputs[0];
  const auto stated = c.dims.find(result);
  const bool states_none = stated != c.dims.end() && stated->second == 0;
  if (attrs.most <= 0 || c.builder.Spec(scores).NumElements() == 0 || states_none)
    return c.BindConstant({{DType::Int(64), {0, 3}}, SharedBytes::Copy("")});
  if (stated == c.dims.end()) {
    return WithHint(Err("selects a number of boxes that is known only at run time"),
                    "state the largest number with --dim " + result +
                        "=100, for example: the result then has that many rows, with -1 in the unused ones");
  }
  attrs.overlap = c.Has(3) ? TRY(c.ConstantNumber(3, "iou_threshold")) : 0;
  attrs.any_score = !c.Has(4);
  if (c.Has(4)) attrs.least_score = TRY(c.ConstantNumber(4, "score_threshold"));
  attrs.rows = std::min(stated->second, shape[0] * shape[1] * attrs.most);
  ValueId order = TRY(c.Emit(Op::kTopK, {scores}, TopKAttrs{shape[2], true}));
  c.Note("the result of NonMaxSuppression, " + result + ", has " + std::to_string(attrs.rows) +
         " rows; the rows after the last selected box are -1");
  return c.Bind(TRY(c.Emit(Op::kSelectBoxes, {boxes, scores, order}, attrs)));
}

const std::vector<OperatorRow>& RegionOperators() {
  static const std::vector<OperatorRow> rows = {
      {"RoiAlign", 10, 28, ImportRoiAlign},
      {"MaxRoiPool", 1, 28, ImportMaxRoiPool},
      {"NonMaxSuppression", 10, 28, ImportNonMaxSuppression},
  };
  return rows;
}

}  // namespace autotune::onnx_import
