#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

// acc[i] = acc[i] + a * b  ->  acc[i] = fma(a, b, acc[i])
Stmt ContractUpdate(const Stmt& s) {
  const Store* store = s.As<Store>();
  if (!store || !store->buffer->dtype.IsFloat()) return s;
  const Binary* add = store->value.As<Binary>();
  if (!add || add->op != BinaryOp::kAdd) return s;
  auto is_accumulator = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    return load && load->buffer->name == store->buffer->name && load->indices.size() == store->indices.size() &&
           std::equal(load->indices.begin(), load->indices.end(), store->indices.begin(),
                      [](const Expr& a, const Expr& b) { return Equal(a, b); });
  };
  for (auto [accumulator, other] : {std::pair{add->a, add->b}, std::pair{add->b, add->a}}) {
    const Binary* product = other.As<Binary>();
    if (is_accumulator(accumulator) && product && product->op == BinaryOp::kMul) {
      return MakeStmt(Store{store->buffer, store->indices, MakeCall(Op::kFma, {product->a, product->b, accumulator})});
    }
  }
  return s;
}

Stmt LowerBlock(const Block& block, PassEnv& env) {
  VarMap bindings;
  std::set<Name> reduction_vars;
  Expr is_first;
  bool reduces = false;
  for (const Iter& iter : block.iters) {
    bindings[iter.var] = iter.binding;
    if (iter.kind != IterKind::kReduce) continue;
    reduces = true;
    Walk(iter.binding, [&](const Expr& e) {
      if (const Var* var = e.As<Var>()) reduction_vars.insert(var->name);
      return true;
    });
    Expr is_zero = Eq(iter.binding, Expr(0));
    is_first = is_first ? And(is_first, is_zero) : is_zero;
  }
  Stmt body = block.body;
  if (reduces && env.target.has_fma) body = RewriteStmt(body, ContractUpdate);
  if (reduces) {
    Walk(body, [&](const Stmt& s) {
      if (const Store* store = s.As<Store>()) {
        env.carried[store->buffer->name].insert(reduction_vars.begin(), reduction_vars.end());
      }
      return true;
    });
  }
  // Loops inside a block (schedule/nested.h) may be reductions too, so all of them count as carrying its buffers.
  if (!body.As<Store>()) {
    std::set<Name> inner, stored;
    Walk(body, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) inner.insert(loop->var);
      if (const Store* store = s.As<Store>()) stored.insert(store->buffer->name);
      return true;
    });
    for (const Name& buffer : stored) env.carried[buffer].insert(inner.begin(), inner.end());
  }
  if (block.init) {
    Stmt init = is_first ? MakeStmt(If{is_first, block.init, Stmt()}) : block.init;
    body = MakeSeq({init, body});
  }
  if (block.predicate && !IsConst(block.predicate, 1)) body = MakeStmt(If{block.predicate, body, Stmt()});
  return Substitute(body, bindings);
}

}  // namespace

Result<PrimFunc> LowerBlocks(const PrimFunc& f, PassEnv& env) {
  return WithBody(f, RewriteStmt(f.body, [&](const Stmt& s) {
                    const Block* block = s.As<Block>();
                    return block ? LowerBlock(*block, env) : s;
                  }));
}

Result<PrimFunc> Simplify(const PrimFunc& f, PassEnv&) { return WithBody(f, SimplifyStmt(f.body)); }

}  // namespace autotune
