#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// If the conjunct bounds one iterator by constants, narrows its [low, high).
bool Narrow(const Expr& conjunct, const Block& block, std::vector<Bounds>& windows) {
  const Binary* b = conjunct.As<Binary>();
  if (!b || !IsComparison(b->op) || !b->a.dtype().IsIndex()) return false;
  LinearForm difference = Normalize(b->a, {});
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

// The block that pads, and the nest of loops around it that the step copies.
struct Padding {
  Block block;
  std::vector<int64_t> extents;
  Path outer;                     // to the outermost of `loops`
  std::vector<const For*> loops;  // the block is alone inside them

  const Store& store() const { return *SingleStore(block); }
  const Select& select() const { return *store().value.As<Select>(); }
};

Result<Padding> PaddingOf(const State& state, const DecomposePadding& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Padding padding{.block = path.block()};
  const Name& name = padding.block.name;
  padding.extents = TRY(ConstExtents(padding.block.iters, name));
  if (!IsPlainSpatial(padding.block)) return Err("block '", name, "' is not one store at its plain spatial iterators");
  const Select* select = padding.store().value.As<Select>();
  if (!select || !(AsInt(select->b) || select->b.As<FloatImm>())) {
    return Err("block '", name, "' does not store a condition's value or else a constant");
  }
  padding.outer = path.UpTo(step.loop);
  if (padding.outer.nodes.empty()) return Err("loop '", step.loop, "' is not around block '", name, "'");
  for (const Stmt* s = &padding.outer.target(); s->As<For>(); s = &s->As<For>()->body)
    padding.loops.push_back(s->As<For>());
  if (!padding.loops.back()->body.As<Block>())
    return Err("block '", name, "' is not alone inside loop '", step.loop, "'");
  return padding;
}

// `body` inside copies of the loops that have these variables and extents.
Stmt InLoops(const std::vector<const For*>& loops, const std::vector<Name>& vars, const std::vector<Expr>& extents,
             Stmt body) {
  for (size_t i = loops.size(); i-- > 0;) {
    body = MakeStmt(For{vars[i], extents[i], loops[i]->kind, loops[i]->annotations, std::move(body)});
  }
  return body;
}

std::vector<Expr> ExtentsOf(const std::vector<const For*>& loops) {
  std::vector<Expr> extents;
  for (const For* loop : loops) extents.push_back(loop->extent);
  return extents;
}

// The nest that fills the whole buffer with the constant. `names`: its block, then its loops.
Stmt FillNest(const State& state, const Padding& padding, const std::vector<Name>& names) {
  const std::vector<Name> vars{names.begin() + 1, names.end()};
  const Block& block = padding.block;
  VarMap loop_map, iter_map;
  for (size_t i = 0; i < padding.loops.size(); ++i) loop_map[padding.loops[i]->var] = IndexVar(vars[i]);
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
  for (const Expr& index : padding.store().indices) at.push_back(Substitute(index, iter_map));
  fill.body = MakeStmt(Store{padding.store().buffer, std::move(at), padding.select().b});
  return InLoops(padding.loops, vars, ExtentsOf(padding.loops), MakeStmt(std::move(fill)));
}

// Whether iterator `i` is just one of the loops, which nothing else in the block uses, so that the loop can shrink.
bool IsOwnLoop(const Padding& padding, size_t i) {
  const Block& block = padding.block;
  const Var* var = block.iters[i].binding.As<Var>();
  if (!var) return false;
  auto own = [&](const For* loop) { return loop->var == var->name; };
  if (std::none_of(padding.loops.begin(), padding.loops.end(), own)) return false;
  for (size_t j = 0; j < block.iters.size(); ++j) {
    if (j != i && UsesVar(block.iters[j].binding, var->name)) return false;
  }
  return !(block.predicate && UsesVar(block.predicate, var->name));
}

// Splits the condition under which the value is stored: returns the window that it leaves to each iterator, as far as
// loops can shrink to it, and moves the other conjuncts to `rest`.
std::vector<Bounds> WindowsOf(const Padding& padding, std::vector<Expr>& rest) {
  std::vector<Bounds> windows;
  for (int64_t extent : padding.extents) windows.push_back({0, extent - 1});
  for (const Expr& conjunct : Conjuncts(padding.select().condition)) {
    std::vector<Bounds> narrowed = windows;
    bool shrinks = Narrow(conjunct, padding.block, narrowed);
    for (size_t i = 0; shrinks && i < windows.size(); ++i) {
      if (narrowed[i].low == windows[i].low && narrowed[i].high == windows[i].high) continue;
      shrinks = narrowed[i].low <= narrowed[i].high && IsOwnLoop(padding, i);
    }
    if (shrinks) {
      windows = narrowed;
    } else {
      rest.push_back(conjunct);
    }
  }
  return windows;
}

// The nest that stores the values. Its loops shrink where the condition bounds an iterator that is just that loop; the
// rest stays a condition.
Stmt InsideNest(const Padding& padding) {
  std::vector<Expr> rest;
  const std::vector<Bounds> windows = WindowsOf(padding, rest);
  Block block = padding.block;
  std::vector<Expr> extents = ExtentsOf(padding.loops);
  std::vector<Name> vars;
  for (const For* loop : padding.loops) vars.push_back(loop->var);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i].low == 0 && windows[i].high == padding.extents[i] - 1) continue;
    Name var = block.iters[i].binding.As<Var>()->name;
    block.iters[i].binding = IndexVar(var) + Expr(windows[i].low);
    for (size_t l = 0; l < vars.size(); ++l) {
      if (vars[l] == var) extents[l] = Expr(windows[i].high - windows[i].low + 1);
    }
  }
  Stmt inside = MakeStmt(Store{padding.store().buffer, padding.store().indices, padding.select().a});
  block.body = rest.empty() ? inside : MakeStmt(If{AndAll(rest), inside, Stmt()});
  return InLoops(padding.loops, vars, extents, MakeStmt(std::move(block)));
}

}  // namespace

// Legal for a block that stores `condition ? value : constant` at its iterators and is alone inside the loop.
Status ApplyStep(State& state, DecomposePadding& step) {
  const Padding padding = TRY(PaddingOf(state, step));
  std::vector<Name> defaults{Suffixed(padding.block.name, "_fill")};
  for (const For* loop : padding.loops) defaults.push_back(Suffixed(loop->var, "_fill"));
  step.results = TRY(ResultNames(step.results.names, defaults));
  const std::vector<Name>& names = step.results.names;
  TRY(CheckNewBlock(state.func, names[0]));
  TRY(CheckNewVars(state.func, {names.begin() + 1, names.end()}));
  Stmt fill = FillNest(state, padding, names);
  state.func.body = ReplaceTarget(padding.outer, MakeSeq({std::move(fill), InsideNest(padding)}));
  return {};
}

}  // namespace autotune::schedule
