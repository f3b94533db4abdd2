// Affine: the split-sum normal form of block bindings and guards,  sum of coefficient * atom + constant,  with its
// bounds and regions. What split, fuse and the compute_at family need, without a general simplifier (arith/). Used
// inside schedule/ only. Pure functions; thread-safe.
#pragma once
#include <optional>
#include <vector>

#include "ir/visit.h"

namespace autotune::schedule {

struct LoopRange {  // var runs over [0, extent)
  Name var;
  int64_t extent;
};
using Ranges = std::vector<LoopRange>;

struct Bounds {  // closed
  int64_t low, high;
};

struct Sum {
  struct Term {
    Expr atom;  // a variable, a floordiv or floormod, or anything that is not a sum
    int64_t coefficient;
  };
  std::vector<Term> terms;  // coefficients are not 0; atoms are distinct
  int64_t constant = 0;

  void Add(const Sum& other, int64_t scale = 1);
  void AddTerm(const Expr& atom, int64_t coefficient);
  bool IsConstant() const { return terms.empty(); }
};

Expr ToExpr(const Sum& sum);

// Simplifies sums, and floordiv, floormod, min, max by constants under the ranges. Index expressions only.
Sum Normalize(const Expr& e, const Ranges& ranges);
Expr Normalized(const Expr& e, const Ranges& ranges);

// Bounds of an index expression; absent if unknown (a variable without a range, a load).
std::optional<Bounds> BoundsOf(const Expr& e, const Ranges& ranges);
std::optional<Bounds> BoundsOf(const Sum& sum, const Ranges& ranges);
// Whether a comparison of index expressions (or a conjunction of such) holds for all values in range.
bool Proves(const Expr& condition, const Ranges& ranges);

// Substitutes and normalizes each conjunct and drops those that always hold.
Expr NormalizeCondition(const Expr& condition, const VarMap& map, const Ranges& ranges);

bool UsesAny(const Expr& e, const Ranges& vars);

// The values that an expression takes while some variables run: [min, min + span], min being free of them.
struct Region {
  Sum min;
  int64_t span = 0;
};
// Where each variable of an expression lies: fixed ones map to themselves with span 0.
using RegionMap = std::vector<std::pair<Name, Region>>;
// Over-approximates. Absent if nothing better than "anywhere" is known. Variables absent from `map` are fixed; `ranges`
// has the ranges of the fixed ones.
std::optional<Region> RegionOf(const Expr& e, const RegionMap& map, const Ranges& ranges);
// The smallest box that holds both; absent if their distance is not a constant.
std::optional<Region> Union(const Region& a, const Region& b);

// Splits a sum into fixed terms (min) and terms in the running loops, if those cover a dense interval from 0: then
// [min, min + span] is exactly what it takes.
std::optional<Region> DenseRegionOf(const Sum& sum, const Ranges& running);

}  // namespace autotune::schedule
