// Elementary functions as IR arithmetic: branch-free, on scalars and vectors alike. docs/ir.md has their errors, which
// are tested. Results for NaN, infinities, signed zeros and denormals are right. The methods are the textbook ones
// (Muller, Elementary Functions): reduction by powers of two, then Taylor or Chebyshev series, or the best polynomial
// of their length, whose errors are below half an ulp.
#include <cmath>
#include <limits>

#include "lower/math_expressions.h"
#include "lower/passes.h"
#include "lower/tables.h"

namespace autotune {
namespace {

class Math : MathExpressions {
 public:
  Math(DType dtype, const Target& target) : MathExpressions(dtype, target) {}

  // Where the result is 0, computes exp(0) instead and selects 0 afterwards, since a product that underflows takes some
  // hundred cycles on x86. A product with a denormal result is as slow. Exp keeps such results; ExpOfNegative returns 0
  // instead.
  Expr Exp(const Expr& x) const {
    Expr vanishes = x < C(wide_ ? -746 : -104);
    Expr power = Scaled(ReduceExp(MakeMin(C(wide_ ? 710 : 89), MakeSelect(vanishes, C(0), x))));
    return MakeSelect(vanishes, C(0), power);
  }

  Expr ExpOfNegative(const Expr& x) const {
    Expr power = NormalExp(Clip(x, LeastExponent(type_.bits), 0));
    return MakeSelect(x < C(LeastExponent(type_.bits)), C(0), power);
  }

  Expr Log(const Expr& x) const {
    auto [e, f] = ReduceLog(x);
    // log(1 + f) = f - (f^2/2 - s*(f^2/2 + R)), s = f/(2+f), R = s^2*(2/3 + 2/5 s^2 + ...)
    Expr s = f / (C(2) + f), z = s * s;
    Expr r = z * Polynomial(LogSeries(1, wide_ ? 10 : 4), z);
    Expr half = C(0.5) * f * f;
    return LogOfAny(x, e * C(LogTwoHigh()) + (f - (half - (s * (half + r) + e * C(LogTwoLow())))));
  }

  // tanh|x| = t / (t + 2), t = expm1(2|x|)
  Expr Tanh(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x});
    Reduced e = ReduceExp(Clip(magnitude + magnitude, 0, wide_ ? 40 : 20));
    Expr power = PowerOfTwo(e.n);
    Expr t = Fma(power, e.p, power - C(1));
    return CopySign(t / (t + C(2)), x);
  }

  // e = exp(-|x|): 1 / (1 + e) or e / (1 + e)
  Expr Sigmoid(const Expr& x) const {
    Expr e = ExpOfNegative(-MakeCall(Op::kAbs, {x}));
    return MakeSelect(x < C(0), e, MakeSelect(MakeCall(Op::kIsNan, {x}), x, C(1))) / (C(1) + e);
  }

  // Taylor series below 1; above, 1 - exp(-x^2) * t * P(t) with t = 1 / (1 + x/2) (lower/tables.h).
  Expr Erf(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x});
    std::vector<double> series;
    double factorial = 1;
    for (int n = 0; n <= (wide_ ? 17 : 10); ++n) {
      if (n) factorial *= -n;
      series.push_back(2.0 / std::sqrt(std::acos(-1.0)) / (factorial * (2 * n + 1)));
    }
    Expr near = x * Polynomial(series, x * x);
    Expr clipped = MakeMin(C(wide_ ? 6.5 : 4.2), magnitude);
    Expr t = C(1) / (C(1) + C(0.5) * clipped);
    std::vector<double> table(std::begin(kErf), std::end(kErf));
    if (!wide_) table.assign(std::begin(kErfSingle), std::end(kErfSingle));
    Expr far = C(1) - NormalExp(-(clipped * clipped)) * (t * Polynomial(table, t));
    return MakeSelect(magnitude < C(1), near, CopySign(far, x));
  }

  // 1 + tanh(x) = 2 / (1 + exp(-2 x)), without cancellation. Where exp(2 x) is denormal the result is 0.
  Expr OnePlusTanh(const Expr& x) const {
    const double most = -LeastExponent(type_.bits);
    Expr exponent = -(x + x), power = NormalExp(Clip(exponent, -most, most));
    return MakeSelect(C(most) < exponent, C(0), C(2) / (C(1) + power));
  }

  // 1 - erf(x), without cancellation. Where the result would be denormal it is 0.
  Expr Erfc(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x}), most = C(wide_ ? kGreatestErfc : kGreatestErfcSingle);
    Expr tail = MakeSelect(most < magnitude, C(0), ErfcOfPositive(MakeMin(most, magnitude)));
    return MakeSelect(x < C(0), C(2) - tail, tail);
  }

  Expr Pow(const Expr& x, const Expr& y) const {
    if (wide_) return SignedPow(x, y, PositivePow(MakeCall(Op::kAbs, {x}), y));
    Math wide(DType::Float(64).WithLanes(type_.lanes), target_);
    Expr a = MakeCast(wide.type_, x), b = MakeCast(wide.type_, y);
    return MakeCast(type_, wide.SignedPow(a, b, wide.Exp(b * wide.Log(MakeCall(Op::kAbs, {a})))));
  }

  // Given `result` = |x|^y, returns x^y with the signs and the special cases of IEEE 754's pow.
  Expr SignedPow(const Expr& x, const Expr& y, Expr result) const {
    Expr magnitude = MakeCall(Op::kAbs, {x});
    Expr half = y * C(0.5);
    Expr is_integer = Eq(Floor(y), y);
    Expr is_odd = And(is_integer, MakeBinary(BinaryOp::kNe, Floor(half), half));
    Expr negative = MakeBinary(BinaryOp::kLt, Bits(x), I(0));  // -0 too
    result = MakeSelect(And(negative, is_odd), -result, result);
    Expr finite = MakeCall(Op::kAbs, {x}) < C(kInf);
    result = MakeSelect(And(And(x < C(0), finite), Not(is_integer)), C(kNan), result);
    Expr infinite_y = Eq(MakeCall(Op::kAbs, {y}), C(kInf));
    Expr is_one = Or(Or(Eq(x, C(1)), Eq(y, C(0))), And(Eq(magnitude, C(1)), infinite_y));
    return MakeSelect(is_one, C(1), result);
  }

  // sin, cos and tan of x = q * pi/2 + r with |r| <= pi/4, from the series of sin r and cos r. An f32 is computed in
  // f64.
  Expr Circular(Op op, const Expr& x) const {
    if (wide_) {
      Expr y = OfAngle(op, x, ReduceAngle(MakeCall(Op::kAbs, {x})));
      return MakeSelect(MakeCall(Op::kAbs, {x}) <= C(kMostAngle), y, C(kNan));
    }
    Math wide(DType::Float(64).WithLanes(type_.lanes), target_);
    Expr a = MakeCast(wide.type_, x);
    Expr y = wide.OfAngle(op, a, wide.ReduceAnySingle(MakeCall(Op::kAbs, {a})));
    return MakeCast(type_, MakeSelect(MakeCall(Op::kAbs, {a}) < wide.C(kInf), y, wide.C(kNan)));
  }

  // Computes `function` in f64 if x is an f32, since its formula loses a few bits.
  Expr InWide(Expr (Math::*function)(const Expr&) const, const Expr& x) const {
    if (wide_) return (this->*function)(x);
    Math wide(DType::Float(64).WithLanes(type_.lanes), target_);
    return MakeCast(type_, (wide.*function)(MakeCast(wide.type_, x)));
  }

  // Above 1, atan|x| = pi/2 - atan(1/|x|). Above tan(pi/12), atan(t) = pi/6 + atan((t sqrt 3 - 1) / (t + sqrt 3)). The
  // rest is the series of atan.
  Expr Atan(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x}), above = C(1) < magnitude;
    Expr t = MakeSelect(above, C(1) / magnitude, magnitude), large = C(kTanPi12) < t;
    Expr u = MakeSelect(large, Fma(t, C(std::sqrt(3.0)), C(-1)) / (t + C(std::sqrt(3.0))), t), z = u * u;
    std::vector<double> series;  // of atan(u) / u - 1, without the first z
    for (int n = 1; n <= 14; ++n) series.push_back((n % 2 ? -1.0 : 1.0) / (2 * n + 1));
    Expr near = Fma(u * z, Polynomial(series, z), u);
    Expr angle = MakeSelect(large, C(kPi / 6) + near, near);
    return CopySign(MakeSelect(above, C(kPi / 2) - (angle - C(kPiLow / 2)), angle), x);
  }
  // By the sides of a right triangle. Unlike 1 - x^2, the factors 1 - x and 1 + x keep their digits near 1 and -1.
  Expr Asin(const Expr& x) const { return Atan(x / MakeCall(Op::kSqrt, {(C(1) - x) * (C(1) + x)})); }
  Expr Acos(const Expr& x) const { return C(2) * Atan(MakeCall(Op::kSqrt, {(C(1) - x) / (C(1) + x)})); }

  // t = expm1|x|: sinh|x| = (t + t / (t + 1)) / 2, cosh x = 1 + t^2 / (2 (t + 1)); for large x, exp(x/2)^2 / 2.
  Expr Sinh(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x}), t = ExpMinusOne(magnitude);
    Expr near = C(0.5) * (t + t / (t + C(1)));
    return CopySign(MakeSelect(magnitude < C(kMostDirect), near, HalfExp(magnitude)), x);
  }
  Expr Cosh(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x}), t = ExpMinusOne(magnitude);
    Expr near = C(1) + t * (C(0.5) * t / (t + C(1)));
    return MakeSelect(magnitude < C(kMostDirect), near, HalfExp(magnitude));
  }

  // The definitions are log(x + sqrt(x^2 + 1)), log(x + sqrt(x^2 - 1)) and log((1 + x) / (1 - x)) / 2. They are
  // computed by log(1 + y), which keeps the digits of a small y. For large x the first two are log 2x.
  Expr Asinh(const Expr& x) const {
    Expr a = MakeCall(Op::kAbs, {x}), square = a * a;
    Expr near = LogOnePlus(a + square / (C(1) + MakeCall(Op::kSqrt, {square + C(1)})));
    return CopySign(MakeSelect(C(kLogOfTwice) < a, Log(a) + C(kLogTwo), near), x);
  }
  Expr Acosh(const Expr& x) const {
    Expr t = x - C(1), near = LogOnePlus(t + MakeCall(Op::kSqrt, {t * (t + C(2))}));
    return MakeSelect(x < C(1), C(kNan), MakeSelect(C(kLogOfTwice) < x, Log(x) + C(kLogTwo), near));
  }
  Expr Atanh(const Expr& x) const {
    Expr a = MakeCall(Op::kAbs, {x});
    Expr inside = C(0.5) * LogOnePlus(C(2) * a / (C(1) - a));
    return CopySign(MakeSelect(a < C(1), inside, MakeSelect(Eq(a, C(1)), C(kInf), C(kNan))), x);
  }

  // For targets without a rounding instruction. Adds and subtracts 2^23 (f64: 2^52), which rounds half to even.
  Expr Round(const Expr& x) const {
    Expr magnitude = MakeCall(Op::kAbs, {x});
    Expr big = C(wide_ ? 0x1p52 : 0x1p23);
    return MakeSelect(magnitude < big, CopySign((magnitude + big) - big, x), x);
  }
  Expr Floor(const Expr& x) const {
    if (HasRounding(target_)) return MakeCall(Op::kFloor, {x});
    Expr r = Round(x);
    return MakeSelect(x < r, r - C(1), r);
  }
  Expr Ceil(const Expr& x) const {
    Expr r = Round(x);
    return CopySign(MakeSelect(r < x, r + C(1), r), x);
  }

  // Returns x * 2^floor(y) for targets without the instruction, as a product with three powers of two. If the first
  // product may round, the later factors shift by more bits than the mantissa has, so nothing is rounded twice.
  Expr Ldexp(const Expr& x, const Expr& y) const {
    const int most = wide_ ? 1023 : 127, least = 1 - most, small = least + Mantissa() + 1;
    // Beyond these limits every result is infinite or zero. This order of min and max turns NaN into a number.
    Expr n = BitsBeyondMagic(MakeMin(MakeMax(C(2 * small + least), Floor(y)), C(3 * most)) + C(Magic()));
    Expr result = x;
    for (int i = 0; i < 2; ++i) {
      Expr step = MakeSelect(n < I(least), I(small), MakeSelect(I(most) < n, I(most), I(0)));
      result = result * PowerOfTwo(step);
      n = n - step;
    }
    return result * PowerOfTwo(n);
  }

  static bool HasRounding(const Target& target) {
    if (!target.triple.starts_with("x86_64")) return true;
    if (target.vector_bits > 128) return true;  // AVX implies SSE4.1
    for (const std::string& f : target.features) {
      if (f == "+sse4.1" || f == "+sse4.2") return true;
    }
    return target.cpu == "x86-64-v2";
  }

 private:
  static constexpr double kInf = std::numeric_limits<double>::infinity();
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

  static constexpr double kPi = 3.14159265358979323846, kPiLow = 1.2246467991473532e-16;  // pi in two parts
  static constexpr double kLogTwo = 0.69314718055994530942;
  static constexpr double kTanPi12 = 0.26794919243112270647;
  static constexpr double kMostDirect = 36;      // for larger x, exp(x) + exp(-x) rounds to exp(x)
  static constexpr double kLogOfTwice = 0x1p28;  // for larger x, x^2 + 1 rounds to x^2

  // An angle `quarter` * pi/2 + `rest` with |rest| <= pi/4. Only the last two bits of `quarter`, an i64, are valid.
  struct Angle {
    Expr quarter, rest;
  };
  // Reduces an angle a >= 0; beyond kMostAngle the result is finite, but has no meaning. Subtracts n * pi/2 in pieces
  // whose products with n are exact (Cody and Waite). All differences but the last are exact, too.
  Angle ReduceAngle(const Expr& a) const {
    Expr clipped = MakeMin(a, C(kMostAngle));  // this order turns NaN into a number
    Expr n = Floor(Fma(clipped, C(2 / kPi), C(0.5))), rest = clipped;
    for (double part : kHalfPi) rest = Fma(n, C(-part), rest);
    return {MakeCast(IntType(), n), rest};
  }
  // Reduces an f32 value a >= 0, given in f64, to a quarter turn. The result depends on a * 2/pi modulo 4 only. So 2/pi
  // is cut into words of 24 bits: the product of a and a word is exact in f64, and so is its remainder modulo 4. The
  // remainders are added in i64, in units of 2^-61. Such a sum wraps around at 8, a multiple of 4.
  Angle ReduceAnySingle(const Expr& a) const {
    constexpr int kFraction = 61, kWordBits = 24;
    Expr clipped = MakeMin(a, C(std::numeric_limits<float>::max())), sum;
    for (size_t k = 0; k < std::size(kTwoOverPi); ++k) {
      const double word = std::ldexp(kTwoOverPi[k], -kWordBits * static_cast<int>(k + 1));
      Expr remainder = clipped * C(word) - C(4) * Floor(clipped * C(word / 4));
      Expr fixed = MakeCast(IntType(), remainder * C(std::ldexp(1.0, kFraction)));
      sum = sum ? sum + fixed : fixed;
    }
    Expr quarter = MakeBinary(BinaryOp::kShr, sum + I(int64_t{1} << (kFraction - 1)), I(kFraction));
    Expr fraction = sum - MakeBinary(BinaryOp::kShl, quarter, I(kFraction));
    Expr rest = MakeCast(type_, fraction) * C(std::ldexp(kPi / 2, -kFraction));
    return {quarter, MakeSelect(clipped < C(kPi / 4), clipped, rest)};  // small angles keep their digits
  }
  // Returns sin, cos or tan (`op`) of x, given |x| reduced to `angle`.
  Expr OfAngle(Op op, const Expr& x, const Angle& angle) const {
    const Expr &r = angle.rest, &q = angle.quarter;
    Expr z = r * r;
    std::vector<double> sine, cosine;  // (sin(r) / r - 1) / z and (cos(r) - 1) / z
    double factorial = 1;
    for (int n = 2; n <= 17; ++n) {
      factorial *= n;
      (n % 2 ? sine : cosine).push_back(((n / 2) % 2 ? -1 : 1) / factorial);
    }
    Expr sin = Fma(r * z, Polynomial(sine, z), r), cos = Fma(z, Polynomial(cosine, z), C(1));
    auto bit = [&](const Expr& number, int64_t mask) {
      return MakeBinary(BinaryOp::kNe, MakeBinary(BinaryOp::kBitAnd, number, I(mask)), I(0));
    };
    Expr odd = bit(q, 1), negative = MakeBinary(BinaryOp::kLt, Bits(x), I(0));  // -0 too
    if (op == Op::kTan) {
      Expr tan = MakeSelect(odd, -cos, sin) / MakeSelect(odd, sin, cos);
      return MakeSelect(negative, -tan, tan);
    }
    Expr value = op == Op::kSin ? MakeSelect(odd, cos, sin) : MakeSelect(odd, sin, cos);
    value = MakeSelect(bit(op == Op::kSin ? q : q + I(1), 2), -value, value);
    return op == Op::kSin ? MakeSelect(negative, -value, value) : value;
  }

  // erfc(x) = exp(-x^2) * t * P(t) with t = 1 / (1 + kErfcScale x) (lower/tables.h), for 0 <= x <= kGreatestErfc. The
  // rounding error of x^2 would be the result's relative error, so x^2 is computed as a sum of two numbers.
  Expr ErfcOfPositive(const Expr& x) const {
    Pair square = Product(x, x);
    Expr t = C(1) / Fma(x, C(kErfcScale), C(1));
    std::vector<double> table(std::begin(kErfc), std::end(kErfc));
    if (!wide_) table.assign(std::begin(kErfcSingle), std::end(kErfcSingle));
    return NormalExp(-square.high, -square.low) * (t * Polynomial(table, t));
  }

  // exp(x) - 1 for 0 <= x <= kMostDirect.
  Expr ExpMinusOne(const Expr& x) const {
    Reduced e = ReduceExp(Clip(x, 0, kMostDirect + 1));
    Expr power = PowerOfTwo(e.n);
    return Fma(power, e.p, power - C(1));
  }
  Expr HalfExp(const Expr& x) const {
    Expr root = Exp(C(0.5) * x);
    return C(0.5) * root * root;
  }
  // log(1 + y) for y >= 0: the logarithm of the rounded sum, plus a correction for the rounding error of the sum.
  Expr LogOnePlus(const Expr& y) const {
    Expr sum = C(1) + y;
    return Log(sum) + (y - (sum - C(1))) / sum;
  }

  // x = (1 + f) * 2^e with 1 + f in [sqrt(1/2), sqrt(2)), for x > 0.
  struct ReducedLog {
    Expr e, f;
  };
  ReducedLog ReduceLog(const Expr& x) const {
    // Denormals are scaled into the normal range first.
    double least = wide_ ? 0x1p-1022 : 0x1p-126;
    int scale = wide_ ? 54 : 25;
    Expr small = x < C(least);
    Expr scaled = MakeSelect(small, x * C(std::ldexp(1.0, scale)), x);
    Expr bits = Bits(scaled);
    // Subtracting the bits of sqrt(1/2) puts the carry of the mantissa into the exponent.
    Expr shifted = bits - I(wide_ ? 0x3fe6a09e667f3bcd : 0x3f3504f3);
    Expr exponent = MakeBinary(BinaryOp::kShr, shifted, I(Mantissa()));
    Expr m = FromBits(bits - MakeBinary(BinaryOp::kShl, exponent, I(Mantissa())));
    return {MakeCast(type_, exponent) - MakeSelect(small, C(scale), C(0)), m - C(1)};
  }
  // 2/(2k+1) for k = first..last: log(1 + f) = 2s + s^3 * (2/3 + 2/5 s^2 + ...), s = f/(2+f).
  static std::vector<double> LogSeries(int first, int last) {
    std::vector<double> series;
    for (int k = first; k <= last; ++k) series.push_back(2.0 / (2 * k + 1));
    return series;
  }
  // Returns log(x) for any x; `result` is log(x) if x is positive and finite.
  Expr LogOfAny(const Expr& x, Expr result) const {
    result = MakeSelect(Eq(x, C(0)), C(-kInf), result);
    result = MakeSelect(x < C(0), C(kNan), result);
    return MakeSelect(x < C(kInf), result, MakeSelect(MakeCall(Op::kIsNan, {x}), x, C(kInf)));
  }

  // Computes log(x) in f64 to about 64 bits, for finite x > 0. More bits than an f64 has are needed: y * log(x) may be
  // 700, and exp turns its absolute error into a relative error.
  Pair LogInTwo(const Expr& x) const {
    auto [e, f] = ReduceLog(x);
    Expr divisor = C(2) + f, rest = f - (divisor - C(2));
    Expr s = f / divisor;
    Pair back = Product(s, divisor);
    Expr s_low = (((f - back.high) - back.low) - s * rest) / divisor;
    Pair z = Product(s, s);
    z.low = Fma(s + s, s_low, z.low);
    Pair t = Sum(C(2.0 / 3), z.high * Polynomial(LogSeries(2, 11), z.high));
    t.low = t.low + C(0x1.5555555555555p-55);  // 2/3 minus its f64 value
    Pair u = Product(z.high, t.high);
    u.low = u.low + z.high * t.low + z.low * t.high;
    Pair cube = Product(s, u.high);
    cube.low = cube.low + s * u.low + s_low * u.high;
    Pair twice = Sum(e * C(LogTwoHigh()), s + s);
    Pair all = Sum(twice.high, cube.high);
    return Sum(all.high, twice.low + all.low + cube.low + (s_low + s_low) + e * C(LogTwoLow()));
  }
  // x^y in f64 for x >= 0 or NaN.
  Expr PositivePow(const Expr& x, const Expr& y) const {
    Pair log = LogInTwo(x);
    Expr high = LogOfAny(x, log.high);
    Pair product = Product(y, high);
    Expr low = product.low + y * log.low;
    // Beyond 1000 exp is 0 or infinite, and `low` may be NaN.
    low = MakeSelect(MakeCall(Op::kAbs, {product.high}) < C(1000), low, C(0));
    return Scaled(ReduceExp(Clip(product.high, -746, 710), low));
  }

  // exp(x) = 2^n * (1 + p). `n` is an integer as wide as the float type; `number` is the same value as a float.
  struct Reduced {
    Expr n, number, p;
  };
  // Reduces x + rest, or x if `rest` is absent. |x| must be small, so that n has few bits.
  Reduced ReduceExp(const Expr& x, const Expr& rest = {}) const {
    Expr t = Fma(x, C(1.4426950408889634074), C(Magic()));
    Expr n = BitsBeyondMagic(t), nf = t - C(Magic());
    Expr r = Fma(nf, C(-LogTwoLow()), Fma(nf, C(-LogTwoHigh()), x));
    if (rest) r = r + rest;
    std::vector<double> series(std::begin(kExpSingle), std::end(kExpSingle));  // (exp(r) - 1 - r) / r^2
    if (wide_) series.clear();
    double factorial = 1;
    for (int k = 2; wide_ && k <= 13; ++k) {
      factorial *= k;
      series.push_back(1 / factorial);
    }
    return {n, nf, Fma(r * r, Polynomial(series, r), r)};
  }
  // Adding this number leaves the nearest integer in the low bits; unlike a conversion, it accepts NaN.
  double Magic() const { return wide_ ? 0x1.8p52 : 0x1.8p23; }
  Expr BitsBeyondMagic(const Expr& sum) const { return Bits(sum) - I(wide_ ? 0x4338000000000000 : 0x4b400000); }
  // Returns exp(x), or exp(x + rest), for |x| <= -LeastExponent; the result is a normal number.
  Expr NormalExp(const Expr& x, const Expr& rest = {}) const {
    const Reduced e = ReduceExp(x, rest);
    if (target_.has_ldexp) return MakeCall(Op::kLdexp, {e.p + C(1), e.number});
    Expr power = PowerOfTwo(e.n);
    return Fma(e.p, power, power);
  }
  // Returns 2^n * (1 + p). Without an instruction for it, multiplies by two powers of two in turn. Then a denormal
  // result is rounded once, and no factor overflows before the result does.
  Expr Scaled(const Reduced& e) const {
    if (target_.has_ldexp) return MakeCall(Op::kLdexp, {e.p + C(1), e.number});
    Expr half = MakeBinary(BinaryOp::kShr, e.n, I(1)), power = PowerOfTwo(half);
    return Fma(e.p, power, power) * PowerOfTwo(e.n - half);
  }

  // ln 2 as a sum of two parts. The first part has few bits, so its product with any exponent is exact.
  double LogTwoHigh() const { return wide_ ? 0x1.62e42feep-1 : 0x1.63p-1; }
  double LogTwoLow() const { return wide_ ? 1.90821492927058770002e-10 : -2.12194440054690583e-4; }
};

// Functions of one argument. `in_wide`: an f32 is computed in f64.
constexpr struct {
  Op op;
  Expr (Math::*function)(const Expr&) const;
  bool in_wide = false;
} kFunctions[] = {{Op::kExp, &Math::Exp},           {Op::kExpOfNegative, &Math::ExpOfNegative},
                  {Op::kLog, &Math::Log},           {Op::kTanh, &Math::Tanh},
                  {Op::kSigmoid, &Math::Sigmoid},   {Op::kErf, &Math::Erf},
                  {Op::kAsin, &Math::Asin, true},   {Op::kAcos, &Math::Acos, true},
                  {Op::kAtan, &Math::Atan, true},   {Op::kSinh, &Math::Sinh, true},
                  {Op::kCosh, &Math::Cosh, true},   {Op::kAsinh, &Math::Asinh, true},
                  {Op::kAcosh, &Math::Acosh, true}, {Op::kAtanh, &Math::Atanh, true}};

bool IsOne(const Expr& e) {
  const Broadcast* lanes = e.As<Broadcast>();
  const FloatImm* number = (lanes ? lanes->a : e).As<FloatImm>();
  return number && number->value == 1;
}

// If e is 1 + erf(z), 1 - erf(z) or such a sum with tanh, returns it as one function, which keeps the digits of small
// results. A GELU has such a sum.
Expr WithoutCancellation(const Expr& e, const Target& target) {
  const Binary* sum = e.As<Binary>();
  if (!sum || !e.dtype().IsFloat() || e.dtype().IsHalf()) return e;
  if (sum->op != BinaryOp::kAdd && sum->op != BinaryOp::kSub) return e;
  const bool one_first = IsOne(sum->a), minus = sum->op == BinaryOp::kSub;
  if (!one_first && (minus || !IsOne(sum->b))) return e;
  const Call* call = (one_first ? sum->b : sum->a).As<Call>();
  if (!call || (call->op != Op::kErf && call->op != Op::kTanh)) return e;
  const Expr& z = call->args[0];
  const Math math(e.dtype(), target);
  return call->op == Op::kErf ? math.Erfc(minus ? z : -z) : math.OnePlusTanh(minus ? -z : z);
}

}  // namespace

bool IsLongMath(Op op) { return op == Op::kPow || (op >= Op::kSin && op <= Op::kAtanh); }

Expr ExpandMathCall(const Expr& e, const Target& target) {
  const Call* call = e.As<Call>();
  if (!call || !e.dtype().IsFloat() || e.dtype().IsHalf()) return e;
  Math math(e.dtype(), target);
  const std::vector<Expr>& args = call->args;
  for (const auto& [op, function, in_wide] : kFunctions) {
    if (op == call->op) return in_wide ? math.InWide(function, args[0]) : (math.*function)(args[0]);
  }
  switch (call->op) {
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
      return math.Circular(call->op, args[0]);
    case Op::kPow:
      return math.Pow(args[0], args[1]);
    case Op::kFma:
      return target.has_fma ? e : args[0] * args[1] + args[2];
    case Op::kLdexp:
      return target.has_ldexp ? e : math.Ldexp(args[0], args[1]);
    case Op::kTf32:
      return target.has_mma ? e : RoundedToTf32(args[0]);
    case Op::kRound:
      return Math::HasRounding(target) ? e : math.Round(args[0]);
    case Op::kFloor:
      return Math::HasRounding(target) ? e : math.Floor(args[0]);
    case Op::kCeil:
      return Math::HasRounding(target) ? e : math.Ceil(args[0]);
    default:
      return e;
  }
}

Result<PrimFunc> ExpandMath(const PrimFunc& f, PassEnv& env) {
  auto expanded = [&](const Expr& e) {
    if (e.As<Cast>()) return ExpandHalfCast(e, env.target);
    if (e.As<Binary>()) return ExpandDivision(e, env.target);
    const Call* call = e.As<Call>();
    if (call && env.target.kind == TargetKind::kC && IsLongMath(call->op)) return e;
    return ExpandMathCall(e, env.target);
  };
  auto without_cancellation = [&](const Expr& e) { return WithoutCancellation(e, env.target); };
  return WithExprs(WithExprs(f, without_cancellation), expanded);
}

}  // namespace autotune
