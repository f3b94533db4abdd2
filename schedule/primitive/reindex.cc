#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Returns the iterators that the indices use, in the block's order.
std::vector<size_t> ItersUsed(const Block& block, const std::vector<Expr>& indices) {
  std::vector<size_t> used;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    bool in =
        std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return UsesVar(e, block.iters[i].var); });
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
    return Err("block '", block.name, "' stays within buffer '", buffer->name, "' in dimension ", d,
               " only because of its conditions; inline nothing into it before reindex");
  }
  return {};
}

// The accesses of the block to the buffer. All of them have the same indices.
struct Access {
  Block block;
  Buffer buffer;
  std::vector<Expr> indices;
  bool writes = false;
  std::vector<size_t> iters;   // the block's iterators that `indices` use
  std::vector<int64_t> shape;  // their extents
};

// Returns the indices at which the block accesses the buffer. An error if the block does not access the buffer, or
// accesses it at different indices.
Result<std::vector<Expr>> IndicesOf(const Block& block, const Name& buffer) {
  std::vector<Expr> indices;
  bool same = true;
  auto access = [&](const Buffer& b, const std::vector<Expr>& at) {
    if (b->name != buffer) return;
    for (size_t d = 0; d < indices.size(); ++d) same = same && autotune::Equal(indices[d], at[d]);
    indices = at;
  };
  ForEachLoad(block, [&](const Load& load) { access(load.buffer, load.indices); });
  ForEachStore(block, [&](const Store& store) { access(store.buffer, store.indices); });
  if (indices.empty()) return Err("block '", block.name, "' does not use buffer '", buffer, "'");
  if (!same) return Err("block '", block.name, "' uses buffer '", buffer, "' at several places");
  return indices;
}

Result<Access> AccessOf(const State& state, const Reindex& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Access access{.block = path.block()};
  const Block& block = access.block;
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  const Buffer* found = FindBuffer(state.func, step.buffer);
  if (!found) return Err("there is no buffer '", step.buffer, "'");
  access.buffer = *found;
  access.writes = Writes(block, step.buffer);
  access.indices = TRY(IndicesOf(block, step.buffer));
  TRY(CheckInBounds(access.indices, access.buffer, block));
  access.iters = ItersUsed(block, access.indices);
  for (size_t i : access.iters) {
    access.shape.push_back(extents[i]);
    if (access.writes && block.iters[i].kind == IterKind::kReduce)
      return Err("a reduction iterator indexes buffer '", step.buffer, "', which block '", step.block, "' writes");
  }
  if (access.iters.empty()) return Err("block '", step.block, "' uses one element of buffer '", step.buffer, "'");
  return access;
}

// Checks that the copy can run where it is needed: after a block that writes the buffer, or before a block that reads
// the buffer. `place` is the index of the block's top-level statement in `roots`.
Status CheckOrder(const State& state, const Access& access, const std::vector<Stmt>& roots, size_t place) {
  const Block& block = access.block;
  const Name& buffer = access.buffer->name;
  if (!access.writes) {
    for (const Name& writer : WritersOf(state.func.body, buffer)) {
      if (RootIndexOf(roots, writer) >= place) {
        return Err("buffer '", buffer, "' is written inside the loops around block '", block.name, "'");
      }
    }
    return {};
  }
  for (size_t i = 0; i < block.iters.size(); ++i) {
    bool used = std::find(access.iters.begin(), access.iters.end(), i) != access.iters.end();
    if (block.iters[i].kind == IterKind::kSpatial && !used)
      return Err("spatial iterator '", block.iters[i].var, "' does not index buffer '", buffer, "'");
  }
  if (WritersOf(state.func.body, buffer).size() != 1) return Err("buffer '", buffer, "' has several writers");
  for (const Name& reader : ReadersOf(state.func.body, buffer)) {
    if (RootIndexOf(roots, reader) <= place) {
      return Err("block '", reader, "' reads buffer '", buffer, "' inside the loops around block '", block.name, "'");
    }
  }
  return {};
}

// Returns the block with its accesses to the buffer replaced by accesses to the copy.
Block WithCopy(const Access& access, const Buffer& copy) {
  std::vector<Expr> at;
  for (size_t i : access.iters) at.push_back(IndexVar(access.block.iters[i].var));
  auto on_expr = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    return load && load->buffer->name == access.buffer->name ? MakeLoad(copy, at) : e;
  };
  auto on_stmt = [&](const Stmt& s) {
    const Store* store = s.As<Store>();
    return store && store->buffer->name == access.buffer->name ? MakeStmt(Store{copy, at, store->value}) : s;
  };
  Block changed = access.block;
  if (changed.init) changed.init = RewriteStmt(changed.init, on_stmt, on_expr);
  changed.body = RewriteStmt(changed.body, on_stmt, on_expr);
  return changed;
}

}  // namespace

// Legal only if every element of the buffer is written, and all accesses of the block to it have the same indices,
// which are in bounds without the block's conditions. The block must either only read the buffer, which is complete
// before the loops around the block, or be its only writer. A writer must index the buffer by all its spatial iterators
// and by no reduction iterator, and nothing inside those loops may read the buffer.
Status ApplyStep(State& state, Reindex& step) {
  const Access access = TRY(AccessOf(state, step));
  std::vector<Stmt> roots = RootStmts(state.func.body);
  const size_t place = RootIndexOf(roots, step.block);
  TRY(CheckOrder(state, access, roots, place));
  TRY(CheckWrittenWhole(state.func, access.buffer));  // the copy reads every element
  const std::vector<Name>& given = step.results.names;
  const Name copied = given.empty() ? Name(step.block.str() + "_" + step.buffer.str()) : given[0];
  step.results = TRY(BlockAndLoopNames(state.func, given, copied, LoopNames(copied, access.shape.size())));
  const std::vector<Name>& names = step.results.names;
  std::vector<Expr> shape;
  for (int64_t extent : access.shape) shape.push_back(Expr(extent));
  Buffer copy = Buffer::Make(names[0], access.buffer->dtype, shape);
  std::vector<Name> loops{names.begin() + 1, names.end()};
  Stmt nest = MakeNest(state.func, names[0], access.shape, loops, [&](const std::vector<Expr>& v) {
    VarMap map;
    for (size_t i = 0; i < access.iters.size(); ++i) map[access.block.iters[access.iters[i]].var] = v[i];
    std::vector<Expr> old;
    for (const Expr& index : access.indices) old.push_back(Substitute(index, map));
    return access.writes ? Store{access.buffer, old, MakeLoad(copy, v)} : Store{copy, v, MakeLoad(access.buffer, old)};
  });
  roots[place] = RewriteBlocks(roots[place], [&](const Block& b, const Ranges&) {
    return b.name == step.block ? MakeStmt(WithCopy(access, copy)) : Stmt();
  });
  const Param* param = FindParam(state.func, step.buffer);
  const bool constant = param && param->role == ParamRole::kConstant;
  roots.insert(roots.begin() + (access.writes ? place + 1 : constant ? 0 : place), nest);
  state.func.body = MakeSeq(std::move(roots));
  state.func.allocs.push_back(copy);
  return {};
}

}  // namespace autotune::schedule
