// Reductions: each a sum, product, maximum or minimum between element-wise operators.
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// An attribute; of ReduceSum an input since operator set 13. None at all means all axes, or nothing to do.
Result<std::vector<int64_t>> ReducedAxes(const ImportContext& c, int rank) {
  bool input = c.node().op_type == "ReduceSum" && c.opset >= 13;
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

using Formula = Result<ValueId> (*)(ImportContext&, ValueId, const std::vector<int64_t>&);

template <Formula formula>
Status ImportReduce(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  std::vector<int64_t> axes = TRY(ReducedAxes(c, c.Rank(x)));
  return BindReduced(c, TRY(formula(c, x, axes)), axes);
}

template <Op op>
Result<ValueId> Plain(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) {
  return c.Reduce(op, x, axes);
}

Result<ValueId> Mean(ImportContext& c, ValueId x, const std::vector<int64_t>& axes) { return c.Mean(x, axes); }

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
  ValueId e = TRY(c.Apply(Op::kExp, TRY(c.Apply(Op::kSub, x, top))));
  return c.Apply(Op::kAdd, TRY(LogSum(c, e, axes)), top);
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

const std::vector<OperatorRow>& ReduceOperators() {
  static const std::vector<OperatorRow> rows = {
      {"ReduceSum", 1, 17, ImportReduce<Plain<Op::kReduceSum>>},
      {"ReduceProd", 1, 17, ImportReduce<Plain<Op::kReduceProd>>},
      {"ReduceMax", 1, 17, ImportReduce<Plain<Op::kReduceMax>>},
      {"ReduceMin", 1, 17, ImportReduce<Plain<Op::kReduceMin>>},
      {"ReduceMean", 1, 17, ImportReduce<Mean>},
      {"ReduceL1", 1, 17, ImportReduce<L1>},
      {"ReduceL2", 1, 17, ImportReduce<L2>},
      {"ReduceSumSquare", 1, 17, ImportReduce<SumSquare>},
      {"ReduceLogSum", 1, 17, ImportReduce<LogSum>},
      {"ReduceLogSumExp", 1, 17, ImportReduce<LogSumExp>},
      {"ArgMax", 1, 17, ImportArg<true>},
      {"ArgMin", 1, 17, ImportArg<false>},
  };
  return rows;
}

}  // namespace autotune::onnx_import
