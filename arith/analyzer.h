// Analyzer: simplification and bounds of index and bool expressions under known ranges of variables. A small value:
// copy it to open a scope. Not thread-safe; cheap to make, one per use.
//
// Normal form of an index expression: a sum of  coefficient * atom  plus a constant, with the atoms in a fixed order.
// An atom is a variable, a floordiv or floormod of a normal form by a positive constant, a min/max/select, or an opaque
// term (a load). The expressions that splits, fusions and paddings produce are simplified to the form that a person
// would write: (x*16 + y)//16 -> x, (x//4)*4 + x%4 -> x, nested div and mod, comparisons decided by bounds.
#pragma once
#include <optional>

#include "arith/context.h"
#include "ir/visit.h"

namespace autotune {

// Closed interval; an absent side is unbounded.
struct Interval {
  std::optional<int64_t> low, high;
  bool IsPoint() const { return low && high && *low == *high; }
};

class Analyzer {
 public:
  void Bind(Name var, int64_t low, int64_t high);  // low <= var <= high
  void Bind(Name var, Interval range);
  // Takes the condition as true. Comparisons of a variable with a constant narrow its range; other conditions are kept
  // as facts.
  void Assume(const Expr& condition);

  // Returns an expression that is equal for all values in range. Takes any dtype; float arithmetic stays as it is.
  // Idempotent.
  Expr Simplify(const Expr& e) const;
  Interval Bounds(const Expr& e) const;      // of an index or integer expression
  bool Proves(const Expr& condition) const;  // true: holds for all values in range; false: unknown or not

 private:
  friend Stmt SimplifyStmt(const Stmt& s, const Analyzer& context);
  arith::Context context_;
};

// Simplifies every expression in a statement, with the ranges of the loops and block iterators around it. Removes
// branches, loops and blocks that never run, and predicates that always hold. Loops of extent 1 are kept, since steps
// refer to them.
Stmt SimplifyStmt(const Stmt& s, const Analyzer& context = {});

}  // namespace autotune
