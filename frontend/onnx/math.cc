// Element-wise operators, and arithmetic of integer constants.
#include <limits>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

template <Op op>
Status ImportUnary(ImportContext& c) {
  ValueId a = TRY(c.Tensor(0));
  return c.Bind(TRY(c.Emit(op, {a})));
}

template <Op op>
Status ImportBinary(ImportContext& c) {
  if (auto folded = FoldIntegers(c)) return c.BindConstant(TRY(std::move(*folded)));
  ValueId a = TRY(c.Tensor(0)), b = TRY(c.Tensor(1));
  return c.Bind(TRY(c.Emit(op, {a, b})));
}

Status ImportSum(ImportContext& c) {
  ValueId sum = TRY(c.Tensor(0));
  for (size_t i = 1; i < c.node().inputs.size(); ++i) {
    ValueId next = TRY(c.Tensor(i));
    sum = TRY(c.Emit(Op::kAdd, {sum, next}));
  }
  return c.Bind(sum);
}

Status ImportClip(ImportContext& c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ClipAttrs attrs{-kInfinity, kInfinity};
  if (c.opset < 11) {
    attrs.min = TRY(c.Float("min", std::numeric_limits<float>::lowest()));
    attrs.max = TRY(c.Float("max", std::numeric_limits<float>::max()));
  } else {
    if (c.Has(1)) attrs.min = TRY(c.ConstantFloat(1, "min"));
    if (c.Has(2)) attrs.max = TRY(c.ConstantFloat(2, "max"));
  }
  ValueId x = TRY(c.Tensor(0));
  return c.Bind(TRY(c.Emit(Op::kClip, {x}, attrs)));
}

std::optional<std::vector<int64_t>> AsIntegers(const TensorValue& value) {
  std::vector<int64_t> out(value.spec.NumElements());
  for (size_t i = 0; i < out.size(); ++i) {
    if (value.spec.dtype == DType::Int(64)) {
      out[i] = value.As<int64_t>()[i];
    } else if (value.spec.dtype == DType::Int(32)) {
      out[i] = value.As<int32_t>()[i];
    } else {
      return std::nullopt;
    }
  }
  return out;
}

Result<int64_t> Apply(const std::string& op, int64_t a, int64_t b) {
  int64_t out = 0;
  if (op == "Add") return __builtin_add_overflow(a, b, &out) ? Result<int64_t>(Err("integer constants overflow")) : out;
  if (op == "Sub") return __builtin_sub_overflow(a, b, &out) ? Result<int64_t>(Err("integer constants overflow")) : out;
  if (op == "Mul") return __builtin_mul_overflow(a, b, &out) ? Result<int64_t>(Err("integer constants overflow")) : out;
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return Err("integer division by ", b);
  return a / b;
}

}  // namespace

std::optional<Result<TensorValue>> FoldIntegers(const ImportContext& c) {
  if (c.node().inputs.size() != 2 || !c.Constant(0) || !c.Constant(1)) return std::nullopt;
  const TensorSpec &sa = c.Constant(0)->spec, &sb = c.Constant(1)->spec;
  auto a = AsIntegers(*c.Constant(0)), b = AsIntegers(*c.Constant(1));
  if (!a || !b || sa.dtype != sb.dtype) return std::nullopt;
  if (sa.rank() > 1 || sb.rank() > 1)
    return Result<TensorValue>(Err("arithmetic of integer constants is for scalars and vectors"));
  Result<Shape> shape = BroadcastShapes(sa.shape, sb.shape);
  if (!shape.ok()) return Result<TensorValue>(shape.error());
  std::vector<int64_t> out;
  int64_t n = shape->empty() ? 1 : shape->front();
  for (int64_t i = 0; i < n; ++i) {
    Result<int64_t> element = Apply(c.node().op_type, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
    if (!element.ok()) return Result<TensorValue>(element.error());
    out.push_back(*element);
  }
  if (sa.dtype == DType::Int(32))
    return Result<TensorValue>(TensorValue::Of<int32_t>(*shape, {out.begin(), out.end()}));
  return Result<TensorValue>(TensorValue::Of<int64_t>(*shape, out));
}

const std::vector<OperatorRow>& MathOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Relu", 6, 17, ImportUnary<Op::kRelu>},
      {"Sigmoid", 6, 17, ImportUnary<Op::kSigmoid>},
      {"Sqrt", 6, 17, ImportUnary<Op::kSqrt>},
      {"Clip", 6, 17, ImportClip},
      {"Add", 7, 17, ImportBinary<Op::kAdd>},
      {"Sub", 7, 17, ImportBinary<Op::kSub>},
      {"Mul", 7, 17, ImportBinary<Op::kMul>},
      {"Div", 7, 17, ImportBinary<Op::kDiv>},
      {"Sum", 6, 17, ImportSum},
  };
  return rows;
}

}  // namespace autotune::onnx_import
