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

// Returns true if each binding is a mixed-radix number whose digits are loops of `loops`. Different iterations then
// give different values.
bool AreDigits(const std::vector<Expr>& bindings, const Ranges& loops) {
  for (const Expr& binding : bindings) {
    const LinearForm form = ToLinear(binding);
    if (form.Huge() || form.constant != 0) return false;
    std::vector<std::pair<int64_t, int64_t>> digits;  // factor, extent
    for (const LinearForm::Term& term : form.terms) {
      const Var* var = term.atom.As<Var>();
      const int64_t* extent = var ? ExtentOf(loops, var->name) : nullptr;
      if (!extent || term.coefficient < 0) return false;
      if (*extent != 1) digits.emplace_back(term.coefficient, *extent);
    }
    std::sort(digits.begin(), digits.end());
    int64_t below = 0;  // largest sum of the lower digits
    for (size_t i = 0; i < digits.size(); ++i) {
      auto [factor, extent] = digits[i];
      if (factor <= below) return false;
      if (i + 1 == digits.size()) break;  // the highest digit may have any extent
      if (extent == 0 || extent > kMaxTried || factor > kMaxTried) return false;
      below += factor * (extent - 1);
    }
  }
  return true;
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
  if (AreDigits(bindings, loops)) return {};

  std::string what;
  for (const Iter& iter : block.iters) {
    if (iter.kind != IterKind::kReduce) continue;
    what += (what.empty() ? "" : ", ") + iter.var.str() + " = " + ToText(iter.binding);
  }
  return TryAll(block, loops, what, budget);
}

}  // namespace autotune
