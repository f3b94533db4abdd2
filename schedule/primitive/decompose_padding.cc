#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// If the conjunct bounds one iterator by constants, narrows its [low, high).
bool Narrow(const Expr& conjunct, const Block& block, std::vector<Bounds>& windows) {
  const Binary* b = conjunct.As<Binary>();
  if (!b || !IsComparison(b->op) || !b->a.dtype().IsIndex()) return false;
  Sum difference = Normalize(b->a, {});
  difference.Add(Normalize(b->b, {}), -1);  // compared with 0
  if (difference.terms.size() != 1 || std::abs(difference.terms[0].coefficient) != 1) return false;
  std::optional<std::vector<size_t>> iter = AsIterators({difference.terms[0].atom}, block);
  if (!iter) return false;
  Bounds& window = windows[(*iter)[0]];
  int64_t c = difference.constant;
  bool positive = difference.terms[0].coefficient == 1;
  switch (b->op) {  // +-v + c  op  0
    case BinaryOp::kLt:
      positive ? window.high = std::min(window.high, -c - 1) : window.low = std::max(window.low, c + 1);
      return true;
    case BinaryOp::kLe:
      positive ? window.high = std::min(window.high, -c) : window.low = std::max(window.low, c);
      return true;
    case BinaryOp::kGt:
      positive ? window.low = std::max(window.low, -c + 1) : window.high = std::min(window.high, c - 1);
      return true;
    case BinaryOp::kGe:
      positive ? window.low = std::max(window.low, -c) : window.high = std::min(window.high, c);
      return true;
    default:
      return false;
  }
}

}  // namespace

// Legal for a block that stores `condition ? value : constant` at its iterators and is alone inside the loop.
Status ApplyStep(State& state, DecomposePadding& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  if (!IsPlainSpatial(block)) return Err("block '", block.name, "' is not one store at its plain spatial iterators");
  const Store& store = *SingleStore(block);
  const Select* select = store.value.As<Select>();
  if (!select || !(AsInt(select->b) || select->b.As<FloatImm>())) {
    return Err("block '", block.name, "' does not store a condition's value or else a constant");
  }
  Path outer = path.UpTo(step.loop);
  if (outer.nodes.empty()) return Err("loop '", step.loop, "' is not around block '", step.block, "'");
  std::vector<const For*> loops;
  for (const Stmt* s = &outer.target(); s->As<For>(); s = &s->As<For>()->body) loops.push_back(s->As<For>());
  if (!loops.back()->body.As<Block>())
    return Err("block '", block.name, "' is not alone inside loop '", step.loop, "'");

  std::vector<Name> defaults{Suffixed(block.name, "_fill")};
  for (const For* loop : loops) defaults.push_back(Suffixed(loop->var, "_fill"));
  step.results = TRY(ResultNames(step.results.names, defaults));
  const std::vector<Name>& names = step.results.names;
  TRY(CheckNewBlock(state.func, names[0]));
  TRY(CheckNewVars(state.func, {names.begin() + 1, names.end()}));

  VarMap loop_map, iter_map;
  for (size_t i = 0; i < loops.size(); ++i) loop_map[loops[i]->var] = IndexVar(names[i + 1]);
  Block fill;
  fill.name = names[0];
  FreshVars fresh(state.func);
  for (const Iter& iter : block.iters) {
    Name var = fresh.Make(Suffixed(iter.var, "_fill"));
    iter_map[iter.var] = IndexVar(var);
    fill.iters.push_back({var, iter.kind, iter.extent, Substitute(iter.binding, loop_map)});
  }
  if (block.predicate) fill.predicate = Substitute(block.predicate, loop_map);
  std::vector<Expr> at;
  for (const Expr& index : store.indices) at.push_back(Substitute(index, iter_map));
  fill.body = MakeStmt(Store{store.buffer, std::move(at), select->b});
  Stmt fill_nest = MakeStmt(std::move(fill));
  for (size_t i = loops.size(); i-- > 0;) {
    fill_nest =
        MakeStmt(For{names[i + 1], loops[i]->extent, loops[i]->kind, loops[i]->annotations, std::move(fill_nest)});
  }

  // The inside: loops shrink where the condition bounds an iterator that is just that loop; the rest stays a condition.
  std::vector<Bounds> windows;
  for (int64_t extent : extents) windows.push_back({0, extent - 1});
  std::vector<Expr> rest;
  for (const Expr& conjunct : Conjuncts(select->condition)) {
    std::vector<Bounds> narrowed = windows;
    bool shrinks = Narrow(conjunct, block, narrowed);
    for (size_t i = 0; shrinks && i < windows.size(); ++i) {
      if (narrowed[i].low == windows[i].low && narrowed[i].high == windows[i].high) continue;
      const Var* var = block.iters[i].binding.As<Var>();
      auto own = [&](const For* loop) { return var && loop->var == var->name; };
      shrinks = std::any_of(loops.begin(), loops.end(), own) && narrowed[i].low <= narrowed[i].high;
      for (size_t j = 0; shrinks && j < block.iters.size(); ++j) {
        shrinks = j == i || !Uses(block.iters[j].binding, var->name);
      }
      shrinks = shrinks && !(block.predicate && Uses(block.predicate, var->name));
    }
    if (shrinks) {
      windows = narrowed;
    } else {
      rest.push_back(conjunct);
    }
  }
  std::vector<Expr> loop_extents;
  for (const For* loop : loops) loop_extents.push_back(loop->extent);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].low == 0 && windows[i].high == extents[i] - 1) continue;
    Name var = block.iters[i].binding.As<Var>()->name;
    block.iters[i].binding = IndexVar(var) + Expr(windows[i].low);
    for (size_t l = 0; l < loops.size(); ++l) {
      if (loops[l]->var == var) loop_extents[l] = Expr(windows[i].high - windows[i].low + 1);
    }
  }
  Stmt inside = MakeStmt(Store{store.buffer, store.indices, select->a});
  block.body = rest.empty() ? inside : MakeStmt(If{AndAll(rest), inside, Stmt()});
  Stmt nest = MakeStmt(std::move(block));
  for (size_t i = loops.size(); i-- > 0;) {
    nest = MakeStmt(For{loops[i]->var, loop_extents[i], loops[i]->kind, loops[i]->annotations, std::move(nest)});
  }
  state.func.body = ReplaceTarget(outer, MakeSeq({std::move(fill_nest), std::move(nest)}));
  return {};
}

}  // namespace autotune::schedule
