#include "ir/visit.h"

#include "support/check.h"

namespace autotune {
namespace {

template <class F>
void EachChild(const Expr& e, F&& f) {
  e.Visit(Overloaded{
      [](const IntImm&) {},
      [](const FloatImm&) {},
      [](const Var&) {},
      [&](const Unary& n) { f(n.a); },
      [&](const Binary& n) { f(n.a), f(n.b); },
      [&](const Cast& n) { f(n.a); },
      [&](const Select& n) { f(n.condition), f(n.a), f(n.b); },
      [&](const Load& n) {
        for (const Expr& i : n.indices) f(i);
      },
      [&](const Call& n) {
        for (const Expr& a : n.args) f(a);
      },
      [&](const Ramp& n) { f(n.base), f(n.stride); },
      [&](const Broadcast& n) { f(n.a); },
  });
}

// Maps a list. Sets `changed` to true if the handle of an element changes.
std::vector<Expr> MapList(const std::vector<Expr>& list, const ExprFn& f, bool& changed) {
  std::vector<Expr> mapped;
  mapped.reserve(list.size());
  for (const Expr& e : list) {
    mapped.push_back(f(e));
    changed |= !mapped.back().Same(e);
  }
  return mapped;
}

}  // namespace

void Walk(const Expr& e, const std::function<bool(const Expr&)>& on_expr) {
  if (on_expr(e)) EachChild(e, [&](const Expr& child) { Walk(child, on_expr); });
}

void Walk(const Stmt& s, const std::function<bool(const Stmt&)>& on_stmt,
          const std::function<bool(const Expr&)>& on_expr) {
  if (on_stmt && !on_stmt(s)) return;
  auto expr = [&](const Expr& e) {
    if (on_expr && e) Walk(e, on_expr);
  };
  auto stmt = [&](const Stmt& child) {
    if (child) Walk(child, on_stmt, on_expr);
  };
  s.Visit(Overloaded{
      [&](const Store& n) {
        for (const Expr& i : n.indices) expr(i);
        expr(n.value);
      },
      [&](const Evaluate& n) { expr(n.value); },
      [&](const Seq& n) {
        for (const Stmt& child : n.stmts) stmt(child);
      },
      [&](const If& n) { expr(n.condition), stmt(n.then_body), stmt(n.else_body); },
      [&](const For& n) { expr(n.extent), stmt(n.body); },
      [&](const Block& n) {
        for (const Iter& iter : n.iters) expr(iter.extent), expr(iter.binding);
        expr(n.predicate), stmt(n.init), stmt(n.body);
      },
      [&](const Alloc& n) { stmt(n.body); },
      [&](const Let& n) { expr(n.value), stmt(n.body); },
  });
}

Expr MapChildren(const Expr& e, const ExprFn& f) {
  DType dtype = e.dtype();
  return e.Visit(Overloaded{
      [&](const IntImm&) { return e; },
      [&](const FloatImm&) { return e; },
      [&](const Var&) { return e; },
      [&](const Unary& n) {
        Expr a = f(n.a);
        return a.Same(n.a) ? e : MakeUnary(n.op, std::move(a));
      },
      [&](const Binary& n) {
        Expr a = f(n.a), b = f(n.b);
        return a.Same(n.a) && b.Same(n.b) ? e : MakeBinary(n.op, std::move(a), std::move(b));
      },
      [&](const Cast& n) {
        Expr a = f(n.a);
        DType to = dtype.WithLanes(a.dtype().lanes);
        return a.Same(n.a) ? e : MakeCast(to, std::move(a));
      },
      [&](const Select& n) {
        Expr c = f(n.condition), a = f(n.a), b = f(n.b);
        return c.Same(n.condition) && a.Same(n.a) && b.Same(n.b) ? e
                                                                 : MakeSelect(std::move(c), std::move(a), std::move(b));
      },
      [&](const Load& n) {
        bool changed = false;
        std::vector<Expr> indices = MapList(n.indices, f, changed);
        return changed ? MakeLoad(n.buffer, std::move(indices)) : e;
      },
      [&](const Call& n) {
        bool changed = false;
        std::vector<Expr> args = MapList(n.args, f, changed);
        if (!changed) return e;
        if (Row(n.op).type == OpType::kGiven) {
          DType given = dtype.WithLanes(args[0].dtype().lanes);
          return MakeExpr(given, Call{n.op, std::move(args)});
        }
        return MakeCall(n.op, std::move(args));
      },
      [&](const Ramp& n) {
        Expr base = f(n.base), stride = f(n.stride);
        return base.Same(n.base) && stride.Same(n.stride) ? e
                                                          : MakeRamp(std::move(base), std::move(stride), dtype.lanes);
      },
      [&](const Broadcast& n) {
        Expr a = f(n.a);
        return a.Same(n.a) ? e : MakeBroadcast(std::move(a), dtype.lanes);
      },
  });
}

Stmt MapChildren(const Stmt& s, const StmtFn& on_stmt, const ExprFn& on_expr) {
  auto expr = [&](const Expr& e) { return e && on_expr ? on_expr(e) : e; };
  auto stmt = [&](const Stmt& child) { return child && on_stmt ? on_stmt(child) : child; };
  return s.Visit(Overloaded{
      [&](const Store& n) {
        bool changed = false;
        std::vector<Expr> indices = MapList(n.indices, expr, changed);
        Expr value = expr(n.value);
        return changed || !value.Same(n.value) ? MakeStmt(Store{n.buffer, std::move(indices), std::move(value)}) : s;
      },
      [&](const Evaluate& n) {
        Expr value = expr(n.value);
        return value.Same(n.value) ? s : MakeStmt(Evaluate{std::move(value)});
      },
      [&](const Seq& n) {
        std::vector<Stmt> stmts;
        bool changed = false;
        for (const Stmt& child : n.stmts) {
          Stmt mapped = stmt(child);
          changed |= !mapped.Same(child);
          if (!IsEmpty(mapped)) stmts.push_back(std::move(mapped));
        }
        return changed ? MakeSeq(std::move(stmts)) : s;
      },
      [&](const If& n) {
        Expr c = expr(n.condition);
        Stmt a = stmt(n.then_body), b = stmt(n.else_body);
        return c.Same(n.condition) && a.Same(n.then_body) && b.Same(n.else_body)
                   ? s
                   : MakeStmt(If{std::move(c), std::move(a), std::move(b)});
      },
      [&](const For& n) {
        Expr extent = expr(n.extent);
        Stmt body = stmt(n.body);
        if (extent.Same(n.extent) && body.Same(n.body)) return s;
        return MakeStmt(For{n.var, std::move(extent), n.kind, n.annotations, std::move(body)});
      },
      [&](const Block& n) {
        bool changed = false;
        std::vector<Iter> iters;
        for (const Iter& iter : n.iters) {
          Iter mapped{iter.var, iter.kind, expr(iter.extent), expr(iter.binding)};
          changed |= !mapped.extent.Same(iter.extent) || !mapped.binding.Same(iter.binding);
          iters.push_back(std::move(mapped));
        }
        Expr predicate = expr(n.predicate);
        Stmt init = stmt(n.init), body = stmt(n.body);
        changed |= !predicate.Same(n.predicate) || !init.Same(n.init) || !body.Same(n.body);
        return changed ? MakeStmt(Block{n.name, std::move(iters), std::move(predicate), n.annotations, std::move(init),
                                        std::move(body)})
                       : s;
      },
      [&](const Alloc& n) {
        Stmt body = stmt(n.body);
        return body.Same(n.body) ? s : MakeStmt(Alloc{n.buffer, std::move(body)});
      },
      [&](const Let& n) {
        Expr value = expr(n.value);
        Stmt body = stmt(n.body);
        return value.Same(n.value) && body.Same(n.body) ? s : MakeStmt(Let{n.var, std::move(value), std::move(body)});
      },
  });
}

Expr RewriteExpr(const Expr& e, const ExprFn& on_expr) {
  return on_expr(MapChildren(e, [&](const Expr& child) { return RewriteExpr(child, on_expr); }));
}

Stmt RewriteStmt(const Stmt& s, const StmtFn& on_stmt, const ExprFn& on_expr) {
  StmtFn stmt = [&](const Stmt& child) { return RewriteStmt(child, on_stmt, on_expr); };
  ExprFn expr;
  if (on_expr) expr = [&](const Expr& e) { return RewriteExpr(e, on_expr); };
  Stmt mapped = MapChildren(s, stmt, expr);
  return on_stmt ? on_stmt(mapped) : mapped;
}

namespace {

Expr SubstituteNode(const Expr& e, const VarMap& map) {
  if (const Var* var = e.As<Var>()) {
    auto it = map.find(var->name);
    return it == map.end() ? e : it->second;
  }
  return e;
}

}  // namespace

Expr Substitute(const Expr& e, const VarMap& map) {
  if (map.empty()) return e;
  return RewriteExpr(e, [&](const Expr& x) { return SubstituteNode(x, map); });
}

Stmt Substitute(const Stmt& s, const VarMap& map) {
  if (map.empty()) return s;
  return RewriteStmt(s, nullptr, [&](const Expr& x) { return SubstituteNode(x, map); });
}

Expr ReplaceBuffers(const Expr& e, const BufferMap& map) {
  return RewriteExpr(e, [&](const Expr& x) {
    const Load* load = x.As<Load>();
    auto it = load ? map.find(load->buffer->name) : map.end();
    return it == map.end() ? x : MakeLoad(it->second, load->indices);
  });
}

Stmt ReplaceBuffers(const Stmt& s, const BufferMap& map) {
  return RewriteStmt(
      s,
      [&](const Stmt& x) {
        const Store* store = x.As<Store>();
        auto it = store ? map.find(store->buffer->name) : map.end();
        return it == map.end() ? x : MakeStmt(Store{it->second, store->indices, store->value});
      },
      [&](const Expr& x) {
        const Load* load = x.As<Load>();
        auto it = load ? map.find(load->buffer->name) : map.end();
        return it == map.end() ? x : MakeLoad(it->second, load->indices);
      });
}

bool UsesVar(const Expr& e, const std::function<bool(const Name&)>& is_var) {
  bool found = false;
  Walk(e, [&](const Expr& x) {
    if (const Var* var = x.As<Var>()) found |= is_var(var->name);
    return !found;
  });
  return found;
}

bool UsesVar(const Expr& e, const Name& var) {
  if (!e) return false;
  if (const Var* v = e.As<Var>()) return v->name == var;
  if (const Binary* b = e.As<Binary>()) return UsesVar(b->a, var) || UsesVar(b->b, var);
  if (AsInt(e)) return false;
  return UsesVar(e, [&](const Name& name) { return name == var; });
}

void ForEachLoad(const Stmt& s, const std::function<void(const Load&)>& f) {
  auto on_expr = [&](const Expr& e) {
    if (const Load* load = e.As<Load>()) f(*load);
    return true;
  };
  Walk(s, nullptr, on_expr);
}

void ForEachStore(const Stmt& s, const std::function<void(const Store&)>& f) {
  Walk(s, [&](const Stmt& x) {
    if (const Store* store = x.As<Store>()) f(*store);
    return true;
  });
}

void ForEachAccess(const Stmt& s, const std::function<void(const Buffer&, const std::vector<Expr>&)>& f) {
  auto on_stmt = [&](const Stmt& x) {
    if (const Store* store = x.As<Store>()) f(store->buffer, store->indices);
    return true;
  };
  auto on_expr = [&](const Expr& e) {
    if (const Load* load = e.As<Load>()) f(load->buffer, load->indices);
    return true;
  };
  Walk(s, on_stmt, on_expr);
}

bool Reads(const Stmt& s, const Name& buffer) {
  bool found = false;
  ForEachLoad(s, [&](const Load& load) { found |= load.buffer->name == buffer; });
  return found;
}

}  // namespace autotune
