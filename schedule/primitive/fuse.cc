#include "schedule/state.h"

namespace autotune::schedule {
// Legal if each loop is the whole body of the previous one. A spatial loop and a reduction loop of one block cannot be
// fused, since a later reorder could not keep the first reduction iterations first.
Status ApplyStep(State& state, Fuse& step) {
  if (step.loops.size() < 2) return Err("fuse needs at least two loops");
  Path path = TRY(FindLoop(state.func.body, step.loops[0]));
  Ranges loops;
  std::string name;
  Stmt inside = path.target();
  Annotations annotations = path.loop().annotations;
  for (const Name& var : step.loops) {
    const For* loop = inside.As<For>();
    if (!loop || loop->var != var) {
      return Err("loop '", var, "' is not the whole body of loop '", loops.back().var,
                 "'; reorder or name them outermost first");
    }
    if (loop->kind != LoopKind::kSerial)
      return Err("loop '", var, "' is ", ToText(loop->kind), "; fuse it before changing its kind");
    int64_t extent = TRY(ConstExtent(*loop));
    loops.push_back({var, extent});
    annotations.insert(loop->annotations.begin(), loop->annotations.end());
    name += var.str() + "_";
    inside = loop->body;
  }
  int64_t total = 1;
  for (const LoopRange& loop : loops) {
    if (loop.extent > 0 && total > kMaxExtent / loop.extent) return Err("the fused loop's extent is out of range");
    total *= loop.extent;
  }
  Status kinds;
  ForEachBlock(inside, [&](const Block& block, const std::vector<const For*>&) {
    Feeds all;
    for (const LoopRange& loop : loops) {
      Feeds feeds = FeedsOf(block, loop.var);
      all.spatial |= feeds.spatial, all.reduce |= feeds.reduce;
    }
    if (all.spatial && all.reduce) {
      kinds = Err("the loops feed both spatial and reduction iterators of block '", block.name, "'");
    }
  });
  TRY(std::move(kinds));
  step.results = TRY(ResultNames(step.results.names, {Name(name + "f")}));
  TRY(CheckNewVars(state.func, step.results.names));

  Expr fused = IndexVar(step.results.names[0]);
  int64_t product = 1;
  VarMap map;
  for (size_t i = loops.size(); i-- > 0;) {
    Expr digit = FloorDiv(fused, Expr(product));
    if (i > 0) digit = FloorMod(digit, Expr(loops[i].extent));
    map[loops[i].var] = digit;
    product *= loops[i].extent;
  }
  Ranges outer = Concat(path.LoopRanges(), {{step.results.names[0], product}});
  Stmt body = RewriteBlocks(
      inside, [&](const Block& block, const Ranges& inner) { return WithBindings(block, map, Concat(outer, inner)); });
  state.func.body =
      ReplaceTarget(path, MakeStmt(For{step.results.names[0], Expr(product), LoopKind::kSerial, annotations, body}));
  return {};
}

}  // namespace autotune::schedule
