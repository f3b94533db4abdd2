// Imports operators that sort, scatter, and select by value.
#include <algorithm>
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Imports TopK: the places of the best elements, and the elements at these places. The results are sorted even if
// sorted = 0 allows any order.
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

// Returns the flat index in `extents` of each place. The last dimension of `indices` holds the place's coordinates.
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

// Imports ScatterND. The slices that it writes become rows of a matrix, so that a place is one number.
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
  if (rows == 0) return Err("updates elements of ", c.builder.Spec(x).Text(), ", which has none");
  const int64_t width = c.builder.Spec(x).NumElements() / rows, count = c.builder.Spec(updates).NumElements() / width;
  ValueId place = TRY(c.Reshape(TRY(FlatPlaces(c, indices, extents)), {count, 1}));
  x = TRY(c.Reshape(x, {rows, width}));
  updates = TRY(c.Reshape(updates, {count, width}));
  return c.Bind(TRY(c.Reshape(TRY(c.Emit(Op::kScatter, {x, updates, place}, ScatterAttrs{0, mode})), data)));
}

Status ImportDet(ImportContext& c) { return c.Bind(TRY(c.Apply(Op::kDet, TRY(c.Tensor(0))))); }

// Returns the constant of an input whose values decide the shape of the result. Returns an error if it is not known.
Result<const TensorValue*> Decisive(ImportContext& c, size_t input) {
  TRY(c.ShapeOf(input));
  const TensorValue* value = c.Known(input);
  if (!value) {
    return Err(
        "has a result whose shape depends on values that are computed at run time, or take too long to compute at "
        "import");
  }
  return value;
}

bool IsZero(const TensorValue& value, int64_t i) { return value.Number(i) == 0; }

Status ImportNonZero(ImportContext& c) {
  const TensorValue& x = *TRY(Decisive(c, 0));
  const Shape shape = x.spec.shape.empty() ? Shape{1} : x.spec.shape;
  const int64_t n = x.spec.NumElements();
  std::vector<int64_t> found;
  for (int64_t i = 0; i < n; ++i) {
    if (!IsZero(x, i)) found.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(found.size()), rank = static_cast<int64_t>(shape.size());
  TRY(c.Reserve({rank, count}));
  std::vector<int64_t> places(rank * count);
  for (int64_t d = rank, stride = 1; d-- > 0; stride *= shape[d]) {
    for (int64_t i = 0; i < count; ++i) places[d * count + i] = found[i] / stride % shape[d];
  }
  return c.BindConstant(TensorValue::Of<int64_t>({rank, count}, places));
}

// Imports Compress: the slices of an axis where a condition holds, or the elements of the flattened input.
Status ImportCompress(ImportContext& c) {
  const TensorValue& condition = *TRY(Decisive(c, 1));
  ValueId x = TRY(c.Tensor(0));
  int64_t axis = 0;
  if (c.HasAttr("axis")) {
    axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), c.Rank(x)));
  } else {
    x = TRY(c.Reshape(x, {c.builder.Spec(x).NumElements()}));
  }
  const int64_t n = c.ShapeOfValue(x)[axis];
  if (condition.spec.rank() != 1 || condition.spec.shape[0] > n || !condition.spec.dtype.IsBool())
    return Err("the condition ", condition.spec.Text(), " does not fit ", n, " elements");
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.spec.shape[0]; ++i) {
    if (!IsZero(condition, i)) kept.push_back(i);
  }
  const int64_t count = static_cast<int64_t>(kept.size());
  ValueId places = c.builder.AddConstant("", TensorValue::Of<int64_t>({count}, kept));
  return c.Bind(TRY(c.Emit(Op::kGather, {x, places}, AxisAttrs{axis})));
}

// The slices of a constant along its first dimension, compared in lexicographic order.
class Slices {
 public:
  explicit Slices(const TensorValue& value) : value_(value), count_(value.spec.shape[0]) {
    width_ = count_ == 0 ? 0 : value.spec.NumElements() / count_;
  }
  int64_t count() const { return count_; }
  bool Less(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < width_; ++i) {
      const int64_t x = a * width_ + i, y = b * width_ + i;
      if (IsLess(x, y)) return true;
      if (IsLess(y, x)) return false;
    }
    return false;
  }

 private:
  bool IsLess(int64_t x, int64_t y) const {
    const DType type = value_.spec.dtype;
    if (type == DType::Int(64)) return value_.As<int64_t>()[x] < value_.As<int64_t>()[y];
    if (type == DType::UInt(64)) return value_.As<uint64_t>()[x] < value_.As<uint64_t>()[y];
    return value_.Number(x) < value_.Number(y);
  }
  const TensorValue& value_;
  int64_t count_, width_;
};

// Exchanges dimension 0 with `axis`. A second call restores the original order.
TensorValue Exchanged(const TensorValue& value, int64_t axis) {
  Shape shape = value.spec.shape;
  std::swap(shape[0], shape[axis]);
  return Moved(value, shape, [&](const Shape& index) {
    Shape from = index;
    std::swap(from[0], from[axis]);
    int64_t offset = 0;
    for (size_t d = 0; d < from.size(); ++d) offset = offset * value.spec.shape[d] + from[d];
    return offset;
  });
}

Status ImportUnique(ImportContext& c) {
  const TensorValue& given = *TRY(Decisive(c, 0));
  TRY(c.Reserve(given.spec.shape));
  TensorValue x = given.Reshaped({given.spec.NumElements()});
  int64_t axis = 0;
  if (c.HasAttr("axis")) {
    axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), given.spec.rank()));
    x = Exchanged(given, axis);
  }
  const Slices slices(x);
  std::vector<int64_t> order(slices.count()), first, inverse(slices.count()), counts;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return slices.Less(a, b); });
  std::vector<std::vector<int64_t>> groups;  // each holds the indices of equal slices
  for (int64_t i : order) {
    if (groups.empty() || slices.Less(groups.back()[0], i)) groups.emplace_back();
    groups.back().push_back(i);
  }
  if (TRY(c.Int("sorted", 1)) == 0)
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
  for (size_t g = 0; g < groups.size(); ++g) {
    first.push_back(groups[g][0]);
    counts.push_back(static_cast<int64_t>(groups[g].size()));
    for (int64_t i : groups[g]) inverse[i] = static_cast<int64_t>(g);
  }
  const int64_t count = static_cast<int64_t>(first.size());
  Shape shape = x.spec.shape;
  const int64_t width = slices.count() == 0 ? 0 : x.spec.NumElements() / slices.count();
  shape[0] = count;
  TensorValue y = Moved(x, shape, [&, next = int64_t{0}](const Shape&) mutable {
    const int64_t i = next++;
    return first[i / width] * width + i % width;
  });
  TRY(c.BindConstant(axis == 0 ? y : Exchanged(y, axis), 0));
  TRY(c.BindConstant(TensorValue::Of<int64_t>({count}, first), 1));
  TRY(c.BindConstant(TensorValue::Of<int64_t>({slices.count()}, inverse), 2));
  return c.BindConstant(TensorValue::Of<int64_t>({count}, counts), 3);
}

}  // namespace

const std::vector<OperatorRow>& SelectOperators() {
  static const std::vector<OperatorRow> rows = {
      {"TopK", 1, 28, ImportTopK},
      {"ScatterElements", 11, 28, ImportScatterElements},
      {"Scatter", 9, 10, ImportScatterElements},
      {"ScatterND", 11, 28, ImportScatterNd},
      {"NonZero", 9, 28, ImportNonZero},
      {"Compress", 9, 28, ImportCompress},
      {"Unique", 11, 28, ImportUnique},
      {"Det", 11, 28, ImportDet},
  };
  return rows;
}

}  // namespace autotune::onnx_import
