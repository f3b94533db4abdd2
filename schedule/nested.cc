#include "schedule/nested.h"

namespace autotune::schedule {
namespace {

Stmt BodyOf(const Block& block) {
  VarMap map;
  Expr first;
  for (const Iter& iter : block.iters) {
    map[iter.var] = iter.binding;
    if (iter.kind == IterKind::kSpatial || IsConst(iter.binding, 0)) continue;
    Expr zero = Eq(iter.binding, Expr(0));
    first = first ? And(first, zero) : zero;
  }
  Stmt body = Substitute(block.body, map);
  if (block.init) {
    Stmt init = Substitute(block.init, map);
    body = MakeSeq({first ? MakeStmt(If{first, init, Stmt()}) : init, body});
  }
  return block.predicate ? MakeStmt(If{block.predicate, body, Stmt()}) : body;
}

}  // namespace

Stmt WithoutBlocks(const Stmt& s) {
  return RewriteStmt(s, [](const Stmt& x) { return x.As<Block>() ? BodyOf(*x.As<Block>()) : x; });
}

Ranges LoopsWithin(const Stmt& s) {
  Ranges ranges;
  if (s.As<Store>()) return ranges;
  Walk(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    if (loop && AsInt(loop->extent)) ranges.push_back({loop->var, *AsInt(loop->extent)});
    return true;
  });
  return ranges;
}

Stmt RenameLoops(const Stmt& s, FreshVars& fresh) {
  return RewriteStmt(s, [&](const Stmt& x) {
    const For* loop = x.As<For>();
    if (!loop) return x;
    Name var = fresh.Make(loop->var);
    return MakeStmt(For{var, loop->extent, loop->kind, loop->annotations,
                        Substitute(loop->body, VarMap{{loop->var, IndexVar(var)}})});
  });
}

}  // namespace autotune::schedule
