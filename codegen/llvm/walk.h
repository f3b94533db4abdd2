// Walks over expressions as the graphs that they are, each cell once. What a math function expands to shares so much
// that it would be millions of nodes as a tree, which ir/visit.h walks. Internal to codegen/llvm.
#pragma once
#include <unordered_set>

#include "ir/visit.h"

namespace autotune {

class FirstVisits {
 public:
  bool operator()(const Expr& e) {
    // A cell with one reference has been reached by the only way that leads to it.
    bool alone = e.get()->references.load(std::memory_order_relaxed) == 1;
    return alone || e.As<Var>() || e.As<IntImm>() || e.As<FloatImm>() || seen_.insert(e.get()).second;
  }

 private:
  std::unordered_set<const ExprCell*> seen_;
};

// As Walk; of a shared cell's visits, leaves apart, only the first takes place.
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
