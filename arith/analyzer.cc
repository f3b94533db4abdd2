#include "arith/analyzer.h"

#include <algorithm>

#include "arith/simplifier.h"

namespace autotune {

using arith::Range;
using arith::Simplifier;

void Analyzer::Bind(Name var, int64_t low, int64_t high) { Bind(var, Interval{low, high}); }

void Analyzer::Bind(Name var, Interval interval) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  Range range;
  if (interval.low && *interval.low >= -kLimit) range.low = std::min(*interval.low, kLimit);
  if (interval.high && *interval.high <= kLimit) range.high = std::max(*interval.high, -kLimit);
  for (auto& [name, known] : context_.ranges) {
    if (name == var) {
      known = range;
      return;
    }
  }
  context_.ranges.emplace_back(var, range);
}

void Analyzer::Assume(const Expr& condition) {
  arith::Context added;
  {
    Simplifier simplifier(context_);
    simplifier.Assume(simplifier.Run(condition), true);
    added = std::move(simplifier.own());
  }
  for (const auto& [name, range] : added.ranges) Bind(name, Interval{range.low, range.high});
  for (auto& fact : added.facts) context_.facts.push_back(std::move(fact));
  for (auto& known : added.known) context_.known.push_back(std::move(known));
}

Expr Analyzer::Simplify(const Expr& e) const { return Simplifier(context_).Run(e); }

Interval Analyzer::Bounds(const Expr& e) const {
  Simplifier simplifier(context_);
  Range r = e.dtype() == DType::Index() ? simplifier.BoundsOf(simplifier.ToForm(e)) : simplifier.PlainBounds(e);
  Interval interval;
  if (r.low != Range::kNegInf) interval.low = r.low;
  if (r.high != Range::kPosInf) interval.high = r.high;
  return interval;
}

bool Analyzer::Proves(const Expr& condition) const { return Simplifier(context_).Proves(condition); }

}  // namespace autotune
