// NestSums: arithmetic on the sums of a Nest. NestOf makes sums with it, and steps that are applied to a Nest change
// sums with it, so both end in the same normal form. The rules are those of arith/affine.h, applied to numbers instead
// of expressions.
//
// Normal form: terms of the same variable are added up. A // or % distributes over the terms whose coefficients its
// constant divides, merges with a // or % nested directly in it, and disappears if the bounds determine its result.
// Terms over loops of extent 1 stay, so a loop's role does not depend on its extent.
//
// Sums are values. The class appends nested sums to Nest::sums and lists of terms to Nest::terms; it never removes
// entries that are no longer used. Not thread-safe.
#pragma once
#include "schedule/nest.h"

namespace autotune {

class NestSums {
 public:
  explicit NestSums(Nest& nest) : nest_(nest) {}

  struct Bounds {  // both ends are included
    int64_t low, high;
    bool Within(int64_t l, int64_t h) const { return low >= l && high <= h; }
  };

  static Nest::Sum Constant(int64_t value) { return {.constant = value}; }
  Nest::Sum Variable(Nest::Of of, Nest::Index index);
  Nest::Sum Add(const Nest::Sum& a, const Nest::Sum& b, int64_t scale = 1);  // a + scale * b
  Nest::Sum Scale(const Nest::Sum& a, int64_t scale) { return Add({}, a, scale); }
  Nest::Sum Div(const Nest::Sum& a, int64_t divisor);  // a // divisor, which is positive
  Nest::Sum Mod(const Nest::Sum& a, int64_t divisor);  // a % divisor, which is positive
  Nest::Sum Clamp(const Nest::Sum& a, int64_t low, int64_t high);
  // Returns an unknown value within `bounds` that depends on the variables of `with` only.
  Nest::Sum Opaque(const Nest::Sum& with, Bounds bounds);
  // Returns the sum `a` with `to` in place of the variable, normalised again.
  Nest::Sum Substitute(const Nest::Sum& a, Nest::Of of, Nest::Index index, const Nest::Sum& to);

  Bounds BoundsOf(const Nest::Sum& a) const;
  bool Uses(const Nest::Sum& a, Nest::Of of, Nest::Index index) const;

 private:
  Bounds BoundsOf(const Nest::Term& term) const;
  bool SameVariable(const Nest::Term& a, const Nest::Term& b) const;
  bool Same(const Nest::Sum& a, const Nest::Sum& b) const;
  Nest::Sum Unclamped(const Nest::Sum& a);  // a clamped sum becomes a single term; others stay
  Nest::Sum Single(const Nest::Term& term);
  Nest::Term AsVariable(const Nest::Sum& a);  // a term whose value is the sum
  // a = divisor * Quotient(a) + Rest(a). The rest has the terms whose coefficients the divisor does not divide, and a
  // constant in [0, divisor).
  Nest::Sum Quotient(const Nest::Sum& a, int64_t divisor);
  Nest::Sum Rest(const Nest::Sum& a, int64_t divisor);

  // Append adds a term to the sum that is being built: the terms from `begin` to the end of Nest::terms. Finish sorts
  // them and returns the sum. Only one sum can be under construction.
  void Append(Nest::Index begin, Nest::Term term);
  Nest::Sum Finish(Nest::Index begin, int64_t constant);

  Nest& nest_;
};

}  // namespace autotune
