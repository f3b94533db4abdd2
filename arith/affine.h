// Affine: linear forms under the ranges of loops: their normal form, bounds and proofs. It serves steps of a schedule,
// of which a search replays thousands a second. Unlike the Analyzer, it knows ranges that start at 0 and nothing else,
// keeps terms in the order in which they were written, and never replaces a loop of one iteration by its value: what a
// loop feeds must not depend on tile sizes. Index expressions only. Pure functions; thread-safe.
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

// Simplifies sums, and floordiv, floormod, min, max by constants under the ranges.
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
// Returns true if a comparison of index expressions (or a conjunction of such) holds for all values in range.
bool Proves(const Expr& condition, const Ranges& ranges);

// Substitutes and normalizes each conjunct and drops those that always hold.
Expr NormalizeCondition(const Expr& condition, const VarMap& map, const Ranges& ranges);

bool UsesAny(const Expr& e, const Ranges& vars);

}  // namespace autotune
