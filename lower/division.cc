#include <algorithm>
#include <bit>
#include <cmath>

#include "lower/math_expressions.h"
#include "lower/passes.h"

namespace autotune {
namespace {

constexpr int kMantissa = 24;  // bits of an f32
constexpr double kLeast = 0x1p-64, kMost = 0x1p64;

// Two numbers whose sum is 1 / d up to 2^-46 of it, with the same sign.
struct Reciprocal {
  float high = 0, low = 0;
};

Reciprocal ReciprocalOf(float d) {
  const double whole = 1.0 / static_cast<double>(d);
  auto high = static_cast<float>(whole);
  // Cuts digits off instead of rounding. With terms of the same sign, infinite x have infinite results.
  if (std::abs(static_cast<double>(high)) > std::abs(whole)) high = std::nextafter(high, 0.0f);
  return {high, static_cast<float>(whole - static_cast<double>(high))};
}

float Quotient(float x, const Reciprocal& r) { return std::fma(x, r.high, x * r.low); }

// Returns the inverse of an odd number modulo 2^64: each step of Newton's method doubles the number of right digits.
uint64_t InverseOf(uint64_t odd) {
  uint64_t inverse = odd;  // right modulo 2^3
  for (int digits = 3; digits < 64; digits *= 2) inverse *= 2 - odd * inverse;
  return inverse;
}

// Returns whether Quotient(x, r) is the rounded x / d for all x, unless x * r.low is denormal. It can be another number
// only if a midpoint between two numbers lies between x / d and the sum that Quotient rounds, which differ by 2^-46 of
// x / d. With the mantissas X of x, D of d and M of the midpoint (an odd number of one bit more), this means
// |X 2^k - D M| <= 8, with k = 24 if X >= D, else k = 25. Tries all X of which this holds.
bool IsExact(float d, const Reciprocal& r) {
  int exponent = 0;
  const auto divisor = static_cast<uint64_t>(std::ldexp(std::frexp(std::abs(d), &exponent), kMantissa));
  const int zeros = std::countr_zero(divisor);
  const uint64_t inverse = InverseOf(divisor >> zeros), least = uint64_t{1} << kMantissa;
  for (int k : {kMantissa, kMantissa + 1}) {
    for (int64_t difference = -9; difference <= 9; ++difference) {
      if (difference % (int64_t{1} << zeros) != 0 || difference == 0) continue;
      // D M = -difference modulo 2^k
      const uint64_t step = uint64_t{1} << (k - zeros);
      uint64_t midpoint = (static_cast<uint64_t>(-(difference >> zeros)) * inverse) % step;
      midpoint += (least - std::min(least, midpoint) + step - 1) / step * step;
      for (; midpoint < 2 * least; midpoint += step) {
        const uint64_t product = divisor * midpoint + static_cast<uint64_t>(difference);
        const auto x = static_cast<float>(product >> k);
        if (midpoint % 2 == 1 && Quotient(x, r) != x / d) return false;
      }
    }
  }
  return true;
}

class Multiples : MathExpressions {
 public:
  Multiples(DType dtype, const Target& target) : MathExpressions(dtype, target) {}
  Expr By(const Reciprocal& r, const Expr& x) const { return Fma(x, C(r.high), x * C(r.low)); }
  Expr By(float factor, const Expr& x) const { return x * C(factor); }
};

}  // namespace

// After N. Brisebarre, J.-M. Muller and S. K. Raina, "Accelerating correctly rounded floating-point division when the
// divisor is known in advance" (2004).
Expr ExpandDivision(const Expr& e, const Target& target) {
  const Binary* quotient = e.As<Binary>();
  if (!quotient || quotient->op != BinaryOp::kDiv || e.dtype().Element() != DType::Float(32)) return e;
  const Broadcast* lanes = quotient->b.As<Broadcast>();
  const FloatImm* number = (lanes ? lanes->a : quotient->b).As<FloatImm>();
  const double magnitude = number ? std::abs(number->value) : 0;
  if (!(magnitude >= kLeast && magnitude <= kMost)) return e;  // also if it is NaN
  const auto divisor = static_cast<float>(number->value);
  const Multiples multiples(e.dtype(), target);
  int exponent = 0;
  if (std::abs(std::frexp(divisor, &exponent)) == 0.5f) return multiples.By(1 / divisor, quotient->a);
  const Reciprocal reciprocal = ReciprocalOf(divisor);
  if (!target.has_fma || !IsExact(divisor, reciprocal)) return e;
  return multiples.By(reciprocal, quotient->a);
}

}  // namespace autotune
