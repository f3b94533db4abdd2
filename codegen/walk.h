// Walks over expressions as directed acyclic graphs: each shared cell is visited once. The expansion of a math function
// shares so many cells that a walk over it as a tree (ir/visit.h) would visit millions of nodes. Internal to codegen/.
#pragma once
#include <unordered_set>

#include "ir/visit.h"

namespace autotune {

class FirstVisits {
 public:
  // Returns true if this is the first visit of `e`. Always true for leaves, which cost nothing to visit again.
  bool operator()(const Expr& e) {
    // A cell with one reference is reached only once, so it need not be remembered.
    bool alone = e.get()->references.load(std::memory_order_relaxed) == 1;
    return alone || e.As<Var>() || e.As<IntImm>() || e.As<FloatImm>() || seen_.insert(e.get()).second;
  }

 private:
  std::unordered_set<const ExprCell*> seen_;
};

// Like Walk, but calls `on_expr` only at the first visit of a shared cell. It may call it for a leaf more than once.
inline void WalkOnce(const Expr& e, const std::function<bool(const Expr&)>& on_expr) {
  FirstVisits first;
  Walk(e, [&](const Expr& x) { return first(x) && on_expr(x); });
}
inline void WalkOnce(const Stmt& s, const std::function<bool(const Stmt&)>& on_stmt,
                     const std::function<bool(const Expr&)>& on_expr) {
  FirstVisits first;
  Walk(s, on_stmt, [&](const Expr& x) { return first(x) && on_expr(x); });
}

}  // namespace autotune
