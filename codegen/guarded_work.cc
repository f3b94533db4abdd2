#include "codegen/guarded_work.h"

#include "codegen/walk.h"

namespace autotune {

bool HasGuardedWork(const Expr& e, bool conversions) {
  bool found = false;
  WalkOnce(e, [&](const Expr& x) {
    const Binary* b = x.As<Binary>();
    const Cast* cast = x.As<Cast>();
    found |= x.As<Load>() != nullptr;
    found |= b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
    found |= conversions && cast && cast->a.dtype().IsFloat() && x.dtype().IsInt();
    return !found;
  });
  return found;
}

}  // namespace autotune
