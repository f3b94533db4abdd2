#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// The iterators that the indices use, in the block's order.
std::vector<size_t> ItersUsed(const Block& block, const std::vector<Expr>& indices) {
  std::vector<size_t> used;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    bool in = std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return Uses(e, block.iters[i].var); });
    if (in) used.push_back(i);
  }
  return used;
}

Status CheckInBounds(const std::vector<Expr>& indices, const Buffer& buffer, const Block& block) {
  Ranges ranges;
  for (const Iter& iter : block.iters) ranges.push_back({iter.var, *AsInt(iter.extent)});
  for (size_t d = 0; d < indices.size(); ++d) {
    if (UsesLoopInside(block, indices[d])) {
      return Err("block '", block.name, "' uses buffer '", buffer->name, "' inside a loop of its own");
    }
    std::optional<Bounds> bounds = BoundsOf(Normalize(indices[d], ranges), ranges);
    if (bounds && bounds->low >= 0 && AsInt(buffer->shape[d]) && bounds->high < *AsInt(buffer->shape[d])) continue;
    return Err("block '", block.name, "' may reach beyond buffer '", buffer->name, "' in dimension ", d,
               ", which its conditions prevent; inline nothing into it before reindex");
  }
  return {};
}

}  // namespace

// Legal for a buffer, written whole, that the block accesses at one place only: reads it and does not write it, or is
// its only writer.
Status ApplyStep(State& state, Reindex& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  const Buffer* found = FindBuffer(state.func, step.buffer);
  if (!found) return Err("there is no buffer '", step.buffer, "'");
  Buffer buffer = *found;
  std::vector<Expr> indices;
  bool same = true;
  auto access = [&](const Buffer& b, const std::vector<Expr>& at) {
    if (b->name != step.buffer) return;
    for (size_t d = 0; d < indices.size(); ++d) same = same && autotune::Equal(indices[d], at[d]);
    indices = at;
  };
  bool writes = Writes(block, step.buffer);
  ForEachLoad(block, [&](const Load& load) { access(load.buffer, load.indices); });
  ForEachStore(block, [&](const Store& store) { access(store.buffer, store.indices); });
  if (indices.empty()) return Err("block '", step.block, "' does not use buffer '", step.buffer, "'");
  if (!same) return Err("block '", step.block, "' uses buffer '", step.buffer, "' at several places");
  TRY(CheckInBounds(indices, buffer, block));
  std::vector<size_t> iters = ItersUsed(block, indices);
  std::vector<int64_t> shape;
  std::vector<Expr> shape_exprs, at;
  for (size_t i : iters) {
    shape.push_back(extents[i]);
    shape_exprs.push_back(Expr(extents[i]));
    at.push_back(IndexVar(block.iters[i].var));
    if (writes && block.iters[i].kind == IterKind::kReduce) return Err("a reduction iterator indexes what is written");
  }
  if (iters.empty()) return Err("block '", step.block, "' uses one element of buffer '", step.buffer, "'");

  std::vector<Stmt> roots = RootStmts(state.func.body);
  size_t place = RootIndexOf(roots, step.block);
  if (writes) {
    for (const Iter& iter : block.iters) {
      bool used = std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return Uses(e, iter.var); });
      if (iter.kind == IterKind::kSpatial && !used) return Err("iterator '", iter.var, "' does not index the buffer");
    }
    if (WritersOf(state.func.body, step.buffer).size() != 1)
      return Err("buffer '", step.buffer, "' has several writers");
    for (const Name& reader : ReadersOf(state.func.body, step.buffer)) {
      if (RootIndexOf(roots, reader) <= place) {
        return Err("block '", reader, "' reads buffer '", step.buffer, "' inside the loops around block '", step.block,
                   "'");
      }
    }
  } else {
    for (const Name& writer : WritersOf(state.func.body, step.buffer)) {
      if (RootIndexOf(roots, writer) >= place) {
        return Err("buffer '", step.buffer, "' is written inside the loops around block '", step.block, "'");
      }
    }
  }
  TRY(CheckWrittenWhole(state.func, buffer));  // all of it is copied
  Name base = step.results.names.empty() ? Name(step.block.str() + "_" + step.buffer.str()) : step.results.names[0];
  std::vector<Name> defaults = LoopNames(base, shape.size());
  defaults.insert(defaults.begin(), base);
  if (step.results.names.size() == 1) step.results.names = defaults;
  step.results = TRY(ResultNames(step.results.names, defaults));
  const std::vector<Name>& names = step.results.names;
  std::vector<Name> loops{names.begin() + 1, names.end()};
  TRY(CheckNewBuffer(state.func, names[0]));
  TRY(CheckNewBlock(state.func, names[0]));
  TRY(CheckNewVars(state.func, loops));

  Buffer copy = Buffer::Make(names[0], buffer->dtype, shape_exprs);
  Stmt nest = MakeNest(state.func, names[0], shape, loops, [&](const std::vector<Expr>& v) {
    VarMap map;
    for (size_t i = 0; i < iters.size(); ++i) map[block.iters[iters[i]].var] = v[i];
    std::vector<Expr> old;
    for (const Expr& index : indices) old.push_back(Substitute(index, map));
    return writes ? Store{buffer, old, MakeLoad(copy, v)} : Store{copy, v, MakeLoad(buffer, old)};
  });
  auto on_expr = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    return load && load->buffer->name == step.buffer ? MakeLoad(copy, at) : e;
  };
  auto on_stmt = [&](const Stmt& s) {
    const Store* store = s.As<Store>();
    return store && store->buffer->name == step.buffer ? MakeStmt(Store{copy, at, store->value}) : s;
  };
  roots[place] = RewriteBlocks(roots[place], [&](const Block& b, const Ranges&) {
    if (b.name != step.block) return Stmt();
    Block changed = b;
    if (changed.init) changed.init = RewriteStmt(changed.init, on_stmt, on_expr);
    changed.body = RewriteStmt(changed.body, on_stmt, on_expr);
    return MakeStmt(std::move(changed));
  });
  const Param* param = FindParam(state.func, step.buffer);
  bool constant = param && param->role == ParamRole::kConstant;
  roots.insert(roots.begin() + (writes ? place + 1 : constant ? 0 : place), nest);
  state.func.body = MakeSeq(std::move(roots));
  state.func.allocs.push_back(copy);
  return {};
}

}  // namespace autotune::schedule
