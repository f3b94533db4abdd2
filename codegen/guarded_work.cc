#include "codegen/guarded_work.h"

#include <unordered_set>

#include "codegen/walk.h"

namespace autotune {
namespace {

using Seen = std::unordered_set<const ExprCell*>;

// Calls visit(x) once for each term x that `e` uses unconditionally, and goes on with the operands of x if it returns
// true.
template <class F>
void WalkUnconditional(const Expr& e, Seen& seen, const F& visit) {
  if (!seen.insert(e.get()).second || !visit(e)) return;
  if (const Select* select = e.As<Select>()) return WalkUnconditional(select->condition, seen, visit);
  MapChildren(e, [&](const Expr& child) {
    WalkUnconditional(child, seen, visit);
    return child;
  });
}

}  // namespace

std::vector<Expr> CommonTerms(const Expr& a, const Expr& b) {
  Seen of_a, of_b;
  WalkUnconditional(b, of_b, [](const Expr&) { return true; });
  std::vector<Expr> common;
  WalkUnconditional(a, of_a, [&](const Expr& x) {
    if (!of_b.contains(x.get())) return true;
    common.push_back(x);
    return false;
  });
  return common;
}

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
