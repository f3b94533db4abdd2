// cache_read and cache_write insert a copy of a buffer; set_scope changes the scope of a buffer.
#include <algorithm>

#include "schedule/region.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

Stmt ReplaceBufferIn(const Block& block, const Name& from, const Buffer& to) {
  Block changed = block;
  BufferMap map{{from, to}};
  if (changed.init) changed.init = ReplaceBuffers(changed.init, map);
  changed.body = ReplaceBuffers(changed.body, map);
  return MakeStmt(std::move(changed));
}

Result<std::vector<int64_t>> ShapeOf(const Buffer& buffer) {
  for (const Expr& extent : buffer->shape) {
    if (!AsInt(extent)) return Err("buffer '", buffer->name, "' has a symbolic extent");
  }
  return ConstShape(buffer);
}

// Returns the block `name`, in `loops`, that copies `from` to `to`, element by element.
Stmt CopyNest(const PrimFunc& func, const Name& name, const Buffer& from, const Buffer& to,
              const std::vector<Name>& loops) {
  return MakeNest(func, name, ConstShape(from), loops, [&](const std::vector<Expr>& v) {
    return Store{to, v, MakeLoad(from, v)};
  });
}

}  // namespace

// Legal if the block reads the buffer and does not write it, and the whole buffer is complete before the outermost loop
// around the block.
Status ApplyStep(State& state, CacheRead& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  const Buffer* found = FindBuffer(state.func, step.buffer);
  if (!found) return Err("there is no buffer '", step.buffer, "'");
  Buffer buffer = *found;
  if (!Reads(path.block(), step.buffer) || Writes(path.block(), step.buffer)) {
    return Err("block '", step.block, "' must read buffer '", step.buffer, "' and not write it");
  }
  std::vector<int64_t> shape = TRY(ShapeOf(buffer));
  const std::vector<Name>& given = step.results.names;
  const Name copied = given.empty() ? Name(step.buffer.str() + "_" + step.block.str()) : given[0];
  step.results = TRY(BlockAndLoopNames(state.func, given, copied, LoopNames(copied, shape.size())));
  const std::vector<Name>& names = step.results.names;
  const std::vector<Name> loops{names.begin() + 1, names.end()};
  std::vector<Stmt> roots = RootStmts(state.func.body);
  size_t place = RootIndexOf(roots, step.block);
  for (const Name& writer : WritersOf(state.func.body, step.buffer)) {
    if (RootIndexOf(roots, writer) >= place) {
      return Err("buffer '", step.buffer, "' is written inside the loops around block '", step.block, "'");
    }
  }
  TRY(CheckWrittenWhole(state.func, buffer));
  Buffer cache = Buffer::Make(names[0], buffer->dtype, buffer->shape, step.scope);
  Stmt nest = CopyNest(state.func, names[0], buffer, cache, loops);
  roots[place] = RewriteBlocks(roots[place], [&](const Block& block, const Ranges&) {
    return block.name == step.block ? ReplaceBufferIn(block, step.buffer, cache) : Stmt();
  });
  const Param* param = FindParam(state.func, step.buffer);
  bool constant = param && param->role == ParamRole::kConstant;
  roots.insert(roots.begin() + (constant ? 0 : place), nest);
  state.func.body = MakeSeq(std::move(roots));
  state.func.allocs.push_back(cache);
  return {};
}

// Legal for the only writer of a buffer, if it writes the whole buffer and all readers of the buffer come after the
// outermost loop around the writer.
Status ApplyStep(State& state, CacheWrite& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Buffer written = TRY(WrittenBuffer(path.block()));
  Buffer buffer = *FindBuffer(state.func, written->name);
  if (WritersOf(state.func.body, buffer->name).size() != 1) {
    return Err("buffer '", buffer->name, "' has several writers; apply cache_write before decompose_reduction");
  }
  std::vector<int64_t> shape = TRY(ShapeOf(buffer));
  std::vector<Name> defaults{Suffixed(step.block, "_local"), Suffixed(step.block, "_copy")};
  if (step.results.names.size() >= 2) defaults[1] = step.results.names[1];
  for (const Name& loop : LoopNames(defaults[1], shape.size())) defaults.push_back(loop);
  if (step.results.names.size() == 1) defaults[0] = step.results.names[0], step.results.names = defaults;
  if (step.results.names.size() == 2) defaults[0] = step.results.names[0], step.results.names = defaults;
  step.results = TRY(ResultNames(step.results.names, defaults));
  const std::vector<Name>& names = step.results.names;
  std::vector<Name> loops{names.begin() + 2, names.end()};
  TRY(CheckNewBuffer(state.func, names[0]));
  TRY(CheckNewBlock(state.func, names[1]));
  TRY(CheckNewVars(state.func, loops));
  std::vector<Stmt> roots = RootStmts(state.func.body);
  size_t place = RootIndexOf(roots, step.block);
  for (const Name& reader : ReadersOf(state.func.body, buffer->name)) {
    if (RootIndexOf(roots, reader) <= place) {
      return Err("block '", reader, "' reads buffer '", buffer->name, "' inside the loops around block '", step.block,
                 "'");
    }
  }
  TRY(CheckWrittenWhole(state.func, buffer));
  Buffer cache = Buffer::Make(names[0], buffer->dtype, buffer->shape, step.scope);
  Stmt nest = CopyNest(state.func, names[1], cache, buffer, loops);
  roots[place] = RewriteBlocks(roots[place], [&](const Block& block, const Ranges&) {
    return block.name == step.block ? ReplaceBufferIn(block, buffer->name, cache) : Stmt();
  });
  roots.insert(roots.begin() + place + 1, nest);
  state.func.body = MakeSeq(std::move(roots));
  state.func.allocs.push_back(cache);
  return {};
}

// Legal for intermediate buffers. The build checks that the indices of a register buffer become constants.
Status ApplyStep(State& state, SetScope& step) {
  const Buffer* buffer = FindBuffer(state.func, step.buffer);
  if (!buffer) return Err("there is no buffer '", step.buffer, "'");
  if (!IsAlloc(state.func, step.buffer)) return Err("buffer '", step.buffer, "' is a parameter");
  if (step.scope == Scope::kRegister && !(*buffer)->dim_align.empty()) {
    return Err("buffer '", step.buffer, "' has aligned strides, which registers cannot have");
  }
  RedeclareAlloc(state.func, WithScope(*buffer, step.scope));
  return {};
}

}  // namespace autotune::schedule
