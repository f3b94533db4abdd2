#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

// Returns true if the condition has the same value in all iterations of `loop`, as far as memory is concerned. No
// `loop`: if it reads no memory.
bool IsFixed(const Expr& condition, const For* loop) {
  bool fixed = true;
  Walk(condition, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (load) fixed &= loop && !StoresTo(loop->body, load->buffer->name);
    return fixed;
  });
  return fixed;
}

// if (c1) if (c2 && c3) body  ->  {c1, c2, c3} and body. Statements with an else have no guards.
struct Guarded {
  std::vector<Expr> conditions;
  Stmt body;
};
//
// A condition that reads memory may be out of bounds where an outer condition fails, and may change when `loop` stores
// to that memory. So it is taken from the outermost If only, and only if `loop` is given and stores to no such memory.
Guarded Unguard(const Stmt& s, const For* loop = nullptr) {
  const If* branch = s.As<If>();
  if (!branch || branch->else_body || !IsFixed(branch->condition, loop)) return {{}, s};
  Guarded inner = Unguard(branch->then_body);
  std::vector<Expr> conditions = Conjuncts(branch->condition);
  conditions.insert(conditions.end(), inner.conditions.begin(), inner.conditions.end());
  return {std::move(conditions), inner.body};
}
Stmt Guard(const std::vector<Expr>& conditions, Stmt body) {
  if (IsEmpty(body)) return body;
  return conditions.empty() ? body : MakeStmt(If{AndAll(conditions), std::move(body), Stmt()});
}

// Returns n if the condition is `var < n` with a constant n, else null.
const int64_t* LimitOf(const Expr& condition, const Name& var) {
  const Binary* less = condition.As<Binary>();
  const Var* left = less && less->op == BinaryOp::kLt ? less->a.As<Var>() : nullptr;
  return left && left->name == var ? AsInt(less->b) : nullptr;
}

// Moves guards out of the loop, and ends the loop at n if it has a guard `var < n`. Loops over blocks and threads stay
// unchanged, since their extents define the launch.
Stmt HoistFromLoop(const Stmt& s, const For& loop) {
  if (IsBound(loop.kind)) return s;
  Expr extent = loop.extent;
  auto with_body = [&](Stmt body) {
    return MakeStmt(For{loop.var, extent, loop.kind, loop.annotations, std::move(body)});
  };
  if (const If* branch = loop.body.As<If>(); branch && branch->else_body) {
    if (UsesVar(branch->condition, loop.var) || !IsFixed(branch->condition, &loop)) return s;
    return MakeStmt(If{branch->condition, with_body(branch->then_body), with_body(branch->else_body)});
  }
  Guarded guarded = Unguard(loop.body, &loop);
  std::vector<Expr> outside, inside;
  for (const Expr& c : guarded.conditions) {
    const int64_t *limit = LimitOf(c, loop.var), *old = AsInt(extent);
    if (limit && old && *limit >= 1) {
      extent = Expr(std::min(*limit, *old));
    } else {
      (UsesVar(c, loop.var) ? inside : outside).push_back(c);
    }
  }
  if (outside.empty() && inside.size() == guarded.conditions.size()) return s;
  const Stmt rest = with_body(Guard(inside, guarded.body));
  // Without its guards, the body may be a branch with an else.
  return Guard(outside, inside.empty() ? HoistFromLoop(rest, *rest.As<For>()) : rest);
}

// if (c && a) s; if (c && b) t  ->  if (c) { if (a) s; if (b) t }
Stmt MergeNeighbours(const Stmt& s, const Seq& seq) {
  std::vector<Stmt> merged;
  bool changed = false;
  for (const Stmt& next : seq.stmts) {
    if (merged.empty()) {
      merged.push_back(next);
      continue;
    }
    const If *a = merged.back().As<If>(), *b = next.As<If>();
    if (a && b && a->else_body && b->else_body && !HasNode<Load>(a->condition) && Equal(a->condition, b->condition)) {
      merged.back() =
          MakeStmt(If{a->condition, MakeSeq({a->then_body, b->then_body}), MakeSeq({a->else_body, b->else_body})});
      changed = true;
      continue;
    }
    Guarded x = Unguard(merged.back()), y = Unguard(next);
    std::vector<Expr> common, only_x, only_y;
    for (const Expr& c : x.conditions) (Contains(y.conditions, c) ? common : only_x).push_back(c);
    if (common.empty()) {
      merged.push_back(next);
      continue;
    }
    for (const Expr& c : y.conditions) {
      if (!Contains(common, c)) only_y.push_back(c);
    }
    Stmt inner = MakeSeq({Guard(only_x, x.body), Guard(only_y, y.body)});
    if (const Seq* pair = inner.As<Seq>()) inner = MergeNeighbours(inner, *pair);
    merged.back() = Guard(common, inner);
    changed = true;
  }
  return changed ? MakeSeq(std::move(merged)) : s;
}

}  // namespace

Result<PrimFunc> HoistGuards(const PrimFunc& f, PassEnv&) {
  return WithBody(f, WithUniqueNames(RewriteStmt(f.body, [](const Stmt& s) {
                    if (const For* loop = s.As<For>()) return HoistFromLoop(s, *loop);
                    if (const Seq* seq = s.As<Seq>()) return MergeNeighbours(s, *seq);
                    return s;
                  })));
}

}  // namespace autotune
