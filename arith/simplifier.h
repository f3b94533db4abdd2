// Simplifier: the work behind Analyzer, with a stack of assumptions. Internal to arith/. Not thread-safe; made per use.
#pragma once
#include "arith/context.h"
#include "ir/stmt.h"

namespace autotune::arith {

class Simplifier {
 public:
  explicit Simplifier(const Context& base) : base_(base) {}
  Simplifier(const Simplifier&) = delete;

  Expr Run(const Expr& e);           // to a fixed point
  Expr Simplify(const Expr& e);      // one pass
  Sum ToSum(const Expr& e);          // of a scalar index expression, simplified
  Range BoundsOf(const Sum& sum);    // of a simplified sum, with all that is known
  Range PlainBounds(const Expr& e);  // by interval arithmetic alone; any integer or bool expression
  bool Proves(const Expr& condition);

  // Scopes: remember Mark(), Bind and Assume, then Release.
  struct Mark {
    size_t ranges, facts, known;
  };
  Mark GetMark() const { return {own_.ranges.size(), own_.facts.size(), own_.known.size()}; }
  void Release(Mark mark);
  void Bind(Name var, Range range) { own_.ranges.emplace_back(var, range); }
  void Assume(const Expr& condition, bool value);  // `condition` is simplified
  Context& own() { return own_; }

  // floor(s / c) and s modulo c, c > 0. `original` is an expression of that, which comes back if nothing is simpler.
  Sum Div(Sum s, int64_t c, const Expr* original = nullptr);
  Sum Mod(Sum s, int64_t c, const Expr* original = nullptr);

 private:
  Range Lookup(const Name& var) const;
  Range PlainBounds(const Sum& sum);
  Range BoundsOf(const Sum& sum, int depth);

  void Gather(const Expr& e, int64_t k, Sum& out);
  void Recombine(Sum& sum);
  bool RecombineOnce(Sum& sum, size_t i);
  bool SplitBy(const Sum& s, int64_t g, Sum& high, Sum& low);
  Sum MinMax(BinaryOp op, const Sum& a, const Sum& b);
  Expr Finish(const Expr& original, const Sum& sum);

  Expr SimplifyBool(const Expr& e);
  Expr SimplifySelect(const Expr& e, const Select& n);
  Expr SimplifyOther(const Expr& e);
  Expr SimplifyTyped(const Expr& e);
  Expr SimplifyComparison(const Expr& e, const Binary& n);
  Expr CompareSums(BinaryOp op, Sum difference);  // of a - b
  Expr SimplifyJunction(const Expr& e, BinaryOp op);
  Expr FromKnown(Expr e);
  void AssumeNonNegative(const Sum& sum);

  const Context& base_;
  Context own_;
  bool restless_ = false;  // a rule was used whose result another pass may simplify further
};

}  // namespace autotune::arith
