// Imports Pow: floats by the graph's pow or, for some constant exponents, by products and roots; integers exactly, by
// repeated squaring.
#include <cmath>
#include <limits>

#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {
namespace {

// Returns x to the power 0.5: the square root, but +0 where x is -0, and +inf where x is -inf.
Result<ValueId> HalfPower(ImportContext& c, ValueId x) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ValueId root = TRY(c.Apply(Op::kSqrt, TRY(c.Apply(Op::kAbs, x))));
  ValueId negative = TRY(c.ApplyNumber(Op::kLess, x, 0)), finite = TRY(c.ApplyToNumber(Op::kLess, -kInfinity, x));
  ValueId undefined = TRY(c.Apply(Op::kAnd, negative, finite));
  return c.Where(undefined, c.Number(std::numeric_limits<double>::quiet_NaN(), x), root);
}

// Returns x to the power 1, 0.5, -1, 2 or 3 without pow, which is less exact and far slower.
Result<ValueId> ConstantPower(ImportContext& c, ValueId x, double power) {
  if (power == 1) return x;
  if (power == 0.5) return HalfPower(c, x);
  if (power == -1) return c.ApplyToNumber(Op::kDiv, 1, x);
  ValueId square = TRY(c.Apply(Op::kMul, x, x));
  if (power == 2) return square;
  return c.Apply(Op::kMul, square, x);
}

// Computes a power of floats in f64 if f32 cannot hold the exponent: a large integer would lose its parity, and with it
// the sign of the result.
Result<ValueId> FloatPower(ImportContext& c, ValueId x, ValueId exponent) {
  const DType type = c.Type(x), given = c.Type(exponent);
  const bool narrow = given.IsFloat() ? given.bits <= 32 : given.bits <= 16;
  const DType compute = narrow ? type : DType::Float(64);
  x = TRY(c.Cast(x, compute));
  exponent = TRY(c.Cast(exponent, compute));
  return c.Cast(TRY(c.Apply(Op::kPow, x, exponent)), type);
}

// Computes a power of integers with an exponent that is a float: in f64, truncated as by a cast.
Result<ValueId> RoundedPower(ImportContext& c, ValueId x, ValueId exponent) {
  const DType type = c.Type(x), wide = DType::Float(64);
  x = TRY(c.Cast(x, wide));
  exponent = TRY(c.Cast(exponent, wide));
  ValueId power = TRY(c.Apply(Op::kPow, x, exponent));
  // Round results that are nearly whole, since the cast truncates.
  ValueId whole = TRY(c.Apply(Op::kRound, power));
  ValueId distance = TRY(c.Apply(Op::kAbs, TRY(c.Apply(Op::kSub, power, whole))));
  ValueId slack = TRY(c.ApplyNumber(Op::kMul, TRY(c.Apply(Op::kAbs, power)), 1e-11));
  power = TRY(c.Where(TRY(c.Apply(Op::kLessEqual, distance, slack)), whole, power));
  return c.Cast(power, type);
}

// The exponents of a power of integers that are constants.
struct KnownExponents {
  int bits = 0;           // number of bits of the largest one
  bool negative = false;  // whether one is negative
};
KnownExponents Examine(const TensorValue& exponents) {
  KnownExponents known;
  for (int64_t i = 0; i < exponents.spec.NumElements(); ++i) {
    const double e = exponents.Number(i);
    known.negative |= e < 0;
    known.bits = std::max(known.bits, e > 0 ? std::ilogb(e) + 1 : 0);
  }
  // An i64 just below a power of two may be rounded up to it; then there is one bit too many, which is 0.
  const int most = exponents.spec.dtype.bits - (exponents.spec.dtype.code == TypeCode::kInt ? 1 : 0);
  return {std::min(known.bits, most), known.negative};
}

// Returns x to the power of the lowest `bits` bits of the exponents, by repeated squaring. Products wrap around.
Result<ValueId> RepeatedSquares(ImportContext& c, ValueId x, ValueId exponent, int bits) {
  ValueId result = c.Number(1, x), square = x;
  for (int k = 0; k < bits; ++k) {
    if (k > 0) square = TRY(c.Apply(Op::kMul, square, square));
    ValueId bit = TRY(c.ApplyNumber(Op::kAnd, exponent, std::ldexp(1.0, k)));
    ValueId clear = TRY(c.ApplyNumber(Op::kEqual, bit, 0));
    ValueId factor = TRY(c.Where(clear, c.Number(1, x), square));
    result = k == 0 ? factor : TRY(c.Apply(Op::kMul, result, factor));
  }
  return result;
}

// Corrects `power` where the exponent is negative: 1 and -1 stay as they are, 0 becomes the least value of the type (so
// does 1 / 0 as a float, cast to an integer), and the inverse of any other integer is truncated to 0.
Result<ValueId> WithInverses(ImportContext& c, ValueId x, ValueId exponent, ValueId power) {
  const DType type = c.Type(x);
  const bool is_signed = type.code == TypeCode::kInt;
  const double least = is_signed ? -std::ldexp(1.0, type.bits - 1) : 0;
  ValueId unit = TRY(c.ApplyNumber(Op::kEqual, x, 1));
  if (is_signed) unit = TRY(c.Apply(Op::kOr, unit, TRY(c.ApplyNumber(Op::kEqual, x, -1))));
  ValueId inverse = TRY(c.Where(TRY(c.ApplyNumber(Op::kEqual, x, 0)), c.Number(least, x), c.Number(0, x)));
  inverse = TRY(c.Where(unit, power, inverse));
  return c.Where(TRY(c.ApplyNumber(Op::kLess, exponent, 0)), inverse, power);
}

Result<ValueId> IntegerPower(ImportContext& c, ValueId x, ValueId exponent, const TensorValue* constant) {
  const DType type = c.Type(exponent);
  const bool is_signed = type.code == TypeCode::kInt;
  KnownExponents known{type.bits - (is_signed ? 1 : 0), is_signed};
  if (constant) known = Examine(*constant);
  // The lowest bit tells 1 and -1 to a negative power apart.
  ValueId power = TRY(RepeatedSquares(c, x, exponent, std::max(known.bits, 1)));
  return known.negative ? WithInverses(c, x, exponent, power) : power;
}

// Returns an exponent that is a float but whole as an i64 constant; null if it is not.
std::optional<TensorValue> WholeExponent(const TensorValue& exponent) {
  constexpr double kMostExact = 0x1p53;
  std::vector<int64_t> whole;
  for (int64_t i = 0; i < exponent.spec.NumElements(); ++i) {
    const double e = exponent.Number(i);
    if (!(std::abs(e) <= kMostExact) || e != std::floor(e)) return std::nullopt;
    whole.push_back(static_cast<int64_t>(e));
  }
  return TensorValue::Of<int64_t>(exponent.spec.shape, whole);
}

Result<ValueId> PowerOfInteger(ImportContext& c, ValueId x, ValueId exponent, const TensorValue* constant) {
  if (c.Type(exponent).IsInt()) return IntegerPower(c, x, exponent, constant);
  const std::optional<TensorValue> whole = constant ? WholeExponent(*constant) : std::nullopt;
  if (!whole) return RoundedPower(c, x, exponent);
  ValueId aligned = TRY(c.Reshape(c.builder.AddConstant("", *whole), c.ShapeOfValue(exponent)));
  return IntegerPower(c, x, aligned, &*whole);
}

}  // namespace

Status ImportPow(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const TensorValue* constant = c.Constant(1);
  if (constant && c.Type(x).IsFloat() && constant->spec.NumElements() == 1 && constant->spec.rank() <= c.Rank(x)) {
    const double p = constant->Number(0);
    if (p == 1 || p == 0.5 || p == -1 || p == 2 || p == 3) return c.Bind(TRY(ConstantPower(c, x, p)));
  }
  ValueId exponent = TRY(SecondOperand(c, x));
  if (!c.Type(x).IsInt()) return c.Bind(TRY(FloatPower(c, x, exponent)));
  return c.Bind(TRY(PowerOfInteger(c, x, exponent, constant)));
}

}  // namespace autotune::onnx_import
