#include <algorithm>

#include "schedule/nested.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Returns the kind of the new block's iterator for `outer`, a loop around the new block: the kind of the iterators that
// `outer` feeds in the blocks inside `target`. `below` has the loops between `outer` and the blocks in `target`. An
// error if `outer` feeds iterators of both kinds, or if it is spatial and several iterations of it may compute the same
// elements.
Result<IterKind> KindOf(const For& outer, const Stmt& target, const Ranges& below) {
  std::optional<IterKind> kind;
  Status status;
  ForEachBlock(target, [&](const Block& block, const std::vector<const For*>& loops) {
    if (!status.ok()) return;
    Feeds feeds = FeedsOf(block, outer.var);
    IterKind own = feeds.reduce ? IterKind::kReduce : IterKind::kSpatial;
    if ((feeds.spatial && feeds.reduce) || (kind && *kind != own)) {
      status = Err("loop '", outer.var, "' feeds both spatial and reduction iterators");
    }
    kind = own;
    int64_t extent = *AsInt(outer.extent);
    if (own == IterKind::kReduce || extent <= 1) return;
    if (!SeparatesInstances(block, {outer.var, extent}, Concat(below, RangesOf(loops)))) {
      status = Err("several iterations of loop '", outer.var, "' may compute the same elements");
    }
  });
  TRY(std::move(status));
  return *kind;
}

Status CheckInside(const Stmt& target) {
  std::vector<const For*> loops;
  Walk(target, [&](const Stmt& s) {
    if (const For* loop = s.As<For>()) loops.push_back(loop);
    return true;
  });
  for (const For* loop : loops) {
    TRY(ConstExtent(*loop));
    if (loop->kind == LoopKind::kSerial || loop->kind == LoopKind::kVectorized) continue;
    if (loop->kind != LoopKind::kUnrolled)
      return Err("loop '", loop->var, "' is ", ToText(loop->kind),
                 "; a block contains only serial, vectorized and unrolled loops");
  }
  return {};
}

}  // namespace

// Legal if `step.loop` and the loops inside it have constant extents, and none of them is parallel or bound to threads.
// The loops around step.loop that the inner blocks depend on become iterators of the new block. In every inner block,
// such a loop must feed reduction iterators only, or it must compute different elements in different iterations. All
// elements of every written buffer must be written, since later steps do not see how the new block writes them.
Status ApplyStep(State& state, Blockize& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  const For& loop = path.loop();
  TRY(CheckInside(path.target()));
  step.results = TRY(ResultNames(step.results.names, {Suffixed(loop.var, "_block")}));
  TRY(CheckNewBlock(state.func, step.results.names[0]));
  Block result;
  result.name = step.results.names[0];
  std::vector<Name> written;
  ForEachBlock(path.target(), [&](const Block& block, const auto&) {
    ForEachStore(block, [&](const Store& store) { written.push_back(store.buffer->name); });
  });
  for (const Name& buffer : written) TRY(CheckWrittenWhole(state.func, *FindBuffer(state.func, buffer)));

  FreshVars fresh(state.func);
  Stmt body = WithoutBlocks(path.target());
  std::vector<const For*> around = path.Loops();
  VarMap map;
  for (size_t i = 0; i < around.size(); ++i) {
    const For& outer = *around[i];
    bool used = false;
    Walk(body, nullptr, [&](const Expr& e) {
      used |= e.As<Var>() && e.As<Var>()->name == outer.var;
      return !used;
    });
    if (!used) continue;
    TRY(ConstExtent(outer));
    Ranges below = RangesOf({around.begin() + i + 1, around.end()});
    below.push_back({loop.var, *AsInt(loop.extent)});
    IterKind kind = TRY(KindOf(outer, path.target(), below));
    Name var = fresh.Make(Name("v_" + outer.var.str()));
    map[outer.var] = IndexVar(var);
    result.iters.push_back({var, kind, outer.extent, IndexVar(outer.var)});
  }
  result.body = Substitute(body, map);
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(result)));
  return {};
}

}  // namespace autotune::schedule
