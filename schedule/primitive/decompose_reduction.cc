#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {

// Moves the initialisation of a reduction into a block of its own, in a nest before step.loop. Legal if all reduction
// loops of the block are step.loop or inside it, and the spatial loops from step.loop inward visit every element once.
// The initialisation then runs once for each element, before all updates of the element. (If outer iterations compute
// the same element again, as after compute_at, each of them initialises it.) The language guarantees that all reduction
// iterators are 0 only in the first iteration of their loops (ir/reduction.h).
Status ApplyStep(State& state, DecomposeReduction& step) {
  Path block_path = TRY(FindBlock(state.func.body, step.block));
  const Block& block = block_path.block();
  if (!block.init) return Err("block '", block.name, "' has no initialisation to split off");
  Path path = block_path.UpTo(step.loop);
  if (path.nodes.empty()) return Err("loop '", step.loop, "' is not around block '", step.block, "'");
  for (const For* outer : path.Loops()) {
    if (FeedsOf(block, outer->var).reduce) {
      return Err("loop '", outer->var, "' outside loop '", step.loop, "' feeds a reduction iterator");
    }
  }
  std::vector<const For*> all = block_path.Loops(), copied;
  bool inside = false;
  std::vector<Name> defaults{Suffixed(block.name, "_init")};
  for (size_t i = 0; i < all.size(); ++i) {
    const For* loop = all[i];
    inside |= loop->var == step.loop;
    if (!inside) continue;
    Feeds feeds = FeedsOf(block, loop->var);
    if (feeds.spatial && feeds.reduce) {
      return Err("loop '", loop->var, "' feeds both spatial and reduction iterators");
    }
    if (feeds.reduce) continue;
    const int64_t* extent = AsInt(loop->extent);
    Ranges inner = RangesOf({all.begin() + i + 1, all.end()});
    if (!extent || (*extent > 1 && !SeparatesInstances(block, {loop->var, *extent}, inner))) {
      return Err("several iterations of loop '", loop->var, "' may compute the same elements");
    }
    copied.push_back(loop);
    defaults.push_back(Suffixed(loop->var, "_init"));
  }
  step.results = TRY(ResultNames(step.results.names, defaults));
  const std::vector<Name>& names = step.results.names;
  TRY(CheckNewBlock(state.func, names[0]));
  TRY(CheckNewVars(state.func, {names.begin() + 1, names.end()}));

  VarMap loops, vars;
  for (size_t i = 0; i < copied.size(); ++i) loops[copied[i]->var] = IndexVar(names[i + 1]);
  Block init;
  init.name = names[0];
  FreshVars fresh(state.func);
  for (const Iter& iter : block.iters) {
    if (iter.kind == IterKind::kReduce) continue;
    Name var = fresh.Make(Suffixed(iter.var, "_init"));
    vars[iter.var] = IndexVar(var);
    init.iters.push_back({var, iter.kind, iter.extent, Substitute(iter.binding, loops)});
  }
  std::vector<Expr> guards;
  for (const Expr& conjunct : Conjuncts(block.predicate)) {
    bool reduces = std::any_of(all.begin(), all.end(), [&](const For* loop) {
      return UsesVar(conjunct, loop->var) && FeedsOf(block, loop->var).reduce;
    });
    if (!reduces) guards.push_back(Substitute(conjunct, loops));
  }
  init.predicate = AndAll(guards);
  init.body = Substitute(block.init, vars);
  Stmt nest = MakeStmt(std::move(init));
  for (size_t i = copied.size(); i-- > 0;) {
    nest = MakeStmt(For{names[i + 1], copied[i]->extent, copied[i]->kind, copied[i]->annotations, std::move(nest)});
  }
  Block update = block;
  update.init = Stmt();
  // Replaces the block on the path from `loop` to it. The new nest comes before this path.
  Path inner{{block_path.nodes.begin() + (path.nodes.size() - 1), block_path.nodes.end()}};
  Stmt updated = ReplaceTarget(inner, MakeStmt(std::move(update)));
  state.func.body = ReplaceTarget(path, MakeSeq({std::move(nest), std::move(updated)}));
  return {};
}

}  // namespace autotune::schedule
