#include <algorithm>

#include "lower/passes.h"
#include "support/check.h"

namespace autotune {

bool TouchesBuffer(const Stmt& s, const std::function<bool(const Buffer&)>& is_it) {
  bool found = false;
  Walk(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.As<Store>()) found |= is_it(store->buffer);
        return !found;
      },
      [&](const Expr& x) {
        if (const Load* load = x.As<Load>()) found |= is_it(load->buffer);
        return !found;
      });
  return found;
}

bool StoresTo(const Stmt& s, const Name& buffer) {
  bool stores = false;
  Walk(s, [&](const Stmt& x) {
    const Store* store = x.As<Store>();
    stores |= store && store->buffer->name == buffer;
    return !stores;
  });
  return stores;
}

bool Contains(const std::vector<Expr>& list, const Expr& e) {
  return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return Equal(x, e); });
}

namespace {

class Renamer {
 public:
  // The first binding of a name keeps it.
  Stmt Run(const Stmt& s) {
    if (const For* loop = s.As<For>()) {
      Name var = Bind(vars_, loop->var);
      Stmt body = var == loop->var ? loop->body : Substitute(loop->body, {{loop->var, IndexVar(var)}});
      Stmt renamed = Run(body);
      if (var == loop->var && renamed.Same(loop->body)) return s;
      return MakeStmt(For{var, loop->extent, loop->kind, loop->annotations, std::move(renamed)});
    }
    if (const Let* let = s.As<Let>()) {
      Name var = Bind(vars_, let->var);
      Stmt body = let->body;
      if (!(var == let->var)) body = Substitute(body, {{let->var, VarOf(var, let->value.dtype())}});
      return MakeStmt(Let{var, let->value, Run(body)});
    }
    if (const Alloc* alloc = s.As<Alloc>()) {
      Name name = Bind(buffers_, alloc->buffer->name);
      if (name == alloc->buffer->name) {
        Stmt body = Run(alloc->body);
        return body.Same(alloc->body) ? s : MakeStmt(Alloc{alloc->buffer, std::move(body)});
      }
      Buffer buffer = WithName(alloc->buffer, name);
      return MakeStmt(Alloc{buffer, Run(ReplaceBuffers(alloc->body, {{alloc->buffer->name, buffer}}))});
    }
    return MapChildren(
        s, [&](const Stmt& child) { return Run(child); }, nullptr);
  }

  explicit Renamer(const Stmt& root) {
    Walk(root, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) taken_.insert(loop->var);
      if (const Let* let = s.As<Let>()) taken_.insert(let->var);
      if (const Alloc* alloc = s.As<Alloc>()) taken_.insert(alloc->buffer->name);
      return true;
    });
  }

 private:
  Name Bind(std::set<Name>& bound, const Name& name) {
    if (bound.insert(name).second) return name;
    int& n = next_[name];
    Name fresh;
    do {
      fresh = name.str() + "_" + std::to_string(++n);
    } while (taken_.contains(fresh));
    taken_.insert(fresh);
    bound.insert(fresh);
    return fresh;
  }

  std::set<Name> vars_, buffers_, taken_;
  std::map<Name, int> next_;
};

}  // namespace

Stmt WithUniqueNames(const Stmt& s) { return Renamer(s).Run(s); }

PrimFunc WithBody(const PrimFunc& f, Stmt body) {
  PrimFunc g = f;
  g.body = std::move(body);
  return g;
}

// Walks first, and rewrites only if something changes. For most kernels nothing does, and a walk costs a third of a
// rewrite.
PrimFunc WithExprs(const PrimFunc& f, const std::function<Expr(const Expr&)>& fn) {
  bool any = false;
  Walk(f.body, nullptr, [&](const Expr& e) {
    any = any || !fn(e).Same(e);
    return !any;
  });
  return any ? WithBody(f, RewriteStmt(f.body, nullptr, fn)) : f;
}

int64_t BytesOf(const Buffer& buffer) { return ElementsOf(buffer) * buffer->dtype.Bytes(); }

}  // namespace autotune
