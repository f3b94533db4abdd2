#include "ir/visit.h"
#include "schedule/state.h"

namespace autotune::schedule {
namespace {

// Returns the condition of the first select in `e` that is always evaluated and whose condition reads memory. Selects
// inside a branch of another select are evaluated only where that branch is chosen.
Expr FindCondition(const Expr& e) {
  Expr found;
  Walk(e, [&](const Expr& x) {
    const Select* select = x.As<Select>();
    if (!select || found) return !found;
    if (HasNode<Load>(select->condition)) found = select->condition;
    return false;
  });
  return found;
}

Expr Choose(const Expr& e, const Expr& condition, bool holds) {
  return RewriteExpr(e, [&](const Expr& x) {
    const Select* select = x.As<Select>();
    if (!select || !Equal(select->condition, condition)) return x;
    return holds ? select->a : select->b;
  });
}

}  // namespace

// Legal if the block stores one value, which contains a select whose condition reads memory, but not what the block
// stores.
Status ApplyStep(State& state, BranchOnSelect& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  const Store* store = SingleStore(block);
  if (!store) return Err("block '", block.name, "' does not consist of a single store");
  const Expr condition = FindCondition(store->value);
  if (!condition) return Err("block '", block.name, "' has no select whose condition reads memory");
  if (Reads(MakeStmt(Evaluate{condition}), store->buffer->name)) {
    return Err("the condition of the select in block '", block.name, "' reads what the block stores");
  }
  auto branch = [&](bool holds) {
    return MakeStmt(Store{store->buffer, store->indices, Choose(store->value, condition, holds)});
  };
  block.body = MakeStmt(If{condition, branch(true), branch(false)});
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(block)));
  return {};
}

}  // namespace autotune::schedule
