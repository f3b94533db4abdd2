// Analyzer: simplification and bounds of index and bool expressions under known ranges of variables. A small value:
// copy it to open a scope. Not thread-safe; cheap to make, one per use.
//
// Normal form of an index expression: a sum of  coefficient * atom  plus a constant, atoms in a fixed order, where an
// atom is a variable, a floordiv or floormod of a normal form by a positive constant, a min/max/select, or an opaque
// term (a load). What splits, fusions and paddings produce ((x*16 + y)//16 -> x, (x//4)*4 + x%4 -> x, nested div and
// mod, comparisons decided by bounds) comes out as people would write it.
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
  void Assume(const Expr& condition);  // narrows ranges where the condition is of the form var < c etc.

  Expr Simplify(const Expr& e) const;        // equal for all values in range; idempotent; any dtype, floats untouched
  Interval Bounds(const Expr& e) const;      // of an index or integer expression
  bool Proves(const Expr& condition) const;  // true: holds for all values in range; false: unknown or not

 private:
  friend Stmt SimplifyStmt(const Stmt& s, const Analyzer& context);
  arith::Context context_;
};

// Simplifies every expression in a statement, with the ranges of the loops and block iterators around it; drops If
// branches and loops that are decided, predicates that always hold. Loops of extent 1 are kept (steps refer to them).
Stmt SimplifyStmt(const Stmt& s, const Analyzer& context = {});

// e = constant + sum of coefficient * var (+ rest, absent if e is linear in `vars`).
struct LinearForm {
  std::vector<std::pair<Name, int64_t>> terms;  // in order of first appearance, coefficients non-zero
  int64_t constant = 0;
  Expr rest;
  int64_t Coefficient(const Name& var) const;
};
LinearForm ToLinear(const Expr& e);
// A number that divides the integer e, whatever its variables are; 0 for the constant 0.
int64_t CommonFactor(const Expr& e);

// What a block (or any statement) touches of each buffer, as a box: per dimension an interval expression
// [min, min + extent) where the variables in `free` range over their loops and all others are symbols.
struct BufferRegion {
  Buffer buffer;
  bool write = false;
  std::vector<Expr> min;
  std::vector<Expr> extent;  // over-approximated where not exact
};
struct VarRange {
  Name var;
  int64_t extent;  // from 0
};
std::vector<BufferRegion> AccessedRegions(const Stmt& s, const std::vector<VarRange>& free);

}  // namespace autotune
