#include "schedule/nest_sums.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "ir/int_math.h"
#include "support/check.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr int64_t kUnbounded = Nest::kUnbounded;

int64_t Saturated(int64_t x) { return std::clamp(x, -kUnbounded, kUnbounded); }

bool IsClamped(const Nest::Sum& a) { return a.low > -kUnbounded || a.high < kUnbounded; }

}  // namespace

void NestSums::Append(Nest::Index begin, Nest::Term term) {
  std::vector<Nest::Term>& terms = nest_.terms;
  for (size_t i = static_cast<size_t>(begin); i < terms.size(); ++i) {
    if (!SameVariable(terms[i], term)) continue;
    terms[i].coefficient += term.coefficient;
    if (terms[i].coefficient == 0) terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  if (term.coefficient != 0) terms.push_back(term);
}

Nest::Sum NestSums::Finish(Nest::Index begin, int64_t constant) {
  // An insertion sort: lists are short, and std::stable_sort allocates.
  std::vector<Nest::Term>& terms = nest_.terms;
  for (size_t i = static_cast<size_t>(begin) + 1; i < terms.size(); ++i) {
    for (size_t j = i;
         j > static_cast<size_t>(begin) && std::abs(terms[j].coefficient) < std::abs(terms[j - 1].coefficient); --j)
      std::swap(terms[j], terms[j - 1]);
  }
  return {.terms = {begin, static_cast<Nest::Index>(terms.size()) - begin}, .constant = constant};
}

bool NestSums::Same(const Nest::Sum& a, const Nest::Sum& b) const {
  if (a.constant != b.constant || a.low != b.low || a.high != b.high || a.terms.size != b.terms.size) return false;
  std::span<const Nest::Term> x = nest_.TermsOf(a), y = nest_.TermsOf(b);
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i].coefficient != y[i].coefficient || !SameVariable(x[i], y[i])) return false;
  }
  return true;
}

// Two opaque values are the same only if they have the same index: separate ones may differ although they depend on the
// same variables.
bool NestSums::SameVariable(const Nest::Term& a, const Nest::Term& b) const {
  if (a.of != b.of || a.div != b.div || a.mod != b.mod) return false;
  return a.index == b.index || (a.of == Nest::Of::kSum && Same(nest_.sums[a.index], nest_.sums[b.index]));
}

Nest::Sum NestSums::Single(const Nest::Term& term) {
  const auto begin = static_cast<Nest::Index>(nest_.terms.size());
  Append(begin, term);
  return Finish(begin, 0);
}

Nest::Sum NestSums::Variable(Nest::Of of, Nest::Index index) { return Single({.of = of, .index = index}); }

Nest::Term NestSums::AsVariable(const Nest::Sum& a) {
  if (a.terms.size == 1 && a.constant == 0 && !IsClamped(a)) {
    const Nest::Term& term = nest_.terms[a.terms.begin];
    if (term.coefficient == 1 && term.div == 1 && term.mod == 0) return term;
  }
  nest_.sums.push_back(a);
  return {.of = Nest::Of::kSum, .index = static_cast<Nest::Index>(nest_.sums.size()) - 1};
}

Nest::Sum NestSums::Unclamped(const Nest::Sum& a) { return IsClamped(a) ? Single(AsVariable(a)) : a; }

Nest::Sum NestSums::Add(const Nest::Sum& a, const Nest::Sum& b, int64_t scale) {
  const Nest::Sum x = Unclamped(a), y = Unclamped(b);
  const auto begin = static_cast<Nest::Index>(nest_.terms.size());
  for (Nest::Index i = 0; i < x.terms.size; ++i) Append(begin, nest_.terms[x.terms.begin + i]);
  for (Nest::Index i = 0; i < y.terms.size; ++i) {
    Nest::Term term = nest_.terms[y.terms.begin + i];
    term.coefficient *= scale;
    Append(begin, term);
  }
  return Finish(begin, x.constant + y.constant * scale);
}

Nest::Sum NestSums::Quotient(const Nest::Sum& a, int64_t divisor) {
  const auto begin = static_cast<Nest::Index>(nest_.terms.size());
  for (Nest::Index i = 0; i < a.terms.size; ++i) {
    Nest::Term term = nest_.terms[a.terms.begin + i];
    if (term.coefficient % divisor != 0) continue;
    term.coefficient /= divisor;
    Append(begin, term);
  }
  return Finish(begin, FloorDivide(a.constant, divisor));
}

Nest::Sum NestSums::Rest(const Nest::Sum& a, int64_t divisor) {
  const auto begin = static_cast<Nest::Index>(nest_.terms.size());
  for (Nest::Index i = 0; i < a.terms.size; ++i) {
    const Nest::Term term = nest_.terms[a.terms.begin + i];
    if (term.coefficient % divisor != 0) Append(begin, term);
  }
  return Finish(begin, FloorModulo(a.constant, divisor));
}

Nest::Sum NestSums::Div(const Nest::Sum& a, int64_t divisor) {
  CHECK(divisor > 0);
  if (divisor == 1) return a;
  const Nest::Sum x = Unclamped(a), quotient = Quotient(x, divisor), rest = Rest(x, divisor);
  if (BoundsOf(rest).Within(0, divisor - 1)) return quotient;
  if (rest.terms.size == 1 && rest.constant == 0) {
    Nest::Term term = nest_.terms[rest.terms.begin];
    if (term.coefficient == 1 && term.mod % divisor == 0 && term.div <= kUnbounded / divisor) {
      term.div *= divisor;
      term.mod /= divisor;
      return Add(quotient, Single(term));
    }
  }
  // Let `factor` be a common factor of a coefficient and the divisor. If the terms that it does not divide add up to
  // less than `factor`, they do not change the quotient.
  for (Nest::Index i = 0; i < rest.terms.size; ++i) {
    const int64_t factor = std::gcd(nest_.terms[rest.terms.begin + i].coefficient, divisor);
    if (factor == 1 || !BoundsOf(Rest(rest, factor)).Within(0, factor - 1)) continue;
    return Add(quotient, Div(Quotient(rest, factor), divisor / factor));
  }
  Nest::Term term = AsVariable(rest);
  term.div = divisor;
  return Add(quotient, Single(term));
}

Nest::Sum NestSums::Mod(const Nest::Sum& a, int64_t divisor) {
  CHECK(divisor > 0);
  if (divisor == 1) return {};
  const Nest::Sum rest = Rest(Unclamped(a), divisor);
  if (BoundsOf(rest).Within(0, divisor - 1)) return rest;
  if (rest.terms.size == 1 && rest.constant == 0) {
    Nest::Term term = nest_.terms[rest.terms.begin];
    if (term.coefficient == 1 && term.mod % divisor == 0) {
      term.mod = divisor;
      return Single(term);
    }
  }
  for (Nest::Index i = 0; i < rest.terms.size; ++i) {
    const int64_t factor = std::gcd(nest_.terms[rest.terms.begin + i].coefficient, divisor);
    if (factor == 1) continue;
    const Nest::Sum small = Rest(rest, factor);
    if (!BoundsOf(small).Within(0, factor - 1)) continue;
    return Add(small, Mod(Quotient(rest, factor), divisor / factor), factor);
  }
  Nest::Term term = AsVariable(rest);
  term.mod = divisor;
  return Single(term);
}

Nest::Sum NestSums::Clamp(const Nest::Sum& a, int64_t low, int64_t high) {
  const Bounds bounds = BoundsOf(a);
  if (bounds.high <= low) return Constant(low);
  if (bounds.low >= high) return Constant(high);
  Nest::Sum clamped = a;
  if (bounds.low < low) clamped.low = std::max(a.low, low);
  if (bounds.high > high) clamped.high = std::min(a.high, high);
  return clamped;
}

Nest::Sum NestSums::Opaque(const Nest::Sum& with, Bounds bounds) {
  Nest::Sum sum = Unclamped(with);
  sum.constant = 0;
  sum.low = bounds.low;
  sum.high = bounds.high;
  nest_.sums.push_back(sum);
  return Single({.of = Nest::Of::kOpaque, .index = static_cast<Nest::Index>(nest_.sums.size()) - 1});
}

Nest::Sum NestSums::Substitute(const Nest::Sum& a, Nest::Of of, Nest::Index index, const Nest::Sum& to) {
  if (!Uses(a, of, index)) return a;
  Nest::Sum sum = Constant(a.constant);
  for (Nest::Index i = 0; i < a.terms.size; ++i) {
    const Nest::Term term = nest_.terms[a.terms.begin + i];
    Nest::Sum x;
    if (term.of == of && term.index == index) {
      x = to;
    } else if (term.of == Nest::Of::kSum) {
      x = Substitute(Nest::Sum(nest_.sums[term.index]), of, index, to);
    } else if (term.of == Nest::Of::kOpaque) {
      Nest::Sum with = nest_.sums[term.index];
      const Bounds bounds{with.low, with.high};
      with.low = -kUnbounded;
      with.high = kUnbounded;
      x = Opaque(Substitute(with, of, index, to), bounds);
    } else {
      x = Variable(term.of, term.index);
    }
    x = Div(x, term.div);
    if (term.mod > 0) x = Mod(x, term.mod);
    sum = Add(sum, x, term.coefficient);
  }
  return IsClamped(a) ? Clamp(sum, a.low, a.high) : sum;
}

NestSums::Bounds NestSums::BoundsOf(const Nest::Term& term) const {
  Bounds x{0, 0};
  if (term.of == Nest::Of::kLoop) {
    x.high = nest_.loops[term.index].extent - 1;
  } else if (term.of == Nest::Of::kIterator) {
    x.high = nest_.iterators[term.index].extent - 1;
  } else if (term.of == Nest::Of::kSum) {
    x = BoundsOf(nest_.sums[term.index]);
  } else {
    x = {nest_.sums[term.index].low, nest_.sums[term.index].high};
  }
  if (term.div > 1) x = {FloorDivide(x.low, term.div), FloorDivide(x.high, term.div)};
  if (term.mod > 0) {
    const bool wraps = FloorDivide(x.low, term.mod) != FloorDivide(x.high, term.mod);
    x = wraps ? Bounds{0, term.mod - 1} : Bounds{FloorModulo(x.low, term.mod), FloorModulo(x.high, term.mod)};
  }
  return x;
}

NestSums::Bounds NestSums::BoundsOf(const Nest::Sum& a) const {
  Bounds total{a.constant, a.constant};
  for (const Nest::Term& term : nest_.TermsOf(a)) {
    const Bounds x = BoundsOf(term);
    const int64_t low = TimesWithin<kUnbounded>(x.low, term.coefficient),
                  high = TimesWithin<kUnbounded>(x.high, term.coefficient);
    total.low = Saturated(total.low + std::min(low, high));
    total.high = Saturated(total.high + std::max(low, high));
  }
  return {std::clamp(total.low, a.low, a.high), std::clamp(total.high, a.low, a.high)};
}

bool NestSums::Uses(const Nest::Sum& a, Nest::Of of, Nest::Index index) const {
  for (const Nest::Term& term : nest_.TermsOf(a)) {
    if (term.of == of && term.index == index) return true;
    const bool nested = term.of == Nest::Of::kSum || term.of == Nest::Of::kOpaque;
    if (nested && Uses(nest_.sums[term.index], of, index)) return true;
  }
  return false;
}

}  // namespace autotune
