#include "lower/tails.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "arith/affine.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// A guard `inner <= slack`. `inner` depends on the nest's own variables and ranges from 0 to `most`; `slack` depends on
// the variables around the nest.
struct LaneGuard {
  Expr condition, inner, slack;
  int64_t most = 0;
  int64_t step = 0;  // divides all changes of slack; 0 if slack is constant
  int64_t left = 0;  // the value of slack when 0 <= slack < step
};

std::optional<LaneGuard> Analyze(const Expr& condition, const Ranges& inner) {
  LaneGuard guard{.condition = condition, .inner = Expr(0)};
  Expr difference = Slack(condition);
  if (!difference) return std::nullopt;
  LinearForm form = ToLinear(difference);
  const Expr rest = form.Rest();
  guard.slack = Expr(form.constant);
  if (rest) {
    if (UsesAny(rest, inner)) return std::nullopt;
    guard.slack = rest + guard.slack;
    guard.step = CommonFactor(rest);
  }
  for (const auto& [var, coefficient] : form.Variables()) {
    const int64_t* extent = ExtentOf(inner, var);
    if (!extent) {
      guard.slack = IndexVar(var) * Expr(coefficient) + guard.slack;
      guard.step = std::gcd(guard.step, coefficient);
    } else if (coefficient > 0) {
      return std::nullopt;  // the guard excludes lanes at the beginning
    } else {
      guard.inner = guard.inner + IndexVar(var) * Expr(-coefficient);
      guard.most += -coefficient * (*extent - 1);
    }
  }
  if (guard.step == 0) {
    guard.left = form.constant;
  } else {
    guard.left = ((form.constant % guard.step) + guard.step) % guard.step;
    if (guard.step <= guard.most) return std::nullopt;
  }
  return guard;
}

// Shortens vectorized loops of s to the iterations in which their guards hold, if that number is constant. Unrolls the
// unrolled loops around them that decide it.
Stmt Trim(const Stmt& s, const std::set<Name>& lanes) {
  auto recurse = [&](const Stmt& child) { return Trim(child, lanes); };
  const For* loop = s.As<For>();
  if (!loop || !AsInt(loop->extent)) return MapChildren(s, recurse, nullptr);
  if (loop->kind == LoopKind::kUnrolled) {
    std::vector<Expr> conditions = GuardsIn(s).conditions;
    bool decides = std::any_of(conditions.begin(), conditions.end(), [&](const Expr& c) {
      return UsesVar(c, loop->var) && UsesVar(c, [&](const Name& name) { return lanes.contains(name); });
    });
    if (!decides) return MapChildren(s, recurse, nullptr);
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *AsInt(loop->extent); ++i) {
      copies.push_back(Trim(Substitute(loop->body, {{loop->var, Expr(i)}}), lanes));
    }
    return MakeSeq(std::move(copies));
  }
  if (loop->kind != LoopKind::kVectorized) return MapChildren(s, recurse, nullptr);
  const If* branch = loop->body.As<If>();
  if (!branch || branch->else_body || HasNode<Load>(branch->condition)) return MapChildren(s, recurse, nullptr);
  int64_t extent = *AsInt(loop->extent);
  std::vector<Expr> kept;
  for (const Expr& condition : Conjuncts(branch->condition)) {
    std::optional<LaneGuard> guard = Analyze(condition, {{loop->var, *AsInt(loop->extent)}});
    if (guard && guard->step == 0 && guard->most > 0) {
      int64_t stride = guard->most / (*AsInt(loop->extent) - 1);
      extent = std::min(extent, guard->left < 0 ? 0 : guard->left / stride + 1);
    } else if (guard && guard->step == 0) {
      if (guard->left < 0) extent = 0;
    } else {
      kept.push_back(condition);
    }
  }
  if (extent == 0) return MakeSeq({});
  Stmt body = kept.empty() ? branch->then_body : MakeStmt(If{AndAll(kept), branch->then_body, Stmt()});
  return MakeStmt(For{loop->var, Expr(extent), loop->kind, loop->annotations, recurse(body)});
}

// Returns true if the condition guards all stores in s.
bool AllUnder(const Stmt& s, const Expr& condition) {
  if (s.As<Store>()) return false;
  if (const If* branch = s.As<If>()) {
    if (branch->else_body) return AllUnder(branch->then_body, condition) && AllUnder(branch->else_body, condition);
    return Contains(Conjuncts(branch->condition), condition) || AllUnder(branch->then_body, condition);
  }
  bool all = true;
  MapChildren(
      s, [&](const Stmt& child) { return all &= AllUnder(child, condition), child; }, nullptr);
  return all;
}

}  // namespace

Guards GuardsIn(const Stmt& s) {
  Guards found;
  Walk(s, [&](const Stmt& x) {
    if (const For* loop = x.As<For>(); loop && AsInt(loop->extent))
      found.inner.emplace_back(loop->var, *AsInt(loop->extent));
    const If* branch = x.As<If>();
    if (branch && !branch->else_body && !HasNode<Load>(branch->condition)) {
      for (const Expr& c : Conjuncts(branch->condition)) {
        if (!Contains(found.conditions, c)) found.conditions.push_back(c);
      }
    }
    return true;
  });
  return found;
}

Expr Slack(const Expr& condition) {
  const Binary* b = condition.As<Binary>();
  if (!b || !b->a.dtype().IsIndex()) return Expr();
  switch (b->op) {
    case BinaryOp::kLt:
      return b->b - b->a - Expr(1);
    case BinaryOp::kLe:
      return b->b - b->a;
    case BinaryOp::kGt:
      return b->a - b->b - Expr(1);
    case BinaryOp::kGe:
      return b->a - b->b;
    default:
      return Expr();
  }
}

Stmt MapGuards(const Stmt& s, const std::function<Expr(const Expr&)>& fn) {
  return RewriteStmt(s, [&](const Stmt& x) {
    const If* branch = x.As<If>();
    if (!branch || branch->else_body) return x;
    std::vector<Expr> kept;
    for (const Expr& c : Conjuncts(branch->condition)) {
      Expr mapped = fn(c);
      if (!IsConst(mapped, 1)) kept.push_back(std::move(mapped));
    }
    return kept.empty() ? branch->then_body : MakeStmt(If{AndAll(kept), branch->then_body, Stmt()});
  });
}

std::optional<Tails> SplitTails(const Stmt& s, const Analyzer& outer) {
  std::set<Name> lanes;
  bool fills_registers = false;
  Walk(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    if (loop && loop->kind == LoopKind::kVectorized) lanes.insert(loop->var);
    const Store* store = x.As<Store>();
    fills_registers |= store && store->buffer->scope == Scope::kRegister;
    return true;
  });
  if (fills_registers) return std::nullopt;  // register tiles are filled completely; nothing reads the excess
  auto uses_lanes = [&](const Expr& e) { return UsesVar(e, [&](const Name& name) { return lanes.contains(name); }); };
  Guards guards = GuardsIn(s);
  bool found = false;
  std::optional<LaneGuard> varies;
  for (const Expr& condition : guards.conditions) {
    if (!uses_lanes(condition)) continue;
    std::optional<LaneGuard> guard = Analyze(condition, guards.inner);
    if (!guard || (guard->step != 0 && varies)) return std::nullopt;
    found = true;
    if (guard->step != 0) varies = std::move(guard);
  }
  if (!found) return std::nullopt;
  auto depends = [&](const Stmt& nest) {
    std::vector<Expr> left = GuardsIn(nest).conditions;
    return std::any_of(left.begin(), left.end(), uses_lanes);
  };
  if (varies && !AllUnder(s, varies->condition)) return std::nullopt;  // some stores are unguarded
  if (!varies) {
    Tails tails{.tail = Trim(s, lanes)};
    return depends(tails.tail) ? std::nullopt : std::optional(std::move(tails));
  }
  auto with = [&](const Expr& now) {
    return Trim(MapGuards(s, [&](const Expr& c) { return Equal(c, varies->condition) ? now : c; }), lanes);
  };
  Tails tails;
  tails.whole = outer.Simplify(varies->slack >= Expr(varies->most));
  tails.some = outer.Simplify(varies->slack >= Expr(0));
  tails.fast = with(BoolConst(true));
  // In a tail, exactly the lanes with inner <= left remain.
  tails.tail = varies->left >= varies->most ? MakeSeq({}) : with(varies->inner <= Expr(varies->left));
  if (depends(tails.fast) || depends(tails.tail)) return std::nullopt;
  if (IsConst(tails.whole, 1)) return Tails{.tail = tails.fast};
  if (IsConst(tails.whole, 0)) tails.whole = Expr();
  if (IsConst(tails.some, 1)) tails.some = Expr();
  return tails;
}

}  // namespace autotune
