// The rounding of f32 to TF32 as arithmetic, for targets without the instruction.
#include "lower/passes.h"

namespace autotune {

// Adds half of the last kept bit, and clears the bits below it. Leaves infinities and NaN unchanged.
Expr RoundedToTf32(const Expr& x) {
  constexpr int64_t kDropped = (1 << 13) - 1;
  const int lanes = x.dtype().lanes;
  const DType word = DType::UInt(32).WithLanes(lanes);
  auto number = [&](int64_t value) { return MakeBroadcast(IntConst(value, DType::UInt(32)), lanes); };
  const Expr bits = MakeExpr(word, Call{Op::kReinterpret, {x}});
  const Expr kept = MakeBinary(BinaryOp::kBitAnd, bits + number(kDropped / 2 + 1), number(0xffffffff - kDropped));
  const Expr magnitude = MakeBinary(BinaryOp::kBitAnd, bits, number(0x7fffffff));
  return MakeSelect(magnitude < number(0x7f800000), MakeExpr(x.dtype(), Call{Op::kReinterpret, {kept}}), x);
}

}  // namespace autotune
