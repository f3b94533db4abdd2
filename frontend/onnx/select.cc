// Operators that sort, scatter, and select by value.
#include <algorithm>
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// The places of the best elements, and the elements at these places. What is sorted is as good where order is free.
Status ImportTopK(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const int rank = c.Rank(x);
  if (rank == 0) return Err("the input must not be a scalar");
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -1)), rank));
  int64_t k = TRY(c.Int("k", -1));
  if (c.opset >= 10) {
    const std::vector<int64_t> given = TRY(c.Ints(1, "K"));
    if (given.size() != 1) return Err("K must be one number");
    k = given[0];
  }
  const int64_t n = c.ShapeOfValue(x)[axis];
  if (k < 0 || k > n) return Err("takes ", k, " of ", n, " elements");
  const bool largest = c.opset < 11 || TRY(c.Int("largest", 1)) != 0;
  if (k == 0 || c.builder.Spec(x).NumElements() == 0) {
    Shape none = c.ShapeOfValue(x);
    none[axis] = k;
    TRY(c.BindConstant({{c.Type(x), none}, SharedBytes::Copy("")}, 0));
    return c.BindConstant({{DType::Int(64), none}, SharedBytes::Copy("")}, 1);
  }
  std::vector<int64_t> swap(rank);
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[axis], swap.back());
  x = TRY(c.Transpose(x, swap));
  ValueId places = TRY(c.Emit(Op::kTopK, {x}, TopKAttrs{k, largest}));
  ValueId best = TRY(c.Emit(Op::kGatherElements, {x, places}, AxisAttrs{rank - 1}));
  TRY(c.Bind(TRY(c.Transpose(best, swap)), 0));
  return c.Bind(TRY(c.Transpose(places, swap)), 1);
}

Result<ScatterMode> ReadScatterMode(const ImportContext& c, int64_t add_since, int64_t max_since) {
  const std::string reduction = c.opset < add_since ? "none" : TRY(c.String("reduction", "none"));
  if (reduction == "none") return ScatterMode::kReplace;
  if (reduction == "add") return ScatterMode::kAdd;
  if (reduction == "mul") return ScatterMode::kMul;
  if (reduction == "max" && c.opset >= max_since) return ScatterMode::kMax;
  if (reduction == "min" && c.opset >= max_since) return ScatterMode::kMin;
  return Err("reduction '", reduction, "' is not supported in operator set ", c.opset);
}

Status ImportScatterElements(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), indices = TRY(c.Tensor(1)), updates = TRY(c.Tensor(2));
  if (c.ShapeOfValue(indices) != c.ShapeOfValue(updates))
    return Err("indices ", c.builder.Spec(indices).Text(), " and updates ", c.builder.Spec(updates).Text(),
               " differ in shape");
  if (c.Rank(x) == 0) return Err("the input must not be a scalar");
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), c.Rank(x)));
  const ScatterMode mode = TRY(ReadScatterMode(c, 16, 18));
  if (c.builder.Spec(updates).NumElements() == 0) return c.Bind(TRY(c.Reshape(x, TRY(c.ShapeOf(0)))));
  return c.Bind(TRY(c.Emit(Op::kScatter, {x, updates, indices}, ScatterAttrs{axis, mode})));
}

// One number for each place that the last dimension of the indices names within `extents`.
Result<ValueId> FlatPlaces(ImportContext& c, ValueId indices, const Shape& extents) {
  const int64_t depth = static_cast<int64_t>(extents.size());
  Shape strides(depth, 1);
  for (int64_t i = depth - 1; i-- > 0;) strides[i] = strides[i + 1] * extents[i + 1];
  indices = TRY(c.Cast(indices, DType::Int(64)));
  ValueId size = c.builder.AddConstant("", TensorValue::Of<int64_t>({depth}, extents));
  ValueId from_end = TRY(c.Apply(Op::kAdd, indices, size));
  indices = TRY(c.Where(TRY(c.ApplyNumber(Op::kLess, indices, 0)), from_end, indices));
  indices = TRY(c.Apply(Op::kMul, indices, c.builder.AddConstant("", TensorValue::Of<int64_t>({depth}, strides))));
  return c.Reduce(Op::kReduceSum, indices, {c.Rank(indices) - 1});
}

// Whole slices of the data, which become rows: a place is one number.
Status ImportScatterNd(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), indices = TRY(c.Tensor(1)), updates = TRY(c.Tensor(2));
  const Shape data = c.ShapeOfValue(x), places = c.ShapeOfValue(indices);
  if (places.empty() || data.empty()) return Err("needs tensors of rank 1 or more");
  const int64_t depth = places.back();
  if (depth < 1 || depth > static_cast<int64_t>(data.size()))
    return Err("indices ", c.builder.Spec(indices).Text(), " do not fit ", c.builder.Spec(x).Text());
  Shape wanted(places.begin(), places.end() - 1);
  wanted.insert(wanted.end(), data.begin() + depth, data.end());
  if (c.ShapeOfValue(updates) != wanted)
    return Err("updates must have shape ", ShapeText(wanted), ", not ", c.builder.Spec(updates).Text());
  const ScatterMode mode = TRY(ReadScatterMode(c, 16, 18));
  if (c.builder.Spec(updates).NumElements() == 0) return c.Bind(TRY(c.Reshape(x, data)));
  const Shape extents(data.begin(), data.begin() + depth);
  const int64_t rows = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
  const int64_t width = c.builder.Spec(x).NumElements() / rows, count = c.builder.Spec(updates).NumElements() / width;
  ValueId place = TRY(c.Reshape(TRY(FlatPlaces(c, indices, extents)), {count, 1}));
  x = TRY(c.Reshape(x, {rows, width}));
  updates = TRY(c.Reshape(updates, {count, width}));
  return c.Bind(TRY(c.Reshape(TRY(c.Emit(Op::kScatter, {x, updates, place}, ScatterAttrs{0, mode})), data)));
}

}  // namespace

const std::vector<OperatorRow>& SelectOperators() {
  static const std::vector<OperatorRow> rows = {
      {"TopK", 1, 28, ImportTopK},
      {"ScatterElements", 11, 28, ImportScatterElements},
      {"Scatter", 9, 28, ImportScatterElements},
      {"ScatterND", 11, 28, ImportScatterNd},
  };
  return rows;
}

}  // namespace autotune::onnx_import
