// Simplifier: the implementation of Analyzer, with a stack of assumptions. Internal to arith/. Not thread-safe; made
// per use.
#pragma once
#include "arith/context.h"
#include "ir/stmt.h"

namespace autotune::arith {

class Simplifier {
 public:
  explicit Simplifier(const Context& base) : base_(base) {}
  Simplifier(const Simplifier&) = delete;

  Expr Run(const Expr& e);                // to a fixed point
  Expr Simplify(const Expr& e);           // one pass
  LinearForm ToForm(const Expr& e);       // of a scalar index expression, simplified
  Range BoundsOf(const LinearForm& sum);  // of a simplified sum, with all that is known
  Range PlainBounds(const Expr& e);       // by interval arithmetic alone; any integer or bool expression
  bool Proves(const Expr& condition);

  // Scopes: GetMark opens one, and Release(mark) undoes every Bind and Assume since then.
  struct Mark {
    size_t ranges, facts, known;
  };
  Mark GetMark() const { return {own_.ranges.size(), own_.facts.size(), own_.known.size()}; }
  void Release(Mark mark);
  void Bind(Name var, Range range) { own_.ranges.emplace_back(var, range); }
  void Assume(const Expr& condition, bool value);  // `condition` is simplified
  Context& own() { return own_; }

  // Return floor(s / c) and s modulo c, for c > 0. `original` may point to an expression of the result. It is returned
  // if no rule simplifies it, so that unchanged expressions keep their handles.
  LinearForm Div(LinearForm s, int64_t c, const Expr* original = nullptr);
  LinearForm Mod(LinearForm s, int64_t c, const Expr* original = nullptr);

 private:
  Range Lookup(const Name& var) const;
  Range PlainBounds(const LinearForm& sum);
  Range BoundsOf(const LinearForm& sum, int depth);

  void Gather(const Expr& e, int64_t k, LinearForm& out);
  void Recombine(LinearForm& sum);
  bool RecombineOnce(LinearForm& sum, size_t i);
  bool SplitBy(const LinearForm& s, int64_t g, LinearForm& high, LinearForm& low);
  LinearForm MinMax(BinaryOp op, const LinearForm& a, const LinearForm& b);
  Expr Finish(const Expr& original, const LinearForm& sum);

  Expr SimplifyBool(const Expr& e);
  Expr SimplifySelect(const Expr& e, const Select& n);
  Expr SimplifyOther(const Expr& e);
  Expr SimplifyTyped(const Expr& e);
  Expr SimplifyComparison(const Expr& e, const Binary& n);
  Expr CompareForms(BinaryOp op, LinearForm difference);  // simplifies `a op b`, given a - b
  Expr SimplifyJunction(const Expr& e, BinaryOp op);
  Expr FromKnown(Expr e);
  void AssumeNonNegative(const LinearForm& sum);

  const Context& base_;
  Context own_;
  bool restless_ = false;  // true: another pass may simplify the result further
};

}  // namespace autotune::arith
