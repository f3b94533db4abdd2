// Imports reductions. Each becomes a sum, product, maximum or minimum, with element-wise operators before and after it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frontend/onnx/formulas.h"
#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Returns the axes to reduce. They are an input of ReduceSum since operator set 13 and of the other operators since 18,
// and an attribute in older sets. If no axes are given, returns all axes or, with noop_with_empty_axes, none.
Result<std::vector<int64_t>> ReducedAxes(const ImportContext& c, int rank) {
  bool input = c.opset >= (c.node().op_type == "ReduceSum" ? 13 : 18);
  std::vector<int64_t> axes;
  if (!input) axes = TRY(c.IntList("axes", {}));
  if (input && c.Has(1)) axes = TRY(c.Ints(1, "axes"));
  if (!axes.empty()) return NormalizeAxes(std::move(axes), rank);
  if (input && TRY(c.Int("noop_with_empty_axes", 0)) != 0) return axes;
  axes.resize(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Status BindReduced(ImportContext& c, ValueId y, const std::vector<int64_t>& axes) {
  if (TRY(c.Int("keepdims", 1)) != 0) return c.Bind(y);
  Shape shape;
  for (int64_t d = 0; d < c.Rank(y); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) shape.push_back(c.ShapeOfValue(y)[d]);
  }
  return c.Bind(TRY(c.Reshape(y, shape)));
}

// Returns the result of a reduction over no elements: the neutral element of the operation, or NaN for a mean.
double OfNothing(const std::string& reduction, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (reduction == "ReduceProd") return 1;
  if (reduction == "ReduceLogSum" || reduction == "ReduceLogSumExp") return -kInfinity;
  if (reduction == "ReduceMean") return std::numeric_limits<double>::quiet_NaN();
  if (reduction != "ReduceMax" && reduction != "ReduceMin") return 0;
  const bool least = reduction == "ReduceMax";
  if (type.IsFloat()) return least ? -kInfinity : kInfinity;
  if (type.IsBool()) return least ? 0 : 1;
  const bool is_signed = type.code == TypeCode::kInt;
  const int bits = type.bits - (is_signed ? 1 : 0);
  return least ? (is_signed ? -std::ldexp(1.0, bits) : 0) : std::ldexp(1.0, bits) - 1;
}

// Returns the result of a reduction over no elements, since an axis has extent 0.
Result<ValueId> ReducedNothing(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  const std::string& reduction = c.node().op_type;
  const DType type = c.Type(x);
  Shape shape = c.ShapeOfValue(x);
  for (int64_t axis : axes) shape[axis] = 1;
  const double value = OfNothing(reduction, type);
  if (!type.IsFloat() && !std::isfinite(value))
    return Err("a reduction of no elements has no value in type ", type.Text());
  constexpr double kExact = 0x1p53;  // limit of exact integers, since constants are made from doubles
  if (!type.IsFloat() && value >= kExact)
    return Err("a reduction of no elements of type ", type.Text(), " is not supported");
  return c.Emit(Op::kBroadcastTo, {c.Number(value, x)}, ReshapeAttrs{shape});
}

using Formula = Result<ValueId> (*)(ImportContext&, ValueId, const std::vector<int64_t>&);

template <Formula formula>
Status ImportReduce(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  std::vector<int64_t> axes = TRY(ReducedAxes(c, c.Rank(x)));
  const Shape& shape = c.ShapeOfValue(x);
  // Before operator set 18, ONNX did not define the reduction of no elements.
  bool nothing = c.opset >= 18 && std::any_of(axes.begin(), axes.end(), [&](int64_t axis) { return shape[axis] == 0; });
  return BindReduced(c, nothing ? TRY(ReducedNothing(c, x, axes)) : TRY(formula(c, x, axes)), axes);
}

template <Op op>
Result<ValueId> Plain(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Reduce(op, x, axes);
}

// Imports ReduceMax or ReduceMin. Bools are reduced as the numbers 0 and 1.
template <Op op>
Result<ValueId> Extreme(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  if (!c.Type(x).IsBool()) return c.Reduce(op, x, axes);
  if (c.opset < 20) return Err("bools can be reduced from operator set 20 on, not in ", c.opset);
  return c.Cast(TRY(c.Reduce(op, TRY(c.Cast(x, DType::UInt(8))), axes)), DType::Bool());
}

// Applies a formula for floats. Integers are converted to f64, and the result is truncated.
template <Formula formula>
Result<ValueId> InFloats(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  if (!c.Type(x).IsInt()) return formula(c, x, axes);
  return c.Cast(TRY(formula(c, TRY(c.Cast(x, DType::Float(64))), axes)), c.Type(x));
}

// Returns the mean. That of integers is the sum, divided by the count and truncated. Sums are of 64 bits: those of
// narrower integers are exact, and those of 64-bit integers wrap around.
Result<ValueId> Mean(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  const DType type = c.Type(x);
  if (!type.IsInt()) return c.Mean(x, axes);
  const DType wide = type.code == TypeCode::kUInt ? DType::UInt(64) : DType::Int(64);
  int64_t count = 1;
  for (int64_t axis : axes) count *= c.ShapeOfValue(x)[axis];
  ValueId sum = TRY(c.Reduce(Op::kReduceSum, TRY(c.Cast(x, wide)), axes));
  return c.Cast(TRY(c.ApplyNumber(Op::kDiv, sum, static_cast<double>(count))), type);
}

Result<ValueId> L1(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Reduce(Op::kReduceSum, TRY(c.Apply(Op::kAbs, x)), axes);
}

Result<ValueId> SumSquare(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Reduce(Op::kReduceSum, TRY(c.Apply(Op::kMul, x, x)), axes);
}

Result<ValueId> L2(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Apply(Op::kSqrt, TRY(SumSquare(c, x, axes)));
}

Result<ValueId> LogSum(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Apply(Op::kLog, TRY(c.Reduce(Op::kReduceSum, x, axes)));
}

Result<ValueId> LogSumExp(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  ValueId top = TRY(c.Reduce(Op::kReduceMax, x, axes));
  // Clamp the maximum to finite numbers, since the difference of two infinities is NaN.
  const double most = c.Type(x).bits == 64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  top = TRY(c.ApplyToNumber(Op::kMax, -most, TRY(c.ApplyToNumber(Op::kMin, most, top))));
  return c.Apply(Op::kAdd, TRY(LogOfExponentials(c, TRY(c.Apply(Op::kSub, x, top)), axes)), top);
}

template <bool largest>
Status ImportArg(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), c.Rank(x)));
  bool last = TRY(c.Int("select_last_index", 0)) != 0;
  ArgAttrs attrs{axis, largest, last};
  return BindReduced(c, TRY(c.Emit(Op::kArgReduce, {x}, attrs)), {axis});
}

}  // namespace

// Beside the 1 of the largest x, an f32 does not hold the digits of small exponentials, so f32 is added up in f64. For
// f64, the exponentials below 1 are added up apart from those of zeros, which takes twice as long.
Result<ValueId> LogOfExponentials(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  if (const DType type = c.Type(x); type.bits < 64) {
    const ValueId exponentials = TRY(c.Cast(TRY(c.Apply(Op::kExp, x)), DType::Float(64)));
    return c.Cast(TRY(c.Apply(Op::kLog, TRY(c.Reduce(Op::kReduceSum, exponentials, axes)))), type);
  }
  const ValueId is_largest = TRY(c.ApplyNumber(Op::kEqual, x, 0)), zero = c.Number(0, x), one = c.Number(1, x);
  const ValueId small = TRY(c.Where(is_largest, zero, TRY(c.Apply(Op::kExp, x))));
  const ValueId largest = TRY(c.Reduce(Op::kReduceSum, TRY(c.Where(is_largest, one, zero)), axes));
  const ValueId others = TRY(c.ApplyNumber(Op::kSub, largest, 1));
  return LogOnePlus(c, TRY(c.Apply(Op::kAdd, TRY(c.Reduce(Op::kReduceSum, small, axes)), others)));
}

const std::vector<OperatorRow>& ReduceOperators() {
  static const std::vector<OperatorRow> rows = {
      {"ReduceSum", 1, 28, ImportReduce<Plain<Op::kReduceSum>>},
      {"ReduceProd", 1, 28, ImportReduce<Plain<Op::kReduceProd>>},
      {"ReduceMax", 1, 28, ImportReduce<Extreme<Op::kReduceMax>>},
      {"ReduceMin", 1, 28, ImportReduce<Extreme<Op::kReduceMin>>},
      {"ReduceMean", 1, 28, ImportReduce<Mean>},
      {"ReduceL1", 1, 28, ImportReduce<L1>},
      {"ReduceL2", 1, 28, ImportReduce<InFloats<L2>>},
      {"ReduceSumSquare", 1, 28, ImportReduce<SumSquare>},
      {"ReduceLogSum", 1, 28, ImportReduce<InFloats<LogSum>>},
      {"ReduceLogSumExp", 1, 28, ImportReduce<InFloats<LogSumExp>>},
      {"ArgMax", 1, 28, ImportArg<true>},
      {"ArgMin", 1, 28, ImportArg<false>},
  };
  return rows;
}

}  // namespace autotune::onnx_import
