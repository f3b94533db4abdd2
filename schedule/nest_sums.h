// NestSums: arithmetic on the sums of a Nest. NestOf makes sums with it, and steps that are applied to a Nest change
// them with it, so both end in the same normal form. It follows schedule/affine.h, on numbers.
//
// Normal form: equal terms are one term; a // or % distributes over the terms that its constant divides, disappears
// where the bounds decide it, and joins a // or % below it. Terms over loops of extent 1 stay, so a loop's role does
// not depend on its extent.
//
// Sums are values; nested sums and lists of terms go to the end of the Nest's tables, and lists that nobody names any
// more stay there (Nest::sums, Nest::terms). Not thread-safe.
#pragma once
#include "schedule/nest.h"

namespace autotune {

class NestSums {
 public:
  explicit NestSums(Nest& nest) : nest_(nest) {}

  struct Bounds {  // closed
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
  // An unknown value within the bounds that moves with the variables of `with` and with no others.
  Nest::Sum Opaque(const Nest::Sum& with, Bounds bounds);
  // The sum with `to` instead of the variable; all of its parts are normalised again.
  Nest::Sum Substitute(const Nest::Sum& a, Nest::Of of, Nest::Index index, const Nest::Sum& to);

  Bounds BoundsOf(const Nest::Sum& a) const;
  bool Uses(const Nest::Sum& a, Nest::Of of, Nest::Index index) const;

 private:
  Bounds BoundsOf(const Nest::Term& term) const;
  bool SameVariable(const Nest::Term& a, const Nest::Term& b) const;
  bool Same(const Nest::Sum& a, const Nest::Sum& b) const;
  Nest::Sum Unclamped(const Nest::Sum& a);  // as one term, if it is clamped
  Nest::Sum Single(const Nest::Term& term);
  Nest::Term AsVariable(const Nest::Sum& a);  // a term that is the sum
  // sum = divisor * quotient + rest; the rest has the terms that the divisor does not divide, and a constant in
  // [0, divisor).
  Nest::Sum Quotient(const Nest::Sum& a, int64_t divisor);
  Nest::Sum Rest(const Nest::Sum& a, int64_t divisor);

  // The sum in the making: the terms from `begin` to the end of the table. Only one is in the making at a time.
  void Append(Nest::Index begin, Nest::Term term);
  Nest::Sum Finish(Nest::Index begin, int64_t constant);

  Nest& nest_;
};

}  // namespace autotune
