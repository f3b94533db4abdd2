#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {

// Legal for perfectly nested loops, none of which feeds both spatial and reduction iterators of a block. The new order
// is then correct: instances that differ in a spatial iterator are independent, and among instances that differ only in
// reduction iterators, the one that initialises still comes first. A parallel loop must be legal at its new place.
Status ApplyStep(State& state, Reorder& step) {
  const std::vector<Name>& names = step.loops;
  if (names.size() < 2) return Err("reorder needs at least two loops");
  auto listed = [&](const Name& var) { return std::find(names.begin(), names.end(), var) != names.end(); };
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin() + i + 1, names.end(), names[i]) != names.end()) {
      return Err("loop '", names[i], "' is listed twice");
    }
  }
  // Cuts the path off at the outermost listed loop.
  Path path = TRY(FindLoop(state.func.body, names[0]));
  for (size_t i = 0; i < path.nodes.size(); ++i) {
    const For* loop = path.nodes[i].As<For>();
    if (loop && listed(loop->var)) {
      path.nodes.resize(i + 1);
      break;
    }
  }
  std::vector<const For*> chain;  // down to the innermost listed loop
  size_t found = 0;
  Stmt inside = path.target();
  while (const For* loop = inside.As<For>()) {
    if (found == names.size()) break;
    chain.push_back(loop);
    found += listed(loop->var);
    inside = loop->body;
  }
  if (found < names.size()) {
    for (const Name& name : names) {
      TRY(FindLoop(state.func.body, name));
      bool on_chain = std::any_of(chain.begin(), chain.end(), [&](const For* loop) { return loop->var == name; });
      if (!on_chain) return Err("loop '", name, "' is not perfectly nested with loop '", chain[0]->var, "'");
    }
  }
  Status mixed;
  ForEachBlock(inside, [&](const Block& block, const std::vector<const For*>&) {
    for (const For* loop : chain) {
      Feeds feeds = FeedsOf(block, loop->var);
      if (feeds.spatial && feeds.reduce) {
        mixed = Err("loop '", loop->var, "' feeds both spatial and reduction iterators of block '", block.name, "'");
      }
    }
  });
  TRY(std::move(mixed));

  std::vector<const For*> order;
  size_t next = 0;
  for (const For* loop : chain) {
    if (!listed(loop->var)) {
      order.push_back(loop);
    } else {
      order.push_back(*std::find_if(chain.begin(), chain.end(), [&](const For* l) { return l->var == names[next]; }));
      ++next;
    }
  }
  for (const For* loop : order) {
    if (loop->kind == LoopKind::kVectorized && loop != order.back()) {
      return Err("vectorized loop '", loop->var, "' must stay innermost");
    }
  }
  Stmt body = inside;
  for (size_t i = order.size(); i-- > 0;) body = WithBody(*order[i], std::move(body));
  bool parallel = false;
  for (const For* loop : order) {
    if (loop->kind == LoopKind::kParallel && parallel) return Err("a parallel loop would be inside another one");
    parallel |= loop->kind == LoopKind::kParallel;
  }
  state.func.body = ReplaceTarget(path, std::move(body));
  for (const For* loop : order) {
    if (loop->kind != LoopKind::kParallel) continue;
    TRY(CheckIndependent(state, TRY(FindLoop(state.func.body, loop->var)).loop(), loop->kind));
  }
  return {};
}

}  // namespace autotune::schedule
