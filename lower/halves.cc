// Conversions of 16-bit floats. Where the target has an instruction, the conversion stays. Elsewhere, they compute with
// the bits as integers; only denormal numbers and f64 operands also need float arithmetic. Conversions from and to f32
// and f64 are exact or round to nearest even, values beyond the range become infinity, and a NaN stays a NaN with its
// sign. The code has no branches and works on scalars and vectors.
#include <cmath>

#include "ir/float_math.h"
#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

Expr Bits(const Expr& x) {
  const DType t = x.dtype();
  return MakeExpr(DType::UInt(t.bits).WithLanes(t.lanes), Call{Op::kReinterpret, {x}});
}
Expr FromBits(const Expr& bits, DType type) {
  return MakeExpr(type.WithLanes(bits.dtype().lanes), Call{Op::kReinterpret, {bits}});
}
Expr As(DType type, const Expr& x) { return MakeCast(type.WithLanes(x.dtype().lanes), x); }
// An integer of the type of `like`.
Expr I(int64_t value, const Expr& like) {
  return MakeBroadcast(IntConst(value, like.dtype().Element()), like.dtype().lanes);
}
Expr F(double value, const Expr& like) {
  return MakeBroadcast(FloatConst(value, like.dtype().Element()), like.dtype().lanes);
}
Expr Masked(const Expr& a, int64_t mask) { return MakeBinary(BinaryOp::kBitAnd, a, I(mask, a)); }
Expr Joined(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kBitOr, a, b); }
Expr Left(const Expr& a, int bits) { return MakeBinary(BinaryOp::kShl, a, I(bits, a)); }
Expr Right(const Expr& a, int bits) { return MakeBinary(BinaryOp::kShr, a, I(bits, a)); }

const DType kSingle = DType::Float(32), kDouble = DType::Float(64), kWord = DType::UInt(32);
constexpr int64_t kSignOfSingle = int64_t{1} << 31, kInfinityOfSingle = 0x7f800000;

Expr ToSingle(const Expr& half) {
  const Expr bits = As(kWord, Bits(half));
  if (half.dtype().code == TypeCode::kBFloat) return FromBits(Left(bits, 16), kSingle);
  // Move the fields to their places in an f32, whose exponent bias is larger by 112. A denormal number is a multiple of
  // 2^-24, and the product is a normal f32. Denormal f32 operands are avoided, since some devices treat them as 0.
  const Expr magnitude = Masked(bits, 0x7fff), fields = Left(magnitude, 13);
  const Expr count = As(kSingle, As(DType::Int(32), magnitude));
  const Expr small = Bits(count * F(0x1p-24, count)), normal = fields + I(int64_t{112} << 23, fields);
  const Expr special = Joined(fields, I(kInfinityOfSingle, fields));
  const Expr number = MakeSelect(fields < I(int64_t{1} << 23, fields), small, normal);
  const Expr any = MakeSelect(fields >= I(0x7c00 << 13, fields), special, number);
  return FromBits(Joined(any, Left(Masked(bits, 0x8000), 16)), kSingle);
}

// Rounds to nearest even: adds to `bits` a number that carries into bit `dropped` exactly if the bits below round up.
Expr RoundedUp(const Expr& bits, int dropped) {
  const Expr odd = Masked(Right(bits, dropped), 1);
  return bits + I((int64_t{1} << (dropped - 1)) - 1, bits) + odd;
}

// Returns the upper 16 bits of the rounded f32. Rounding the bits of a NaN could change its sign or make it an
// infinity, so a NaN only gets the bit that makes it quiet.
Expr BFloatFromSingle(const Expr& single) {
  constexpr int64_t kQuiet = 1 << 22;
  const Expr bits = Bits(single), quiet = Joined(bits, I(kQuiet, bits));
  const Expr rounded = MakeSelect(MakeCall(Op::kIsNan, {single}), quiet, RoundedUp(bits, 16));
  return FromBits(As(DType::UInt(16), Right(rounded, 16)), DType::BFloat16());
}

Expr FromSingle(const Expr& single, DType type) {
  if (type.code == TypeCode::kBFloat) return BFloatFromSingle(single);
  const Expr all = Bits(single), sign = Masked(Right(all, 16), 0x8000), bits = Masked(all, kSignOfSingle - 1);
  // Below 2^-14 an f16 is denormal. The last place of an f32 near 1/2 has the same value as the last place of these f16
  // numbers, so adding 1/2 rounds to them.
  const Expr tiny = FromBits(bits, kSingle);
  const Expr denormal = Bits(tiny + F(0.5, tiny)) - I(0x3f000000, bits);
  const Expr normal = Right(RoundedUp(bits - I(int64_t{112} << 23, bits), 13), 13);
  Expr magnitude = MakeSelect(bits < I(int64_t{113} << 23, bits), denormal, normal);
  magnitude = MakeSelect(bits >= I(int64_t{143} << 23, bits), I(0x7c00, bits), magnitude);
  magnitude = MakeSelect(bits > I(kInfinityOfSingle, bits), I(0x7e00, bits), magnitude);
  return FromBits(As(DType::UInt(16), Joined(magnitude, sign)), type);
}

// Rounds an f64 to an f32 by "rounding to odd": if the f64 is not an f32 number, the last bit of the result is 1. An
// f32 has more bits than a half, so rounding the result to a half gives the same number as rounding the f64 once.
Expr RoundedToOdd(const Expr& wide) {
  const Expr near = As(kSingle, wide), back = As(kDouble, near), bits = Bits(near);
  auto magnitude = [](const Expr& x) { return MakeCall(Op::kAbs, {x}); };
  const Expr below = MakeSelect(magnitude(back) > magnitude(wide), bits - I(1, bits), bits);
  const Expr exact = MakeBinary(BinaryOp::kEq, back, wide);
  return FromBits(MakeSelect(exact, bits, Joined(below, I(1, bits))), kSingle);
}

// Returns true if the target converts between the half type and f32 by an instruction. GPUs whose tensor cores take
// bf16 also convert it.
bool HasInstruction(DType half, const Target& target) {
  return half == DType::Float(16) ? target.has_f16 : target.has_mma;
}

// Returns true if the code generator widens this half type. Products of tiles have such conversions around their
// operands (ir/tile_product.h), which are no arithmetic.
bool Widens(DType half, const Target& target) { return HasInstruction(half, target) || target.has_tiles; }

Expr SingleOf(const Expr& half, const Target& target) {
  return Widens(half.dtype().Element(), target) ? As(kSingle, half) : ToSingle(half);
}

// Returns the same bits as BFloatFromSingle, by the instruction that rounds f32 to bf16. All CPUs that multiply bf16
// have it. On x86 it takes denormal numbers for 0. So a denormal number, or 0, gets the exponent of 1 before the
// instruction rounds it, and loses this exponent afterwards. Its fraction is rounded alike with both exponents.
Expr BFloatByInstruction(const Expr& single) {
  constexpr int64_t kOne = 0x3f800000;
  const Expr bits = Bits(single), exponent = Masked(bits, kInfinityOfSingle);
  const Expr tiny = MakeBinary(BinaryOp::kEq, exponent, I(0, exponent));
  const Expr normal = FromBits(MakeSelect(tiny, Joined(bits, I(kOne, bits)), bits), kSingle);
  const Expr half = Bits(As(DType::BFloat16(), normal));
  return FromBits(MakeSelect(tiny, half - I(kOne >> 16, half), half), DType::BFloat16());
}

Expr HalfOf(const Expr& single, DType type, const Target& target) {
  if (HasInstruction(type, target)) return As(type, single);
  return type == DType::BFloat16() && target.has_bf16_dot ? BFloatByInstruction(single) : FromSingle(single, type);
}

// Returns the number of a half type that `single` is for certain: a widened one, or a constant. Null if there is none.
Expr HalfBehind(const Expr& single, DType type) {
  const Cast* cast = single.As<Cast>();
  if (cast && cast->a.dtype().Element() == type) return cast->a;
  const Broadcast* same = single.As<Broadcast>();
  const FloatImm* number = (same ? same->a : single).As<FloatImm>();
  if (!number || std::isnan(number->value) || RoundFloat(number->value, type) != number->value) return Expr();
  return MakeBroadcast(FloatConst(number->value, type), single.dtype().lanes);
}

// Returns half(c ? a : b) as c ? half(a) : half(b), with nothing to round, if a and b are widened halves or constants.
// Null otherwise. So relu compares widened numbers and chooses between halves.
Expr ChosenHalf(const Expr& single, DType type) {
  const Select* select = single.As<Select>();
  const Binary* binary = single.As<Binary>();
  if (!select && !(binary && (binary->op == BinaryOp::kMax || binary->op == BinaryOp::kMin))) return Expr();
  const Expr a = HalfBehind(select ? select->a : binary->a, type), b = HalfBehind(select ? select->b : binary->b, type);
  if (!a || !b) return Expr();
  if (select) return MakeSelect(select->condition, a, b);
  const BinaryOp order = binary->op == BinaryOp::kMax ? BinaryOp::kGt : BinaryOp::kLt;
  return MakeSelect(MakeBinary(order, binary->a, binary->b), a, b);
}

}  // namespace

Expr ExpandHalfCast(const Expr& e, const Target& target) {
  const Cast* cast = e.As<Cast>();
  if (!cast) return e;
  const DType from = cast->a.dtype().Element(), to = e.dtype().Element();
  if (from.IsHalf()) {
    if (to == kSingle && Widens(from, target)) return e;
    const Expr single = SingleOf(cast->a, target);
    return to.IsHalf() ? HalfOf(single, to, target) : MakeCast(e.dtype(), single);
  }
  if (!to.IsHalf()) return e;
  if (from == kSingle && HasInstruction(to, target)) {
    const Expr chosen = target.IsGpu() ? ChosenHalf(cast->a, to) : Expr();
    return chosen ? chosen : e;
  }
  return HalfOf(from == kDouble ? RoundedToOdd(cast->a) : As(kSingle, cast->a), to, target);
}

}  // namespace autotune
