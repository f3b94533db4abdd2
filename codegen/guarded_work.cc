#include "codegen/guarded_work.h"

#include "codegen/walk.h"

namespace autotune {

bool HasGuardedWork(const Expr& e) {
  bool found = false;
  WalkOnce(e, [&](const Expr& x) {
    const Binary* b = x.As<Binary>();
    found |= x.As<Load>() != nullptr;
    found |= b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
    return !found;
  });
  return found;
}

}  // namespace autotune
