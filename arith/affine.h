// Affine: linear forms under the ranges of loops: their normal form, bounds and proofs. Steps of a schedule use it
// instead of the Analyzer, since it is fast: a search replays thousands of steps a second. It knows only ranges that
// start at 0. It keeps terms in the order in which they were written, and never replaces the variable of a loop of
// extent 1 by 0. So the form of a result does not depend on tile sizes. Index expressions only. Pure functions;
// thread-safe.
#pragma once
#include <optional>
#include <vector>

#include "ir/linear_form.h"
#include "ir/loop_range.h"
#include "ir/visit.h"

namespace autotune {

struct Bounds {  // closed
  int64_t low, high;
};

// Simplify sums, min, max, and floordiv and floormod by positive constants, for variables within their ranges.
LinearForm Normalize(const Expr& e, const Ranges& ranges);
Expr Normalized(const Expr& e, const Ranges& ranges);

// form = quotient * c + rest, where c > 0. `rest` has the terms that c does not divide, and a constant in [0, c).
struct Division {
  LinearForm quotient, rest;
};
Division Divide(const LinearForm& form, int64_t c);
// The normal forms of form // c and form % c, c > 0.
LinearForm NormalizeDiv(const LinearForm& form, int64_t c, const Ranges& ranges);
LinearForm NormalizeMod(const LinearForm& form, int64_t c, const Ranges& ranges);

// Bounds of an index expression; absent if unknown (a variable without a range, a load).
std::optional<Bounds> BoundsOf(const Expr& e, const Ranges& ranges);
std::optional<Bounds> BoundsOf(const LinearForm& form, const Ranges& ranges);
// Returns true if a condition surely holds for all values in range. Understands comparisons of index expressions, and
// conjunctions and disjunctions of them.
bool Proves(const Expr& condition, const Ranges& ranges);

// Applies `map` to each conjunct of the condition, drops the conjuncts that always hold, and normalizes the others.
Expr NormalizeCondition(const Expr& condition, const VarMap& map, const Ranges& ranges);

bool UsesAny(const Expr& e, const Ranges& vars);

}  // namespace autotune
