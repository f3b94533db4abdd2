#include <algorithm>
#include <limits>
#include <optional>

#include "arith/analyzer.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

bool UsedInsideOnly(const State& state, const Stmt& inside, const Name& buffer) {
  auto count = [&](const Stmt& s) {
    size_t n = 0;
    ForEachBlock(s, [&](const Block& b, const auto&) { n += Reads(b, buffer) || Writes(b, buffer); });
    return n;
  };
  return IsAlloc(state.func, buffer) && count(inside) == count(state.func.body);
}

// Whether each iteration of a loop of that kind has its own copy of what is used inside it only.
bool IsPrivate(Scope scope, LoopKind kind) {
  if (IsBlockAxis(kind)) return scope != Scope::kGlobal;
  if (IsThreadAxis(kind)) return scope == Scope::kLocal || scope == Scope::kRegister;
  return true;
}

}  // namespace

// Whether e is var plus what does not change inside the loop over var: its values are consecutive, as var's are.
static bool IsShifted(const Expr& e, const Name& var, const Ranges& inner) {
  LinearForm form = ToLinear(e);
  return form.Coefficient(var) == 1 && !(form.rest && Uses(form.rest, var)) && !UsesAny(e, inner);
}

// Puts one expression in the place of its quotient and its remainder by a constant. Whether there were such two.
static bool JoinTwo(std::vector<Expr>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Binary* quotient = values[i].As<Binary>();
    if (!quotient || quotient->op != BinaryOp::kFloorDiv) continue;
    for (size_t j = 0; j < values.size(); ++j) {
      const Binary* remainder = values[j].As<Binary>();
      if (!remainder || remainder->op != BinaryOp::kFloorMod) continue;
      if (!Equal(remainder->a, quotient->a) || !Equal(remainder->b, quotient->b)) continue;
      values[i] = Expr(quotient->a);
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(j));
      return true;
    }
  }
  return false;
}

// What the spatial iterators determine together: where two of them are quotient and remainder of one value, that.
static std::vector<Expr> Determined(const Block& block) {
  std::vector<Expr> values;
  for (const Iter& iter : block.iters) {
    if (iter.kind == IterKind::kSpatial) values.push_back(iter.binding);
  }
  while (JoinTwo(values)) continue;
  return values;
}

// (k * a + r) % (k * m)  ->  k * (a % m) + r,  where only a has var, and r lies in [0, k).
static Expr WithoutLowDigits(const Expr& e, const Name& var, const Ranges& inner) {
  const Binary* mod = e.As<Binary>();
  const int64_t* by = mod && mod->op == BinaryOp::kFloorMod ? AsInt(mod->b) : nullptr;
  if (!by) return e;
  Sum rest = Normalize(mod->a, {});
  auto has_var = [&](const Sum::Term& t) { return Uses(t.atom, var); };
  auto own = std::find_if(rest.terms.begin(), rest.terms.end(), has_var);
  if (own == rest.terms.end()) return e;
  const Sum::Term high = *own;
  rest.terms.erase(own);
  std::optional<Bounds> low = BoundsOf(rest, inner);
  bool fits = low && low->low >= 0 && low->high < high.coefficient && *by % high.coefficient == 0;
  if (!fits || std::any_of(rest.terms.begin(), rest.terms.end(), has_var)) return e;
  return FloorMod(high.atom, Expr(*by / high.coefficient)) * Expr(high.coefficient) + ToExpr(rest);
}

// Some digits of `base`: base % to // from.
struct Digits {
  Expr base;
  int64_t from = 1, to = kAll;
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
};

// What nested quotients and remainders by constants leave of the innermost value.
static std::optional<Digits> DigitsOf(const Expr& e) {
  const Binary* b = e.As<Binary>();
  const int64_t* by = b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod) ? AsInt(b->b) : nullptr;
  if (!by) return Digits{.base = e};
  constexpr int64_t kMost = int64_t{1} << 31;
  std::optional<Digits> digits = DigitsOf(b->a);
  if (!digits || *by < 1 || *by > kMost || digits->from > kMost) return std::nullopt;
  const int64_t next = digits->from * *by;
  if (b->op == BinaryOp::kFloorDiv) {
    digits->from = next;
  } else if (digits->to == Digits::kAll || digits->to % next == 0) {
    digits->to = next;
  } else if (next < digits->to) {
    return std::nullopt;  // no digits: they would start anew in the middle
  }
  return digits;
}

// Each iterator determines a range of digits of var: all of it if var stands there plainly, [a, a*b) for var // a % b;
// its coefficient must exceed what the inner loops can add up to. The digits may be those of a shifted var, if all are
// of the same one: consecutive values differ in their last digits. These may start anywhere, so they must be whole.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner) {
  std::vector<Digits> digits;
  for (const Expr& binding : Determined(block)) {
    if (!Uses(binding, var.var)) continue;
    Sum sum = Normalize(WithoutLowDigits(binding, var.var, inner), {});
    const Sum::Term* own = nullptr;
    Sum rest;  // what inner loops add; outer ones are fixed
    bool several = false;
    for (const Sum::Term& t : sum.terms) {
      if (Uses(t.atom, var.var)) {
        several |= own != nullptr;
        own = &t;
      } else if (UsesAny(t.atom, inner)) {
        rest.terms.push_back(t);
      }
    }
    if (!own || several) continue;  // none where its terms cancel
    std::optional<Bounds> spread = BoundsOf(rest, inner);
    if (!spread || std::abs(own->coefficient) <= spread->high - spread->low) continue;
    std::optional<Digits> found = DigitsOf(own->atom);
    if (!found || (!found->base.As<Var>() && !IsShifted(found->base, var.var, inner))) continue;
    if (found->to == Digits::kAll) found->to = var.extent;
    digits.push_back(*found);
  }
  std::sort(digits.begin(), digits.end(),
            [](const Digits& a, const Digits& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  auto tell_apart = [&](const Expr& base) {
    int64_t covered = 1;
    for (const Digits& d : digits) {
      if (!Equal(d.base, base)) continue;
      if (d.from > covered || (d.from < covered && !base.As<Var>())) return false;
      covered = std::max(covered, d.to);
    }
    return covered >= var.extent;
  };
  return std::any_of(digits.begin(), digits.end(), [&](const Digits& d) { return tell_apart(d.base); });
}

Status CheckIndependent(const State& state, const For& loop, LoopKind kind) {
  const int64_t* extent = AsInt(loop.extent);
  Status status;
  ForEachBlock(loop.body, [&](const Block& block, const std::vector<const For*>& loops) {
    if (!status.ok()) return;
    bool separate = extent && SeparatesInstances(block, {loop.var, *extent}, RangesOf(loops));
    if ((separate || (extent && *extent == 1)) && !FeedsOf(block, loop.var).reduce) return;
    bool own = kind == LoopKind::kParallel || IsBound(kind);
    ForEachStore(block, [&](const Store& s) {
      own = own && IsPrivate(s.buffer->scope, kind) && UsedInsideOnly(state, loop.body, s.buffer->name);
    });
    if (own && !FeedsOf(block, loop.var).reduce) return;
    if (FeedsOf(block, loop.var).reduce) {
      status = Err("loop '", loop.var, "' feeds a reduction iterator of block '", block.name, "'");
    } else {
      status = Err("iterations of loop '", loop.var, "' may write the same elements in block '", block.name, "'");
    }
  });
  return status;
}

Status CheckReadsComplete(const Block& block, const std::vector<const For*>& around, const std::string& place,
                          const std::vector<Name>& but_for) {
  for (const Name& buffer : BuffersRead(block)) {
    if (std::find(but_for.begin(), but_for.end(), buffer) != but_for.end()) continue;
    for (const For* loop : around) {
      for (const Name& writer : WritersOf(loop->body, buffer)) {
        return Err("block '", block.name, "' also needs block '", writer, "', which shares loop '", loop->var,
                   "' with ", place, " and is not complete there");
      }
    }
  }
  return {};
}

Status CheckStillIndependent(const State& state, const Name& block) {
  Path path = TRY(FindBlock(state.func.body, block));
  for (const For* loop : path.Loops()) {
    if (loop->kind == LoopKind::kParallel || loop->kind == LoopKind::kVectorized) {
      TRY(CheckIndependent(state, *loop, loop->kind));
    }
  }
  return {};
}

Status CheckSourcesIndependent(const State& state, const Block& block) {
  for (const Name& buffer : BuffersRead(block)) {
    if (!IsAlloc(state.func, buffer)) continue;
    for (const Name& writer : WritersOf(state.func.body, buffer)) TRY(CheckStillIndependent(state, writer));
  }
  return {};
}

}  // namespace autotune::schedule
