// Operators of ONNX Runtime's domain com.microsoft on quantized tensors, as its quantizer writes them: between the
// QLinear operators of ONNX, tensors stay integers. Each operator dequantizes its inputs and quantizes its result, and
// graph passes turn that into arithmetic of integers where it pays.
#include <numeric>

#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

// Returns the scale or zero point of a whole tensor.
Result<ValueId> OneNumber(ImportContext& c, size_t input) {
  ValueId v = TRY(c.Tensor(input));
  if (c.builder.Spec(v).NumElements() != 1)
    return Err("a scale or zero point must be one number, not ", c.builder.Spec(v).Text());
  return c.Reshape(v, {});
}

// Returns input `input` as floats. The next two inputs are its scale and its zero point, which may be absent.
Result<ValueId> Floats(ImportContext& c, size_t input) {
  std::optional<ValueId> zero;
  if (c.Has(input + 2)) zero = TRY(OneNumber(c, input + 2));
  return DequantizedValue(c, TRY(c.Tensor(input)), TRY(OneNumber(c, input + 1)), zero);
}

// Quantizes y and binds it. The scale is input `scale`, followed by the zero point. Without a zero point the type is
// that of input 0.
Status BindQuantized(ImportContext& c, ValueId y, size_t scale) {
  ValueId step = TRY(OneNumber(c, scale));
  DType type = TRY(c.StoredType(0));
  ValueId zero = c.Number(0, y);
  if (c.Has(scale + 1)) {
    zero = TRY(OneNumber(c, scale + 1));
    type = c.Type(zero);
  }
  return c.Bind(TRY(QuantizedValue(c, y, step, zero, type)));
}

template <Op op>
Status ImportQLinearBinary(ImportContext& c) {
  return BindQuantized(c, TRY(c.Apply(op, TRY(Floats(c, 0)), TRY(Floats(c, 3)))), 6);
}

Status ImportQLinearLeakyRelu(ImportContext& c) {
  const float alpha = TRY(c.Float("alpha", 0.01f));
  const ValueId x = TRY(Floats(c, 0));
  return BindQuantized(c, TRY(c.Emit(Op::kLeakyRelu, {x}, AlphaAttrs{alpha})), 3);
}
Status ImportQLinearSigmoid(ImportContext& c) {
  return BindQuantized(c, TRY(c.Apply(Op::kSigmoid, TRY(Floats(c, 0)))), 3);
}

Status RefuseChannelsLast(ImportContext& c) {
  if (TRY(c.Int("channels_last", 0)) != 0) return Err("channels_last is not supported");
  return {};
}

Status ImportQLinearAveragePool(ImportContext& c) {
  TRY(RefuseChannelsLast(c));
  return BindQuantized(c, TRY(AveragePoolValue(c, TRY(Floats(c, 0)))), 3);
}

Status ImportQLinearGlobalAveragePool(ImportContext& c) {
  TRY(RefuseChannelsLast(c));
  ValueId x = TRY(Floats(c, 0));
  if (c.Rank(x) < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  std::vector<int64_t> pixels(static_cast<size_t>(c.Rank(x)) - 2);
  std::iota(pixels.begin(), pixels.end(), 2);
  return BindQuantized(c, TRY(c.Mean(x, pixels)), 3);
}

// Inputs 0 and 1 are scale and zero point of the result; then each operand has three inputs.
Status ImportQLinearConcat(ImportContext& c) {
  if (!c.HasAttr("axis")) return Err("has no axis");
  const size_t count = c.node().inputs.size();
  if (count < 5 || count % 3 != 2) return Err("each operand needs a scale and a zero point");
  std::vector<ValueId> operands;
  for (size_t i = 2; i < count; i += 3) operands.push_back(TRY(Floats(c, i)));
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 0)), c.Rank(operands[0])));
  const ValueId y = operands.size() == 1 ? operands[0] : TRY(c.Emit(Op::kConcat, operands, AxisAttrs{axis}));
  const ValueId zero = TRY(OneNumber(c, 1));
  return c.Bind(TRY(QuantizedValue(c, y, TRY(OneNumber(c, 0)), zero, c.Type(zero))));
}

// Returns an operand of QGemm as i32, minus its zero point. `columns`: the zero point has one number for each column of
// the product.
Result<ValueId> Factor(ImportContext& c, size_t input, const char* transposed, bool columns) {
  ValueId x = TRY(c.Tensor(input));
  if (c.Rank(x) != 2) return Err("an operand must be a matrix, not ", c.builder.Spec(x).Text());
  const bool is_transposed = TRY(c.Int(transposed, 0)) != 0;
  x = TRY(c.Cast(x, DType::Int(32)));
  if (is_transposed) x = TRY(c.Transpose(x, {1, 0}));
  if (!c.Has(input + 2)) return x;
  ValueId zero = TRY(c.Tensor(input + 2));
  const int64_t n = c.builder.Spec(zero).NumElements();
  if (n != 1 && (!columns || n != c.ShapeOfValue(x)[1]))
    return Err("a zero point does not fit ", c.builder.Spec(x).Text());
  zero = TRY(c.Reshape(TRY(c.Cast(zero, DType::Int(32))), n == 1 ? Shape{} : Shape{n}));
  return c.Apply(Op::kSub, x, zero);
}

// alpha (A - a_zero) (B - b_zero) + C, where C is an i32 in units of the product's scales; quantized if input 7 is
// given.
Status ImportQGemm(ImportContext& c) {
  constexpr size_t kBias = 6, kScale = 7;
  ValueId y = TRY(MatMulValues(c, TRY(Factor(c, 0, "transA", false)), TRY(Factor(c, 3, "transB", true))));
  const Shape shape = c.ShapeOfValue(y);
  if (c.Has(kBias)) {
    y = TRY(c.Apply(Op::kAdd, y, TRY(c.Tensor(kBias))));
    if (c.ShapeOfValue(y) != shape) return Err("C does not broadcast to ", ShapeText(shape));
  }
  ValueId columns = TRY(c.Tensor(4));
  const int64_t n = c.builder.Spec(columns).NumElements();
  if (n != 1 && n != shape[1]) return Err("b_scale does not fit ", ShapeText(shape));
  columns = TRY(c.Reshape(columns, n == 1 ? Shape{} : Shape{n}));
  ValueId scale = TRY(c.Apply(Op::kMul, TRY(OneNumber(c, 1)), columns));
  if (const float alpha = TRY(c.Float("alpha", 1)); alpha != 1) scale = TRY(c.ApplyNumber(Op::kMul, scale, alpha));
  y = TRY(c.Apply(Op::kMul, TRY(c.Cast(y, DType::Float(32))), scale));
  return c.Has(kScale) ? BindQuantized(c, y, kScale) : c.Bind(y);
}

}  // namespace

const std::vector<OperatorRow>& MicrosoftQuantizedOperators() {
  static const std::vector<OperatorRow> rows = {
      {"QLinearAdd", 1, 28, ImportQLinearBinary<Op::kAdd>},
      {"QLinearMul", 1, 28, ImportQLinearBinary<Op::kMul>},
      {"QLinearLeakyRelu", 1, 28, ImportQLinearLeakyRelu},
      {"QLinearSigmoid", 1, 28, ImportQLinearSigmoid},
      {"QLinearAveragePool", 1, 28, ImportQLinearAveragePool},
      {"QLinearGlobalAveragePool", 1, 28, ImportQLinearGlobalAveragePool},
      {"QLinearConcat", 1, 28, ImportQLinearConcat},
      {"QGemm", 1, 28, ImportQGemm},
      {"MatMulNBits", 1, 28, ImportMatMulNBits},
  };
  return rows;
}

}  // namespace autotune::onnx_import
