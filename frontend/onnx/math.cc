// Imports element-wise arithmetic, comparisons, logic and casts.
#include <cmath>
#include <limits>

#include "frontend/onnx/formulas.h"
#include "frontend/onnx/tensor_proto.h"

namespace autotune::onnx_import {

Result<DType> SupportedType(int64_t onnx_type) {
  if (onnx_type < 0 || onnx_type > std::numeric_limits<int>::max()) return Err("there is no element type ", onnx_type);
  std::optional<DType> dtype = OnnxDType(static_cast<int>(onnx_type));
  if (!dtype) return Err("element type ", OnnxTypeName(static_cast<int>(onnx_type)), " is not supported");
  return *dtype;
}

// Before operator set 7, only the second operand could broadcast, and only with the attribute `broadcast`. Its
// dimensions then matched those of the first operand that begin at dimension `axis`.
Result<ValueId> SecondOperand(ImportContext& c, ValueId a) {
  ValueId b = TRY(c.Tensor(1));
  if (c.opset >= 7) return b;
  const Shape &first = c.ShapeOfValue(a), second = c.ShapeOfValue(b);
  if (TRY(c.Int("broadcast", 0)) == 0) {
    if (first != second) return Err("its inputs' shapes differ, and broadcast is not set");
    return b;
  }
  int64_t rank = static_cast<int64_t>(first.size()), own = static_cast<int64_t>(second.size());
  int64_t axis = TRY(c.Int("axis", rank - own));
  if (axis < 0 && own > 0) axis += rank;
  Shape aligned = second;
  for (int64_t i = axis + own; i < rank; ++i) aligned.push_back(1);
  bool fits = axis >= 0 && axis + own <= rank;
  for (int64_t i = 0; fits && i < own; ++i) fits = second[i] == 1 || second[i] == first[axis + i];
  if (!fits) return Err("its second input does not broadcast to the first at axis ", axis);
  return aligned == second ? b : TRY(c.Reshape(b, aligned));
}

namespace {

template <Op op>
Status ImportUnary(ImportContext& c) {
  if (auto folded = FoldIntegers(c)) return c.BindConstant(TRY(std::move(*folded)));
  return c.Bind(TRY(c.Apply(op, TRY(c.Tensor(0)))));
}

template <Op op>
Status ImportBinary(ImportContext& c) {
  auto folded = c.HasAttr("axis") ? std::nullopt : FoldIntegers(c);  // FoldIntegers ignores axis
  if (folded) return c.BindConstant(TRY(std::move(*folded)));
  ValueId a = TRY(c.Tensor(0)), b = TRY(SecondOperand(c, a));
  return c.Bind(TRY(c.Apply(op, a, b)));
}

// Returns an error if constants of integers are divided by 0. A kernel gives some result instead (docs/ir.md).
Status CheckDivisor(const ImportContext& c) {
  const TensorValue *a = c.Constant(0), *b = c.Constant(1);
  if (!a || !b || !b->spec.dtype.IsInt()) return {};
  for (int64_t i = 0; i < b->spec.NumElements(); ++i) {
    if (b->Number(i) == 0) return Err("integer division by 0");
  }
  return {};
}

Status ImportDiv(ImportContext& c) {
  TRY(CheckDivisor(c));
  return ImportBinary<Op::kDiv>(c);
}

template <Op op>
Status ImportSwapped(ImportContext& c) {
  auto folded = c.HasAttr("axis") ? std::nullopt : FoldIntegers(c);  // FoldIntegers ignores axis
  if (folded) return c.BindConstant(TRY(std::move(*folded)));
  ValueId a = TRY(c.Tensor(0)), b = TRY(SecondOperand(c, a));
  return c.Bind(TRY(c.Apply(op, b, a)));
}

bool HoldsNoNan(const ImportContext& c, ValueId v) {
  if (!c.Type(v).IsFloat()) return true;
  constexpr int64_t kFew = 1024;  // larger constants are not searched
  const Operand operand = c.ToOperand(v);
  const auto* value = std::get_if<TensorValue>(&operand.tensor);
  if (!value || value->spec.NumElements() > kFew) return false;
  for (int64_t i = 0; i < value->spec.NumElements(); ++i) {
    if (std::isnan(value->Number(i))) return false;
  }
  return true;
}

// Returns the maximum or minimum, which is NaN where an operand is NaN. The graph's operator keeps only a NaN of its
// second operand.
template <Op op>
Result<ValueId> Extreme(ImportContext& c, ValueId a, ValueId b) {
  if (HoldsNoNan(c, b)) std::swap(a, b);
  ValueId y = TRY(c.Apply(op, a, b));
  return HoldsNoNan(c, a) ? y : c.Where(TRY(c.Apply(Op::kIsNan, a)), a, y);
}

template <Op op>
Result<ValueId> CombinedInputs(ImportContext& c) {
  std::vector<ValueId> inputs = TRY(c.AllTensors());
  ValueId all = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    all = op == Op::kMax || op == Op::kMin ? TRY(Extreme<op>(c, all, inputs[i])) : TRY(c.Apply(op, all, inputs[i]));
  }
  return all;
}

template <Op op>
Status ImportVariadic(ImportContext& c) {
  if (auto folded = FoldIntegers(c)) return c.BindConstant(TRY(std::move(*folded)));
  return c.Bind(TRY(CombinedInputs<op>(c)));
}

Status ImportMean(ImportContext& c) {
  ValueId sum = TRY(CombinedInputs<Op::kAdd>(c));
  return c.Bind(TRY(c.ApplyNumber(Op::kDiv, sum, static_cast<double>(c.node().inputs.size()))));
}

Status ImportReciprocal(ImportContext& c) { return c.Bind(TRY(c.ApplyToNumber(Op::kDiv, 1, TRY(c.Tensor(0))))); }

Status ImportSign(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  ValueId positive = TRY(c.ApplyToNumber(Op::kLess, 0, x));
  if (c.Type(x).code == TypeCode::kUInt) return c.Bind(TRY(c.Cast(positive, c.Type(x))));
  ValueId negative = TRY(c.ApplyNumber(Op::kLess, x, 0));
  ValueId rest = TRY(c.Where(negative, c.Number(-1, x), x));  // 0 or NaN
  return c.Bind(TRY(c.Where(positive, c.Number(1, x), rest)));
}

// Returns the remainder of f32 values, with the sign of the dividend, computed in f64. This is a long division: the
// quotient has at most 277 bits, and each step subtracts the multiple of the divisor for the next 28 bits of the
// quotient, highest first. A partial quotient has at most 28 bits and the divisor 24, together fewer than the 53 of an
// f64, so all products and differences are exact.
Result<ValueId> FloatRemainder(ImportContext& c, ValueId a, ValueId b) {
  const DType type = c.Type(a), wide = DType::Float(64);
  if (type != DType::Float(32)) return Err("is supported on f32 and integers, not on ", c.builder.Spec(a).Text());
  ValueId rest = TRY(c.Apply(Op::kAbs, TRY(c.Cast(a, wide))));
  // Replace an infinite divisor by a finite number above all f32 values, which gives the same remainder. The divisor is
  // the second operand of min, so that NaN stays NaN.
  ValueId divisor = TRY(c.ApplyToNumber(Op::kMin, 0x1p200, TRY(c.Apply(Op::kAbs, TRY(c.Cast(b, wide))))));
  constexpr int kBits = 28;
  for (int exponent = 9 * kBits; exponent >= 0; exponent -= kBits) {
    ValueId multiple = TRY(c.ApplyNumber(Op::kMul, divisor, std::ldexp(1.0, exponent)));
    ValueId quotient = TRY(c.Apply(Op::kFloor, TRY(c.Apply(Op::kDiv, rest, multiple))));
    rest = TRY(c.Apply(Op::kSub, rest, TRY(c.Apply(Op::kMul, quotient, multiple))));
  }
  rest = TRY(c.Cast(rest, type));
  return c.Where(TRY(c.ApplyNumber(Op::kLess, a, 0)), TRY(c.Apply(Op::kNeg, rest)), rest);
}

Status ImportMod(ImportContext& c) {
  TRY(CheckDivisor(c));
  if (auto folded = FoldIntegers(c)) return c.BindConstant(TRY(std::move(*folded)));
  ValueId a = TRY(c.Tensor(0)), b = TRY(c.Tensor(1));
  const int64_t fmod = TRY(c.Int("fmod", 0));
  if (fmod != 0 && fmod != 1) return Err("fmod must be 0 or 1, not ", fmod);
  bool dividends_sign = fmod == 1;
  if (c.Type(a).IsFloat() && dividends_sign) return c.Bind(TRY(FloatRemainder(c, a, b)));
  if (!c.Type(a).IsInt()) return Err("is for integers unless fmod is set, not for ", c.builder.Spec(a).Text());
  if (!dividends_sign) return c.Bind(TRY(c.Apply(Op::kMod, a, b)));
  ValueId whole = TRY(c.Apply(Op::kMul, TRY(c.Apply(Op::kDiv, a, b)), b));
  return c.Bind(TRY(c.Apply(Op::kSub, a, whole)));
}

Status ImportClip(ImportContext& c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ValueId x = TRY(c.Tensor(0));
  ClipAttrs attrs{-kInfinity, kInfinity};
  if (c.opset < 11) {
    attrs.min = TRY(c.Float("min", std::numeric_limits<float>::lowest()));
    attrs.max = TRY(c.Float("max", std::numeric_limits<float>::max()));
    return c.Bind(TRY(c.Emit(Op::kClip, {x}, attrs)));
  }
  bool constant = (!c.Has(1) || c.Constant(1)) && (!c.Has(2) || c.Constant(2));
  if (constant && c.Type(x) == DType::Float(32)) {
    if (c.Has(1)) attrs.min = static_cast<float>(TRY(c.ConstantNumber(1, "min")));
    if (c.Has(2)) attrs.max = static_cast<float>(TRY(c.ConstantNumber(2, "max")));
    return c.Bind(TRY(c.Emit(Op::kClip, {x}, attrs)));
  }
  if (c.Has(1)) x = TRY(c.Apply(Op::kMax, TRY(c.Tensor(1)), x));
  if (c.Has(2)) x = TRY(c.Apply(Op::kMin, TRY(c.Tensor(2)), x));
  return c.Bind(x);
}

Status ImportIsInf(ImportContext& c) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ValueId x = TRY(c.Tensor(0));
  bool negative = TRY(c.Int("detect_negative", 1)) != 0, positive = TRY(c.Int("detect_positive", 1)) != 0;
  if (!c.Type(x).IsFloat()) return Err("is for floats, not ", c.builder.Spec(x).Text());
  if (negative && positive) x = TRY(c.Apply(Op::kAbs, x));
  if (!negative && !positive) {
    ValueId nothing = c.builder.AddConstant("", TensorValue::FromNumbers(DType::Bool(), {}, {0}));
    return c.Bind(TRY(c.Emit(Op::kBroadcastTo, {nothing}, ReshapeAttrs{c.ShapeOfValue(x)})));
  }
  return c.Bind(TRY(c.ApplyNumber(Op::kEqual, x, positive ? kInfinity : -kInfinity)));
}

// Imports a bitwise operator on integers. The graph's operator also takes bools, which ONNX does not allow here.
template <Op op>
Status ImportBits(ImportContext& c) {
  std::vector<ValueId> inputs = TRY(c.AllTensors());
  if (c.Type(inputs[0]).IsBool()) return Err("is for integers, not for ", c.builder.Spec(inputs[0]).Text());
  return c.Bind(TRY(c.Emit(op, inputs)));
}

Status ImportBitShift(ImportContext& c) {
  ValueId a = TRY(c.Tensor(0)), b = TRY(c.Tensor(1));
  std::string direction = TRY(c.String("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT") return Err("direction '", direction, "' is neither LEFT nor RIGHT");
  return c.Bind(TRY(c.Apply(direction == "LEFT" ? Op::kShiftLeft : Op::kShiftRight, a, b)));
}

Status ImportBitCast(ImportContext& c) {
  ValueId x = TRY(c.StoredTensor(0));
  DType to = TRY(SupportedType(TRY(c.Int("to", 0))));
  if (c.Type(x) == to) return c.Bind(TRY(c.Reshape(x, c.ShapeOfValue(x))));
  return c.Bind(TRY(c.Emit(Op::kBitCast, {x}, CastAttrs{to})));
}

Status ImportWhere(ImportContext& c) {
  if (auto folded = FoldIntegers(c)) return c.BindConstant(TRY(std::move(*folded)));
  ValueId condition = TRY(c.Tensor(0)), a = TRY(c.Tensor(1)), b = TRY(c.Tensor(2));
  return c.Bind(TRY(c.Where(condition, a, b)));
}

// Converts an integer to type `to` as kernels do, by keeping the low bits.
double Wrapped(double number, DType to) {
  if (to.bits == 64) return number;
  double range = std::ldexp(1.0, to.bits), least = to.code == TypeCode::kUInt ? 0 : -range / 2;
  return number - std::floor((number - least) / range) * range;
}

Status CastTo(ImportContext& c, DType to) {
  const TensorValue* value = c.Constant(0);
  constexpr int64_t kFew = 1024;  // enough for shape arithmetic; a kernel converts larger constants
  if (value && value->spec.NumElements() <= kFew) {
    if (value->spec.dtype == to) return c.BindConstant(*value);
    std::vector<double> numbers;
    for (int64_t i = 0; i < value->spec.NumElements(); ++i) {
      numbers.push_back(value->Number(i));
      // If a double may not represent the resulting integer, a kernel does the cast. One such case is a negative number
      // cast to u64, which wraps to nearly 2^64.
      const bool wraps = value->spec.dtype.IsInt() && to == DType::UInt(64) && numbers.back() < 0;
      if (to.IsInt() && (wraps || !(std::abs(numbers.back()) < 9e15))) return c.Bind(TRY(c.Cast(TRY(c.Tensor(0)), to)));
      if (value->spec.dtype.IsInt() && to.IsInt()) numbers.back() = Wrapped(numbers.back(), to);
    }
    return c.BindConstant(TensorValue::FromNumbers(to, value->spec.shape, numbers));
  }
  return c.Bind(TRY(c.Cast(TRY(c.Tensor(0)), to)));
}

Status ImportCast(ImportContext& c) { return CastTo(c, TRY(SupportedType(TRY(c.Int("to", 0))))); }

Status ImportCastLike(ImportContext& c) { return CastTo(c, TRY(c.StoredType(1))); }

}  // namespace

const std::vector<OperatorRow>& MathOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Sqrt", 6, 28, ImportUnary<Op::kSqrt>},
      {"Exp", 6, 28, ImportUnary<Op::kExp>},
      {"Log", 6, 28, ImportUnary<Op::kLog>},
      {"Erf", 9, 28, ImportUnary<Op::kErf>},
      {"Abs", 6, 28, ImportUnary<Op::kAbs>},
      {"Neg", 6, 28, ImportUnary<Op::kNeg>},
      {"Floor", 6, 28, ImportUnary<Op::kFloor>},
      {"Ceil", 6, 28, ImportUnary<Op::kCeil>},
      {"Round", 11, 28, ImportUnary<Op::kRound>},
      {"Reciprocal", 6, 28, ImportReciprocal},
      {"Sign", 9, 28, ImportSign},
      {"Sin", 7, 28, ImportUnary<Op::kSin>},
      {"Cos", 7, 28, ImportUnary<Op::kCos>},
      {"Tan", 7, 28, ImportUnary<Op::kTan>},
      {"Asin", 7, 28, ImportUnary<Op::kAsin>},
      {"Acos", 7, 28, ImportUnary<Op::kAcos>},
      {"Atan", 7, 28, ImportUnary<Op::kAtan>},
      {"Sinh", 9, 28, ImportUnary<Op::kSinh>},
      {"Cosh", 9, 28, ImportUnary<Op::kCosh>},
      {"Asinh", 9, 28, ImportUnary<Op::kAsinh>},
      {"Acosh", 9, 28, ImportUnary<Op::kAcosh>},
      {"Atanh", 9, 28, ImportUnary<Op::kAtanh>},
      {"Clip", 6, 28, ImportClip},
      {"Add", 6, 28, ImportBinary<Op::kAdd>},
      {"Sub", 6, 28, ImportBinary<Op::kSub>},
      {"Mul", 6, 28, ImportBinary<Op::kMul>},
      {"Div", 6, 28, ImportDiv},
      {"Mod", 10, 28, ImportMod},
      {"Pow", 6, 28, ImportPow},
      {"Sum", 6, 28, ImportVariadic<Op::kAdd>},
      {"Max", 6, 28, ImportVariadic<Op::kMax>},
      {"Min", 6, 28, ImportVariadic<Op::kMin>},
      {"Mean", 6, 28, ImportMean},
      {"Equal", 6, 28, ImportBinary<Op::kEqual>},
      {"Less", 6, 28, ImportBinary<Op::kLess>},
      {"LessOrEqual", 12, 28, ImportBinary<Op::kLessEqual>},
      {"Greater", 6, 28, ImportSwapped<Op::kLess>},
      {"GreaterOrEqual", 12, 28, ImportSwapped<Op::kLessEqual>},
      {"And", 6, 28, ImportBinary<Op::kAnd>},
      {"Or", 6, 28, ImportBinary<Op::kOr>},
      {"Xor", 6, 28, ImportBinary<Op::kXor>},
      {"Not", 1, 28, ImportUnary<Op::kNot>},
      {"BitwiseAnd", 18, 28, ImportBits<Op::kAnd>},
      {"BitwiseOr", 18, 28, ImportBits<Op::kOr>},
      {"BitwiseXor", 18, 28, ImportBits<Op::kXor>},
      {"BitwiseNot", 18, 28, ImportBits<Op::kNot>},
      {"BitShift", 11, 28, ImportBitShift},
      {"BitCast", 26, 28, ImportBitCast, true},
      {"Where", 9, 28, ImportWhere},
      {"IsNaN", 9, 28, ImportUnary<Op::kIsNan>},
      {"IsInf", 10, 28, ImportIsInf},
      {"Cast", 6, 28, ImportCast, true},
      {"CastLike", 15, 28, ImportCastLike, true},
  };
  return rows;
}

}  // namespace autotune::onnx_import
