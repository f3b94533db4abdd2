// LinearForm: an index expression as a sum, constant + coefficient * atom + ..., with distinct atoms. An atom is
// anything that is not a sum itself: a variable, a floordiv or floormod, a min or max, a load. Every analysis of
// indices starts from a LinearForm. Four terms fit into the object, so that usual forms never allocate. Coefficients
// wrap, which is exact modulo 2^64; callers ask Huge() before they reason about order. A value; not thread-safe.
#pragma once
#include <cstdint>

#include "ir/expr.h"
#include "support/small_vector.h"

namespace autotune {

inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Numbers of a greater magnitude are huge: arithmetic on them could wrap.
inline constexpr int64_t kHuge = int64_t{1} << 52;
inline bool IsHuge(int64_t v) { return v > kHuge || v < -kHuge; }

// A total order of expressions that is the same in every process; 0 means Equal.
int Compare(const Expr& a, const Expr& b);
bool SameAtom(const Expr& a, const Expr& b);

struct LinearForm {
  struct Term {
    Expr atom;
    int64_t coefficient;
  };
  struct VariableTerm {
    Name var;
    int64_t coefficient;
  };

  SmallVector<Term, 4> terms;  // in order of first appearance; coefficients are not 0
  int64_t constant = 0;

  LinearForm() = default;
  explicit LinearForm(int64_t value) : constant(value) {}

  void Add(const Expr& atom, int64_t k);  // an integer constant goes to `constant`
  void Add(const LinearForm& other, int64_t k = 1);
  void Scale(int64_t k);
  bool IsConst() const { return terms.empty(); }
  bool IsAtom() const { return terms.size() == 1 && terms[0].coefficient == 1 && constant == 0; }
  int64_t Coefficient(const Expr& atom) const;
  int64_t Coefficient(const Name& var) const;
  bool Contains(const LinearForm& other, int64_t k) const;  // each term of k * other is a term of this, constants apart
  bool SameTerms(const LinearForm& other) const;            // has the same terms, so both differ by a constant
  bool Huge() const;                                        // some number is huge (IsHuge)

  // Variables returns the terms whose atoms are variables. Rest returns the sum of the other terms, without the
  // constant; absent if there are none.
  SmallVector<VariableTerm, 4> Variables() const;
  Expr Rest() const;

  // Canonical expression: positive terms first, then by descending magnitude of the coefficients, then the constant. A
  // positive constant is first if no term is positive.
  Expr ToExpr() const;
  bool Is(const Expr& e) const;  // whether e is exactly what ToExpr would make
  // The expression with its terms in the order of `terms`. Schedule steps make it, so that the order in which loops
  // were split stays visible in the program.
  Expr InOrder() const;
};

// Returns the form of an expression as it is written. A node that is no +, -, negation or multiplication by a constant
// becomes an atom, unchanged.
LinearForm ToLinear(const Expr& e);
// Returns a number that divides e for all values of its variables; 0 for the constant 0.
int64_t CommonFactor(const Expr& e);

}  // namespace autotune
