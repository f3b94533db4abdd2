#include "ir/reduction.h"

#include <algorithm>
#include <optional>

#include "ir/int_math.h"
#include "ir/linear_form.h"
#include "ir/loop_range.h"
#include "ir/text.h"
#include "ir/visit.h"

namespace autotune {
namespace {

constexpr int64_t kMaxTried = 1 << 20;   // iterations
constexpr int64_t kMaxValues = 1 << 24;  // combinations of values of the reduction iterators

using Values = std::vector<std::pair<Name, int64_t>>;

// Returns the value of an index expression or condition; nothing if it depends on anything but `values`.
std::optional<int64_t> ValueOf(const Expr& e, const Values& values) {
  if (const IntImm* imm = e.As<IntImm>()) return imm->value;
  if (const Var* var = e.As<Var>()) {
    auto it = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == var->name; });
    return it == values.end() ? std::nullopt : std::optional(it->second);
  }
  if (const Unary* unary = e.As<Unary>()) {
    std::optional<int64_t> a = ValueOf(unary->a, values);
    if (!a) return std::nullopt;
    return unary->op == UnaryOp::kNot ? !*a : WrapTo(0 - static_cast<uint64_t>(*a), e.dtype());
  }
  const Binary* binary = e.As<Binary>();
  if (!binary) return std::nullopt;
  std::optional<int64_t> a = ValueOf(binary->a, values), b = ValueOf(binary->b, values);
  return a && b ? FoldInt(binary->op, *a, *b, binary->a.dtype()) : std::nullopt;
}

// Returns true if the condition may hold for these values, or if there is none.
bool MayHold(const Expr& condition, const Values& values) {
  if (!condition) return true;
  const Binary* binary = condition.As<Binary>();
  if (binary && binary->op == BinaryOp::kAnd) return MayHold(binary->a, values) && MayHold(binary->b, values);
  return ValueOf(condition, values).value_or(1) != 0;
}

// A condition of the predicate: `sum` is a sum of loops with positive coefficients, and sum < limit.
struct Bound {
  LinearForm sum;
  int64_t limit;
};

// Appends the conjuncts of `condition` that are bounds.
void GatherBounds(const Expr& condition, const Ranges& loops, std::vector<Bound>& bounds) {
  const Binary* binary = condition ? condition.As<Binary>() : nullptr;
  if (!binary) return;
  if (binary->op == BinaryOp::kAnd) {
    GatherBounds(binary->a, loops, bounds);
    GatherBounds(binary->b, loops, bounds);
    return;
  }
  if (binary->op != BinaryOp::kLt) return;
  LinearForm sum = ToLinear(binary->a);
  sum.Add(ToLinear(binary->b), -1);
  if (sum.Huge() || sum.constant >= 0) return;
  for (const LinearForm::Term& term : sum.terms) {
    const Var* var = term.atom.As<Var>();
    if (term.coefficient < 0 || !var || !ExtentOf(loops, var->name)) return;
  }
  const int64_t limit = -sum.constant;
  sum.constant = 0;
  bounds.push_back({std::move(sum), limit});
}

// Lowers the constant extents of loops to the values that occur where the bounds hold.
void Narrow(const std::vector<Bound>& bounds, Ranges& loops) {
  for (const Bound& bound : bounds) {
    for (const LinearForm::Term& term : bound.sum.terms) {
      for (LoopRange& loop : loops) {
        if (loop.var != term.atom.As<Var>()->name) continue;
        loop.extent = std::min(loop.extent, (bound.limit - 1) / term.coefficient + 1);
      }
    }
  }
}

// Returns 1 + the largest value of a sum of loops if the sum is a mixed-radix number whose digits are loops, so that
// different iterations give different values; else nothing. A number whose largest value is not known gives 0.
std::optional<int64_t> CountOfDigits(const LinearForm& form, const Ranges& loops) {
  if (form.Huge() || form.constant != 0) return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> digits;  // factor, extent
  for (const LinearForm::Term& term : form.terms) {
    const Var* var = term.atom.As<Var>();
    const int64_t* extent = var ? ExtentOf(loops, var->name) : nullptr;
    if (!extent || term.coefficient < 0) return std::nullopt;
    if (*extent != 1) digits.emplace_back(term.coefficient, *extent);
  }
  std::sort(digits.begin(), digits.end());
  int64_t below = 0;  // largest sum of the lower digits
  for (size_t i = 0; i < digits.size(); ++i) {
    auto [factor, extent] = digits[i];
    if (factor <= below) return std::nullopt;
    if (extent == 0 || extent > kMaxTried || factor > kMaxTried) {  // only the highest digit may have any extent
      return i + 1 == digits.size() ? std::optional<int64_t>(0) : std::nullopt;
    }
    below += factor * (extent - 1);
  }
  return below + 1;
}

// Puts `digit` for `part` in `form`, which has `part` some times or has no term of it. Returns false if neither is so.
bool Replace(const LinearForm& part, const Expr& digit, LinearForm& form) {
  const int64_t times = form.Coefficient(part.terms[0].atom) / part.terms[0].coefficient;
  if (times == 0 || !form.Contains(part, times)) {
    return std::all_of(part.terms.begin(), part.terms.end(), [&](auto& t) { return form.Coefficient(t.atom) == 0; });
  }
  form.Add(part, -times);
  form.Add(digit, times);
  return true;
}

// Makes one digit of each bounded sum that is a mixed-radix number itself: the loops that a split made, if its extents
// cover more than the loop that was split. Bounds of few terms come first, since splits nest.
void JoinBounded(std::vector<Bound> bounds, std::vector<LinearForm>& forms, Ranges& loops) {
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const Bound& a, const Bound& b) { return a.sum.terms.size() < b.sum.terms.size(); });
  for (size_t i = 0; i < bounds.size(); ++i) {
    const LinearForm part = bounds[i].sum;
    const std::optional<int64_t> count = CountOfDigits(part, loops);
    if (part.terms.size() < 2 || !count) continue;
    const Name name("(" + std::to_string(i) + ")");  // no text can have this name
    const Expr digit = IndexVar(name);
    std::vector<LinearForm> joined = forms;
    if (!std::all_of(joined.begin(), joined.end(), [&](LinearForm& form) { return Replace(part, digit, form); }))
      continue;
    forms = std::move(joined);
    loops.push_back({name, *count == 0 ? bounds[i].limit : std::min(*count, bounds[i].limit)});
    for (size_t j = i + 1; j < bounds.size(); ++j) Replace(part, digit, bounds[j].sum);
    Narrow({bounds.begin() + i + 1, bounds.end()}, loops);
  }
}

// Returns true if each binding is a mixed-radix number. Different iterations then give different values.
bool AreDigits(const std::vector<Expr>& bindings, const std::vector<Bound>& bounds, Ranges loops) {
  std::vector<LinearForm> forms;
  for (const Expr& binding : bindings) {
    forms.push_back(ToLinear(binding));
    if (forms.back().Huge()) return false;
  }
  JoinBounded(bounds, forms, loops);
  return std::all_of(forms.begin(), forms.end(),
                     [&](const LinearForm& f) { return CountOfDigits(f, loops).has_value(); });
}

// Checks the values of the reduction iterators by trying all iterations. `what` is the text of the bindings, for
// errors.
Status TryAll(const Block& block, const Ranges& loops, const std::string& what, int64_t& budget) {
  const Error unknown("cannot check that the reduction iterators take no values twice: " + what);
  int64_t total = 1, values = 1;
  for (const LoopRange& loop : loops) {
    if (loop.extent == 0 || loop.extent > kMaxTried / total) return unknown;
    total *= loop.extent;
  }
  for (const Iter& iter : block.iters) {
    if (iter.kind != IterKind::kReduce) continue;
    const int64_t* extent = AsInt(iter.extent);
    if (!extent || *extent < 1 || *extent > kMaxValues / values) return unknown;
    values *= *extent;
  }
  int64_t nodes = 0;
  auto count = [&](const Expr&) { return ++nodes, true; };
  for (const Iter& iter : block.iters) {
    if (iter.kind == IterKind::kReduce) Walk(iter.binding, count);
  }
  if (block.predicate) Walk(block.predicate, count);
  if (nodes > budget / total) return unknown;
  budget -= nodes * total;
  std::vector<bool> seen(values);
  for (int64_t n = 0; n < total; ++n) {
    Values at;
    int64_t rest = n;
    for (size_t i = loops.size(); i-- > 0; rest /= loops[i].extent)
      at.emplace_back(loops[i].var, rest % loops[i].extent);
    int64_t place = 0;
    bool inside = true;
    for (const Iter& iter : block.iters) {
      if (iter.kind != IterKind::kReduce) continue;
      std::optional<int64_t> value = ValueOf(iter.binding, at);
      if (!value) return unknown;
      at.emplace_back(iter.var, *value);
      inside &= *value >= 0 && *value < *AsInt(iter.extent);
      place = inside ? place * *AsInt(iter.extent) + *value : 0;
    }
    if (n == 0 && block.init && !(inside && place == 0)) {
      return Error("reduction iterators are not 0 at first, in the iteration that initialises: " + what);
    }
    if (!inside || !MayHold(block.predicate, at)) continue;
    if (seen[place]) return Error("reduction iterators take the same values twice: " + what);
    seen[place] = true;
  }
  return {};
}

}  // namespace

Status CheckReduction(const Block& block, const std::vector<const For*>& around, int64_t& budget) {
  std::vector<Expr> bindings;
  for (const Iter& iter : block.iters) {
    if (iter.kind == IterKind::kReduce) bindings.push_back(iter.binding);
  }
  if (bindings.empty()) return {};
  Ranges loops;  // an extent that is not constant is 0 here
  for (const For* loop : around) {
    bool spatial = false, reduce = false;
    for (const Iter& iter : block.iters) {
      (iter.kind == IterKind::kReduce ? reduce : spatial) |= UsesVar(iter.binding, loop->var);
    }
    if (reduce && spatial) return {};
    const int64_t* extent = AsInt(loop->extent);
    if (reduce) loops.push_back({loop->var, extent ? *extent : 0});
  }
  std::vector<Bound> bounds;
  GatherBounds(block.predicate, loops, bounds);
  Narrow(bounds, loops);
  if (AreDigits(bindings, bounds, loops)) return {};

  std::string what;
  for (const Iter& iter : block.iters) {
    if (iter.kind != IterKind::kReduce) continue;
    what += (what.empty() ? "" : ", ") + iter.var.str() + " = " + ToText(iter.binding);
  }
  return TryAll(block, loops, what, budget);
}

}  // namespace autotune
