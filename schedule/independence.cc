#include <algorithm>

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

// Each iterator determines a range of digits of var: all of it if var stands there plainly, [a, a*b) for var // a % b;
// its coefficient must exceed what the inner loops can add up to. The digits may be those of a shifted var, if all are
// of the same one: consecutive values differ in their last digits. These may start anywhere, so they must be whole.
bool SeparatesInstances(const Block& block, const LoopRange& var, const Ranges& inner) {
  struct Digits {
    Expr base;  // whose they are
    int64_t from, to;
  };
  std::vector<Digits> digits;
  for (const Iter& iter : block.iters) {
    if (iter.kind != IterKind::kSpatial || !Uses(iter.binding, var.var)) continue;
    Sum sum = Normalize(iter.binding, {});
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
    int64_t from = 1, to = var.extent;
    Expr atom = own->atom;
    if (const Binary* b = atom.As<Binary>(); b && b->op == BinaryOp::kFloorMod && AsInt(b->b)) {
      to = *AsInt(b->b);
      atom = b->a;
    }
    if (const Binary* b = atom.As<Binary>(); b && b->op == BinaryOp::kFloorDiv && AsInt(b->b)) {
      from = *AsInt(b->b);
      to = own->atom.As<Binary>()->op == BinaryOp::kFloorMod ? to * from : var.extent;
      atom = b->a;
    }
    if (!atom.As<Var>() && !IsShifted(atom, var.var, inner)) continue;
    digits.push_back({atom, from, to});
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
  if (extent && *extent == 1) return {};
  Status status;
  ForEachBlock(loop.body, [&](const Block& block, const std::vector<const For*>& loops) {
    if (!status.ok()) return;
    bool separate = extent && SeparatesInstances(block, {loop.var, *extent}, RangesOf(loops));
    if (separate && !FeedsOf(block, loop.var).reduce) return;
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
