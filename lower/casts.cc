// Conversions of floats to integers. If the integer type cannot hold the value of a float, processors give different
// results, and LLVM and C leave the result undefined. So the float is first clamped to the range of the integer type,
// and the result is the one that docs/ir.md states, on every target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/float_math.h"
#include "ir/linear_form.h"
#include "lower/passes.h"

namespace autotune {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The possible values of a float: the numbers in [low, high], and NaN if `nan` is true.
struct FloatRange {
  double low = -kInf, high = kInf;
  bool nan = true;
};

FloatRange Joined(const FloatRange& a, const FloatRange& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

template <typename F>
FloatRange Mapped(const FloatRange& a, F&& increasing) {
  return {increasing(a.low), increasing(a.high), a.nan};
}

FloatRange RangeOf(const Expr& e);

// min and max return their second operand if either operand is NaN.
FloatRange RangeOfBinary(const Binary& n) {
  if (n.op != BinaryOp::kMin && n.op != BinaryOp::kMax) return {};
  const FloatRange a = RangeOf(n.a), b = RangeOf(n.b);
  FloatRange r = n.op == BinaryOp::kMin ? FloatRange{std::min(a.low, b.low), std::min(a.high, b.high), b.nan}
                                        : FloatRange{std::max(a.low, b.low), std::max(a.high, b.high), b.nan};
  return a.nan || b.nan ? Joined(r, b) : r;
}

FloatRange RangeOfCall(const Call& n) {
  switch (n.op) {
    case Op::kFloor:
      return Mapped(RangeOf(n.args[0]), [](double x) { return std::floor(x); });
    case Op::kCeil:
      return Mapped(RangeOf(n.args[0]), [](double x) { return std::ceil(x); });
    case Op::kRound:
      return Mapped(RangeOf(n.args[0]), [](double x) { return std::nearbyint(x); });
    default:
      return {};
  }
}

// Understands `select(abs(x) < c, x, other)`, which this pass makes: if x is chosen, it lies between -c and c.
FloatRange RangeOfSelect(const Select& n) {
  FloatRange chosen = RangeOf(n.a);
  const Binary* less = n.condition.As<Binary>();
  const Call* magnitude = less && less->op == BinaryOp::kLt ? less->a.As<Call>() : nullptr;
  if (magnitude && magnitude->op == Op::kAbs && Compare(magnitude->args[0], n.a) == 0) {
    const double limit = std::nextafter(RangeOf(less->b).high, 0.0);
    chosen = {std::max(chosen.low, -limit), std::min(chosen.high, limit), false};
  }
  return Joined(chosen, RangeOf(n.b));
}

FloatRange RangeOfCast(DType from, DType to, const Expr& a) {
  if (from.IsFloat()) return Mapped(RangeOf(a), [to](double x) { return RoundFloat(x, to); });
  if (from.IsBool()) return {0, 1, false};
  const bool is_signed = from.IsSigned();
  const double high = std::ldexp(1.0, is_signed ? from.bits - 1 : from.bits);
  return {is_signed ? -high : 0, high, false};
}

FloatRange RangeOf(const Expr& e) {
  return e.Visit(Overloaded{
      [&](const FloatImm& n) {
        return std::isnan(n.value) ? FloatRange{kInf, -kInf, true} : FloatRange{n.value, n.value, false};
      },
      [&](const Binary& n) { return RangeOfBinary(n); },
      [&](const Call& n) { return RangeOfCall(n); },
      [&](const Select& n) { return RangeOfSelect(n); },
      [&](const Cast& n) { return RangeOfCast(n.a.dtype().Element(), e.dtype().Element(), n.a); },
      [&](const Broadcast& n) { return RangeOf(n.a); },
      [&](const auto&) { return FloatRange{}; },
  });
}

// Returns true if all numbers of `range`, truncated to integers, are numbers of `type`.
bool Fits(const FloatRange& range, DType type) {
  const bool is_signed = type.IsSigned();
  const double end = std::ldexp(1.0, is_signed ? type.bits - 1 : type.bits);
  return !range.nan && std::trunc(range.low) >= (is_signed ? -end : 0) && std::trunc(range.high) < end;
}

Expr Like(double value, const Expr& x) {
  return MakeBroadcast(FloatConst(value, x.dtype().Element()), x.dtype().lanes);
}

// Converts `x` to a signed integer of `bits` bits. NaN, and values that the integer cannot hold, become its least
// number.
Expr ToSigned(const Expr& x, int bits) {
  const DType type = DType::Int(bits).WithLanes(x.dtype().lanes);
  if (Fits(RangeOf(x), type.Element())) return MakeCast(type, x);
  const double end = std::ldexp(1.0, bits - 1);  // least number beyond the range
  return MakeCast(type, MakeSelect(MakeCall(Op::kAbs, {x}) < Like(end, x), x, Like(-end, x)));
}

// Converts `x` to u64 by a conversion to i64. If x >= 2^63, subtracts 2^63 before the conversion and adds it
// afterwards.
Expr ToUnsigned64(const Expr& x) {
  const DType type = DType::UInt(64).WithLanes(x.dtype().lanes);
  const Expr end = Like(0x1p63, x), is_small = x < end;
  const Expr top = MakeBroadcast(IntConst(std::numeric_limits<int64_t>::min(), type.Element()), type.lanes);
  const Expr zero = MakeBroadcast(IntConst(0, type.Element()), type.lanes);
  return MakeCast(type, ToSigned(MakeSelect(is_small, x, x - end), 64)) + MakeSelect(is_small, zero, top);
}

std::optional<double> NumberIn(const Expr& e) {
  const Broadcast* lanes = e.As<Broadcast>();
  const FloatImm* number = (lanes ? lanes->a : e).As<FloatImm>();
  return number ? std::optional(number->value) : std::nullopt;
}

struct Operands {
  Expr a;
  double b = 0;
};

// If e is `a op b` with a number b, returns a and b.
std::optional<Operands> WithNumber(const Expr& e, BinaryOp op) {
  const Binary* n = e.As<Binary>();
  const std::optional<double> b = n && n->op == op ? NumberIn(n->b) : std::nullopt;
  return b ? std::optional(Operands{n->a, *b}) : std::nullopt;
}

constexpr double kWhole = 0x1.8p23, kSmall = 1 << 20;

// Converts min(max(round(x) + z, low), high), as QuantizeLinear makes it, to an integer of few bits. The bounds and z
// are small whole numbers, so x may be clamped before it is rounded: to [low - z, high - z]. A sum of about 1.5 * 2^23
// has the rounded number in its last bits (half to even, as round does): one instruction instead of a rounding and a
// conversion. Returns e if it has another form.
Expr FromQuantized(const Expr& e, const Cast& cast) {
  const DType from = cast.a.dtype(), to = e.dtype().Element();
  const std::optional<Operands> least = WithNumber(cast.a, BinaryOp::kMin);
  const std::optional<Operands> most = least ? WithNumber(least->a, BinaryOp::kMax) : std::nullopt;
  if (!most || from.Element() != DType::Float(32) || to.bits > 16) return e;
  const Operands sum = WithNumber(most->a, BinaryOp::kAdd).value_or(Operands{most->a, 0});
  const Call* rounded = sum.a.As<Call>();
  const auto is_small = [](double x) { return std::trunc(x) == x && std::abs(x) <= kSmall; };
  if (!rounded || rounded->op != Op::kRound || !is_small(sum.b) || !is_small(least->b) || !is_small(most->b)) return e;
  if (!Fits({most->b, least->b, false}, to) || most->b > least->b) return e;
  const DType bits = DType::Int(32).WithLanes(from.lanes);
  const Expr& x = rounded->args[0];
  Expr clamped = MakeBinary(BinaryOp::kMax, x, Like(most->b - sum.b, x));
  clamped = MakeBinary(BinaryOp::kMin, clamped, Like(least->b - sum.b, x));
  Expr whole = MakeExpr(bits, Call{Op::kReinterpret, {clamped + Like(kWhole, x)}});
  if (sum.b != 0) whole = whole + MakeBroadcast(IntConst(static_cast<int64_t>(sum.b), bits.Element()), bits.lanes);
  return MakeCast(e.dtype(), whole);
}

// A number plus an integer.
struct Offset {
  Expr number;
  int64_t added = 0;
};
Offset OffsetOf(const Expr& e) {
  const Binary* n = e.As<Binary>();
  const Broadcast* lanes = n ? n->b.As<Broadcast>() : nullptr;
  const int64_t* b =
      n && (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub) ? AsInt(lanes ? lanes->a : n->b) : nullptr;
  if (!b || std::abs(*b) > static_cast<int64_t>(kSmall)) return {e, 0};
  return {n->a, n->op == BinaryOp::kAdd ? *b : -*b};
}

// Returns the 32 bits plus z of which FromQuantized took the last ones; nothing if it did not make `narrow`, or if it
// would have cut off some of the number's bits.
std::optional<Offset> BitsOfQuantized(const Expr& narrow) {
  const Cast* cast = narrow.As<Cast>();
  if (!cast || cast->a.dtype().Element() != DType::Int(32)) return std::nullopt;
  const Offset sum = OffsetOf(cast->a);
  const Call* bits = sum.number.As<Call>();
  if (!bits || bits->op != Op::kReinterpret) return std::nullopt;
  const std::optional<Operands> whole = WithNumber(bits->args[0], BinaryOp::kAdd);
  const std::optional<Operands> least = whole ? WithNumber(whole->a, BinaryOp::kMin) : std::nullopt;
  const std::optional<Operands> most = least ? WithNumber(least->a, BinaryOp::kMax) : std::nullopt;
  if (!most || whole->b != kWhole) return std::nullopt;
  const auto z = static_cast<double>(sum.added);
  return Fits({most->b + z, least->b + z, false}, narrow.dtype().Element()) ? std::optional(sum) : std::nullopt;
}

// Converts a quantized number, plus or minus an integer, to an integer of few bits: those are the last ones of the bits
// that the number came from, whose upper 16 alone are not its own. So words of numbers minus their zero points take one
// conversion, instead of one to bytes, one back, and a subtraction. Returns e if it is something else.
Expr FromNarrow(const Expr& e, const Cast& cast) {
  constexpr int kOwnBits = 16;
  if (!e.dtype().IsInt() || e.dtype().bits > kOwnBits) return e;
  const Offset sum = OffsetOf(cast.a);
  const Cast* wide = sum.number.As<Cast>();
  const bool widens = wide && wide->a.dtype().IsInt() && sum.number.dtype().Element() == DType::Int(32);
  const std::optional<Offset> bits = widens ? BitsOfQuantized(wide->a) : std::nullopt;
  if (!bits) return e;
  const DType type = bits->number.dtype();
  const int64_t added = bits->added + sum.added;
  return MakeCast(
      e.dtype(), added == 0 ? bits->number : bits->number + MakeBroadcast(IntConst(added, type.Element()), type.lanes));
}

Expr Defined(const Expr& e, bool has_vectors) {
  const Cast* cast = e.As<Cast>();
  if (cast && has_vectors && cast->a.dtype().IsInt()) return FromNarrow(e, *cast);
  if (!cast || !cast->a.dtype().IsFloat() || !e.dtype().IsInt()) return e;
  const DType to = e.dtype().Element();
  if (has_vectors) {
    if (Expr quantized = FromQuantized(e, *cast); !quantized.Same(e)) return quantized;
  }
  if (Fits(RangeOf(cast->a), to)) return e;
  // An f32 holds every number of a 16-bit float exactly, so such operands are widened first.
  const bool is_half = cast->a.dtype().IsHalf();
  const Expr x = is_half ? MakeCast(DType::Float(32).WithLanes(e.dtype().lanes), cast->a) : cast->a;
  if (to == DType::UInt(64)) return ToUnsigned64(x);
  const int through = to.bits < 32 || to == DType::Int(32) ? 32 : 64;
  const Expr whole = ToSigned(x, through);
  return to == whole.dtype().Element() ? whole : MakeCast(e.dtype(), whole);
}

}  // namespace

Result<PrimFunc> DefineCasts(const PrimFunc& f, PassEnv& env) {
  const bool has_vectors = env.target.kind == TargetKind::kLlvm;
  return WithExprs(f, [&](const Expr& e) { return Defined(e, has_vectors); });
}

}  // namespace autotune
