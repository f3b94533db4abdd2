// Sum: the normal form of an index expression, a constant plus coefficient * atom with distinct atoms. Internal to
// arith/. Coefficients wrap, which is exact modulo 2^64; callers ask Huge() before they reason about order. Not
// thread-safe.
#pragma once
#include <cstdint>

#include "arith/small_vector.h"
#include "ir/expr.h"

namespace autotune::arith {

inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// A total order of expressions that is the same in every process; 0 means Equal.
int Compare(const Expr& a, const Expr& b);
bool SameAtom(const Expr& a, const Expr& b);

struct Term {
  Expr atom;
  int64_t coefficient;
};

struct Sum {
  SmallVector<Term, 4> terms;
  int64_t constant = 0;

  Sum() = default;
  explicit Sum(int64_t value) : constant(value) {}

  void Add(const Expr& atom, int64_t k);
  void Add(const Sum& other, int64_t k);
  void Scale(int64_t k);
  bool IsConst() const { return terms.empty(); }
  bool IsAtom() const { return terms.size() == 1 && terms[0].coefficient == 1 && constant == 0; }
  int64_t Coefficient(const Expr& atom) const;
  bool Contains(const Sum& other, int64_t k) const;  // every term of k * other is a term of this, constants apart
  bool Huge() const;                                 // numbers so large that arithmetic on them could wrap

  // Canonical expression: positive terms first, greater coefficients first, then the constant.
  Expr ToExpr() const;
  bool Is(const Expr& e) const;  // whether e is exactly what ToExpr would make
  // Of an expression that ToExpr made, or any other: leaves that are not +, -, negation or multiplication by a constant
  // become atoms as they are.
  static Sum Of(const Expr& e);
};

inline constexpr int64_t kHuge = int64_t{1} << 52;
inline bool IsHuge(int64_t v) { return v > kHuge || v < -kHuge; }

}  // namespace autotune::arith
