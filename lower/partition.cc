#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

using Ranges = std::vector<std::pair<Name, int64_t>>;  // loops with constant extents

bool IsExpanded(const For& loop) { return loop.kind == LoopKind::kVectorized || loop.kind == LoopKind::kUnrolled; }

// The smallest value of e over the inner loops, as an expression of the others; absent where e is not linear in them.
Expr Smallest(const Expr& e, const Ranges& inner) {
  LinearForm form = ToLinear(e);
  auto extent_of = [&](const Name& n) -> const int64_t* {
    for (const auto& [var, extent] : inner) {
      if (var == n) return &extent;
    }
    return nullptr;
  };
  Expr smallest = Expr(form.constant);
  if (form.rest) {
    if (UsesVar(form.rest, [&](const Name& n) { return extent_of(n) != nullptr; })) return Expr();
    smallest = form.rest + smallest;
  }
  for (const auto& [var, coefficient] : form.terms) {
    const int64_t* extent = extent_of(var);
    if (!extent) {
      smallest = IndexVar(var) * Expr(coefficient) + smallest;
    } else if (coefficient < 0) {
      smallest = smallest + Expr(coefficient * (*extent - 1));
    }
  }
  return smallest;
}

// A condition over outer variables that implies `condition` for every value of the inner ones; absent if none is known.
Expr HoldsForAll(const Expr& condition, const Ranges& inner) {
  const Binary* b = condition.As<Binary>();
  if (!b || !b->a.dtype().IsIndex()) return Expr();
  Expr difference;  // condition <=> difference >= 0
  switch (b->op) {
    case BinaryOp::kLt:
      difference = b->b - b->a - Expr(1);
      break;
    case BinaryOp::kLe:
      difference = b->b - b->a;
      break;
    case BinaryOp::kGt:
      difference = b->a - b->b - Expr(1);
      break;
    case BinaryOp::kGe:
      difference = b->a - b->b;
      break;
    default:
      return Expr();
  }
  Expr smallest = Smallest(difference, inner);
  return smallest ? smallest >= Expr(0) : Expr();
}

class Partitioner {
 public:
  Stmt Run(const Stmt& s, const Analyzer& outer) {
    const For* loop = s.As<For>();
    if (loop && AsInt(loop->extent)) {
      if (IsExpanded(*loop)) return Split(s, outer);
      Analyzer inside = outer;
      inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child, inside); }, nullptr);
    }
    return MapChildren(
        s, [&](const Stmt& child) { return Run(child, outer); }, nullptr);
  }

 private:
  // if (every guard inside holds) s without them, else s as it is with serial loops
  Stmt Split(const Stmt& s, const Analyzer& outer) {
    Ranges inner;
    std::vector<Expr> guards, whole;
    Walk(s, [&](const Stmt& x) {
      if (const For* loop = x.As<For>(); loop && AsInt(loop->extent))
        inner.emplace_back(loop->var, *AsInt(loop->extent));
      const If* branch = x.As<If>();
      if (branch && !branch->else_body && !HasLoad(branch->condition)) {
        for (const Expr& c : Conjuncts(branch->condition)) {
          if (std::none_of(guards.begin(), guards.end(), [&](const Expr& g) { return Equal(g, c); }))
            guards.push_back(c);
        }
      }
      return true;
    });
    std::vector<Expr> dropped;
    for (const Expr& guard : guards) {
      Expr all = HoldsForAll(guard, inner);
      if (!all) continue;
      all = outer.Simplify(all);
      if (IsConst(all, 0)) continue;  // never all of it: this guard stays in the fast version too
      dropped.push_back(guard);
      if (IsConst(all, 1)) continue;
      if (std::none_of(whole.begin(), whole.end(), [&](const Expr& w) { return Equal(w, all); })) whole.push_back(all);
    }
    if (dropped.empty()) return s;
    Stmt fast = RewriteStmt(s, [&](const Stmt& x) {
      const If* branch = x.As<If>();
      if (!branch || branch->else_body) return x;
      std::vector<Expr> kept;
      for (const Expr& c : Conjuncts(branch->condition)) {
        if (std::none_of(dropped.begin(), dropped.end(), [&](const Expr& d) { return Equal(d, c); })) kept.push_back(c);
      }
      return kept.empty() ? branch->then_body : MakeStmt(If{Conjunction(kept), branch->then_body, Stmt()});
    });
    if (whole.empty()) return fast;
    return MakeStmt(If{Conjunction(whole), fast, Slow(s)});
  }

  // Vectors and unrolled bodies are not worth their code in a tail, except where registers are indexed.
  static Stmt Slow(const Stmt& s) {
    return RewriteStmt(s, [](const Stmt& x) {
      const For* loop = x.As<For>();
      if (!loop || !IsExpanded(*loop)) return x;
      bool indexes_registers = false;
      auto check = [&](const Buffer& b, const std::vector<Expr>& indices) {
        for (const Expr& i : indices) indexes_registers |= b->scope == Scope::kRegister && Uses(i, loop->var);
      };
      Walk(
          loop->body,
          [&](const Stmt& y) {
            if (const Store* store = y.As<Store>()) check(store->buffer, store->indices);
            return true;
          },
          [&](const Expr& y) {
            if (const Load* load = y.As<Load>()) check(load->buffer, load->indices);
            return true;
          });
      LoopKind kind = indexes_registers ? LoopKind::kUnrolled : LoopKind::kSerial;
      return kind == loop->kind ? x : MakeStmt(For{loop->var, loop->extent, kind, loop->annotations, loop->body});
    });
  }
};

}  // namespace

Result<PrimFunc> PartitionLoops(const PrimFunc& f, PassEnv&) {
  return WithBody(f, WithUniqueNames(Partitioner().Run(f.body, Analyzer())));
}

}  // namespace autotune
