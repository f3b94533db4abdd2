// The arithmetic of elementary functions as IR expressions, on scalars and vectors alike: constants, bits, polynomials,
// sums and products in two numbers. Internal to lower/; stateless, thread-safe.
#pragma once
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ir/expr.h"
#include "support/check.h"
#include "target/target.h"

namespace autotune {

class MathExpressions {
 protected:
  MathExpressions(DType dtype, const Target& target) : type_(dtype), target_(target), wide_(dtype.bits == 64) {
    CHECK(dtype.code == TypeCode::kFloat && (dtype.bits == 32 || dtype.bits == 64)) << dtype.Text();
  }

  // A sum high + low. In results of Sum and Product, |low| is at most half a unit in the last place of high.
  struct Pair {
    Expr high, low;
  };
  // a + b exactly, where |a| >= |b| or a = 0 (Dekker 1971).
  Pair Sum(const Expr& a, const Expr& b) const {
    Expr sum = a + b;
    return {sum, b - (sum - a)};
  }
  // a * b; exact with fused multiply-adds. Otherwise the last one or two bits of `low` may be wrong.
  Pair Product(const Expr& a, const Expr& b) const {
    Expr product = a * b;
    if (target_.has_fma) return {product, Fma(a, b, -product)};
    auto upper = [&](const Expr& x) {
      return FromBits(MakeBinary(BinaryOp::kBitAnd, Bits(x), I(-(int64_t{1} << (Mantissa() / 2 + 1)))));
    };
    Expr a1 = upper(a), a2 = a - a1, b1 = upper(b), b2 = b - b1;
    return {product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
  }

  Expr Clip(const Expr& x, double low, double high) const {
    return MakeMin(C(high), MakeMax(C(low), x));  // this order keeps NaN
  }

  Expr PowerOfTwo(const Expr& n) const {
    return FromBits(MakeBinary(BinaryOp::kShl, n + I(wide_ ? 1023 : 127), I(Mantissa())));
  }

  // coefficients[0] + coefficients[1] * x + ...
  Expr Polynomial(const std::vector<double>& coefficients, const Expr& x) const {
    Expr sum = C(coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) sum = Fma(sum, x, C(coefficients[i]));
    return sum;
  }

  Expr CopySign(const Expr& magnitude, const Expr& sign) const {
    Expr mask = I(wide_ ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int32_t>::min());
    Expr bits = MakeBinary(BinaryOp::kBitAnd, Bits(magnitude),
                           I(wide_ ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max()));
    return FromBits(MakeBinary(BinaryOp::kBitOr, bits, MakeBinary(BinaryOp::kBitAnd, Bits(sign), mask)));
  }

  int Mantissa() const { return wide_ ? 52 : 23; }
  DType IntType() const { return DType::Int(type_.bits).WithLanes(type_.lanes); }
  Expr C(double value) const { return MakeBroadcast(FloatConst(value, type_.Element()), type_.lanes); }
  Expr I(int64_t value) const { return MakeBroadcast(IntConst(value, IntType().Element()), type_.lanes); }
  Expr Bits(const Expr& x) const { return MakeExpr(IntType(), Call{Op::kReinterpret, {x}}); }
  Expr FromBits(const Expr& x) const { return MakeExpr(type_, Call{Op::kReinterpret, {x}}); }
  Expr Fma(const Expr& a, const Expr& b, const Expr& c) const {
    return target_.has_fma ? MakeCall(Op::kFma, {a, b, c}) : a * b + c;
  }
  static Expr MakeMin(Expr a, Expr b) { return MakeBinary(BinaryOp::kMin, std::move(a), std::move(b)); }
  static Expr MakeMax(Expr a, Expr b) { return MakeBinary(BinaryOp::kMax, std::move(a), std::move(b)); }

  DType type_;
  const Target& target_;
  bool wide_;
};

}  // namespace autotune
