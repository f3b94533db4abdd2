#include "ir/combiner.h"

#include <limits>

#include "support/check.h"

namespace autotune {

bool IsCombiner(BinaryOp op) {
  return op == BinaryOp::kAdd || op == BinaryOp::kMul || op == BinaryOp::kMax || op == BinaryOp::kMin;
}

Expr IdentityOf(BinaryOp op, DType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(IsCombiner(op)) << ToText(op);
  if (op == BinaryOp::kAdd) return ConstOf(0, dtype);
  if (op == BinaryOp::kMul) return ConstOf(1, dtype);
  bool max = op == BinaryOp::kMax;
  if (dtype.IsFloat()) return FloatConst(max ? -kInf : kInf, dtype);
  if (dtype.code == TypeCode::kUInt) {
    if (max) return IntConst(0, dtype);
    return IntConst(dtype.bits == 64 ? -1 : (int64_t{1} << dtype.bits) - 1, dtype);
  }
  int64_t half = int64_t{1} << (dtype.bits - 2);
  return IntConst(max ? -half * 2 : (half - 1) * 2 + 1, dtype);
}

}  // namespace autotune
