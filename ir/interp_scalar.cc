#include "ir/interp_scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/float_math.h"
#include "ir/int_math.h"

namespace autotune::interp {
namespace {

Scalar Int(int64_t value) { return {value, 0}; }
Scalar Float(double value) { return {0, value}; }

// Returns a * b + c with one rounding, for formats whose products are exact in double. The sum is first rounded to odd
// in double. Rounding that to at most 51 bits gives the same result as rounding the exact sum.
double FusedNarrow(double a, double b, double c, DType dtype) {
  double p = a * b, s = p + c;
  if (std::isfinite(s)) {
    double t = s - p;
    double error = (p - (s - t)) + (c - t);  // Knuth's two-sum: s + error is exact
    if (error != 0 && (std::bit_cast<uint64_t>(s) & 1) == 0) {
      s = std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
    }
  }
  return RoundFloat(s, dtype);
}

// Returns false if an f64 argument of sin, cos or tan is beyond kMostAngle. The result is then NaN, as in
// lower/math.cc.
bool IsReducible(Op op, double x, DType dtype) {
  const bool periodic = op == Op::kSin || op == Op::kCos || op == Op::kTan;
  return !periodic || dtype.bits < 64 || std::abs(x) <= kMostAngle;
}

// The trigonometric and hyperbolic functions and their inverses.
double (*FunctionOfAngle(Op op))(double) {
  switch (op) {
    case Op::kSin:
      return std::sin;
    case Op::kCos:
      return std::cos;
    case Op::kTan:
      return std::tan;
    case Op::kAsin:
      return std::asin;
    case Op::kAcos:
      return std::acos;
    case Op::kAtan:
      return std::atan;
    case Op::kSinh:
      return std::sinh;
    case Op::kCosh:
      return std::cosh;
    case Op::kAsinh:
      return std::asinh;
    case Op::kAcosh:
      return std::acosh;
    default:
      return std::atanh;
  }
}

// Computes 1 / (1 + exp(-x)). A negative x takes the form exp(x) / (1 + exp(x)), since exp(-x) could overflow.
double Sigmoid(double x, DType dtype) {
  if (x < LeastExponent(dtype.bits)) return 0;
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

double TimesPowerOfTwo(double x, double n) {
  return std::isnan(n) ? n : std::scalbn(x, static_cast<int>(std::clamp(n, -5000.0, 5000.0)));
}

}  // namespace

Scalar ApplyBinary(BinaryOp op, DType dtype, Scalar a, Scalar b, std::string& error) {
  if (!dtype.IsFloat()) {
    int64_t unused;
    bool overflow = false;
    if (dtype.IsIndex()) {
      overflow = (op == BinaryOp::kAdd && __builtin_add_overflow(a.i, b.i, &unused)) ||
                 (op == BinaryOp::kSub && __builtin_sub_overflow(a.i, b.i, &unused)) ||
                 (op == BinaryOp::kMul && __builtin_mul_overflow(a.i, b.i, &unused));
    }
    auto value = FoldInt(op, a.i, b.i, dtype);
    if (!value || overflow) {
      error = "undefined: " + std::to_string(a.i) + " " + std::string(ToText(op)) + " " + std::to_string(b.i) + " of " +
              dtype.Text();
      return {};
    }
    return Int(*value);
  }
  double x = a.f, y = b.f;
  switch (op) {
    case BinaryOp::kAdd:
      return Float(RoundFloat(x + y, dtype));
    case BinaryOp::kSub:
      return Float(RoundFloat(x - y, dtype));
    case BinaryOp::kMul:
      return Float(RoundFloat(x * y, dtype));
    case BinaryOp::kDiv:
      return Float(RoundFloat(x / y, dtype));
    case BinaryOp::kMin:
      return x < y ? a : b;
    case BinaryOp::kMax:
      return x > y ? a : b;
    case BinaryOp::kEq:
      return Int(x == y);
    case BinaryOp::kNe:
      return Int(x != y);
    case BinaryOp::kLt:
      return Int(x < y);
    case BinaryOp::kLe:
      return Int(x <= y);
    case BinaryOp::kGt:
      return Int(x > y);
    case BinaryOp::kGe:
      return Int(x >= y);
    default:
      error = std::string(ToText(op)) + " is not for " + dtype.Text();
      return {};
  }
}

Scalar ApplyUnary(UnaryOp op, DType dtype, Scalar a) {
  if (op == UnaryOp::kNot) return Int(!a.i);
  return dtype.IsFloat() ? Float(-a.f) : Int(WrapTo(0 - static_cast<uint64_t>(a.i), dtype));
}

// Truncates to a signed integer. NaN and numbers that T cannot hold become the least value of T.
template <typename T>
T ToSigned(double x) {
  constexpr T kLeast = std::numeric_limits<T>::min();
  return std::abs(x) < -static_cast<double>(kLeast) ? static_cast<T>(x) : kLeast;
}

// Truncates to i32 or i64, and wraps the result around to the bits of the destination (docs/ir.md).
int64_t ToInt(double x, DType to) {
  if (to == DType::UInt(64)) {
    if (x < 0x1p63) return ToSigned<int64_t>(x);
    return static_cast<int64_t>(static_cast<uint64_t>(ToSigned<int64_t>(x - 0x1p63)) + (uint64_t{1} << 63));
  }
  const bool is_short = to.bits < 32 || to == DType::Int(32);
  return WrapTo(static_cast<uint64_t>(is_short ? ToSigned<int32_t>(x) : ToSigned<int64_t>(x)), to);
}

Scalar ApplyCast(DType from, DType to, Scalar a) {
  if (from.IsFloat()) {
    if (to.IsFloat()) return Float(RoundFloat(a.f, to));
    return Int(to.IsBool() ? a.f != 0 : ToInt(a.f, to));
  }
  if (to.IsFloat()) {
    bool is_unsigned = from == DType::UInt(64);
    if (to == DType::Float(32)) {
      return Float(is_unsigned ? static_cast<float>(static_cast<uint64_t>(a.i)) : static_cast<float>(a.i));
    }
    double wide = is_unsigned ? static_cast<double>(static_cast<uint64_t>(a.i)) : static_cast<double>(a.i);
    return Float(RoundFloat(wide, to));
  }
  return Int(to.IsBool() ? a.i != 0 : WrapTo(static_cast<uint64_t>(a.i), to));
}

double FusedMultiplyAdd(double a, double b, double c, DType dtype) {
  return dtype.bits == 64 ? std::fma(a, b, c) : FusedNarrow(a, b, c, dtype);
}

Scalar ApplyCall(Op op, DType from, DType to, const Scalar* args, std::string& error) {
  if (op == Op::kReinterpret) {
    uint64_t mask = from.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << from.bits) - 1;
    uint64_t bits = from.IsFloat() ? FloatToBits(args[0].f, from) : static_cast<uint64_t>(args[0].i) & mask;
    return to.IsFloat() ? Float(FloatFromBits(bits, to)) : Int(WrapTo(bits, to));
  }
  if (op == Op::kAbs && !from.IsFloat()) {
    bool negative = from.code != TypeCode::kUInt && args[0].i < 0;
    return Int(negative ? WrapTo(0 - static_cast<uint64_t>(args[0].i), from) : args[0].i);
  }
  if (!from.IsFloat()) {
    error = std::string(Row(op).name) + " is not for " + from.Text();
    return {};
  }
  double x = args[0].f;
  auto rounded = [&](double value) { return Float(RoundFloat(value, to)); };
  switch (op) {
    case Op::kExp:
      return rounded(std::exp(x));
    case Op::kExpOfNegative:
      return rounded(x < LeastExponent(to.bits) ? 0 : x > 0 ? 1 : std::exp(x));
    case Op::kLog:
      return rounded(std::log(x));
    case Op::kTanh:
      return rounded(std::tanh(x));
    case Op::kSigmoid:
      return rounded(Sigmoid(x, to));
    case Op::kErf:
      return rounded(std::erf(x));
    case Op::kPow:
      return rounded(std::pow(x, args[1].f));
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAtan:
    case Op::kSinh:
    case Op::kCosh:
    case Op::kAsinh:
    case Op::kAcosh:
    case Op::kAtanh:
      return rounded(IsReducible(op, x, to) ? FunctionOfAngle(op)(x) : NAN);
    case Op::kSqrt:
      return rounded(std::sqrt(x));
    case Op::kAbs:
      return rounded(std::abs(x));
    case Op::kFloor:
      return rounded(std::floor(x));
    case Op::kCeil:
      return rounded(std::ceil(x));
    case Op::kRound:
      return rounded(std::nearbyint(x));
    case Op::kFma: {
      double b = args[1].f, c = args[2].f;
      return Float(FusedMultiplyAdd(x, b, c, to));
    }
    case Op::kLdexp:
      return rounded(TimesPowerOfTwo(x, std::floor(args[1].f)));
    case Op::kIsNan:
      return Int(std::isnan(x));
    case Op::kTf32:
      return Float(RoundToTf32(x));
    case Op::kReinterpret:
    case Op::kPrefetch:
    case Op::kPrefetchFar:
    case Op::kPrefetchWrite:
    case Op::kBarrier:
    case Op::kAsync:
    case Op::kAsyncCommit:
    case Op::kAsyncWait:
    case Op::kMma:
    case Op::kDot:
      break;
  }
  error = std::string(Row(op).name) + " has no value";
  return {};
}

}  // namespace autotune::interp
