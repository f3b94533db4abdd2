// compute_inline, reverse_compute_inline: substitute the formula of one block into another block.
#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Checks that the block computes a formula of its iterators: all of them are spatial, and its one store is indexed by
// exactly these iterators.
Status CheckPlain(const Block& block) {
  if (IsPlainSpatial(block)) return {};
  return Err("block '", block.name,
             "' must be one store, without a reduction, whose indices are its spatial iterators");
}

VarMap IterMap(const Block& block, const std::vector<size_t>& places, const std::vector<Expr>& values) {
  VarMap map;
  for (size_t d = 0; d < places.size(); ++d) map[block.iters[places[d]].var] = values[d];
  return map;
}

}  // namespace

// Legal for the only writer of an intermediate buffer.
Status ApplyStep(State& state, ComputeInline& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  TRY(CheckPlain(block));
  const Store& store = *SingleStore(block);
  Name buffer = store.buffer->name;
  if (!IsAlloc(state.func, buffer)) return Err("block '", block.name, "' writes the output '", buffer, "'");
  if (WritersOf(state.func.body, buffer).size() != 1) return Err("buffer '", buffer, "' has several writers");
  if (ReadersOf(state.func.body, buffer).empty()) return Err("nothing reads block '", block.name, "'");
  std::vector<size_t> places = *AsIterators(store.indices, block);
  auto replace = [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name != buffer) return e;
    return Substitute(store.value, IterMap(block, places, load->indices));
  };
  Stmt rest = ReplaceTarget(path, MakeSeq({}));
  state.func.body = RewriteBlocks(rest, [&](const Block& consumer, const Ranges&) {
    if (!Reads(consumer, buffer)) return Stmt();
    Block changed = consumer;
    if (changed.init) changed.init = RewriteStmt(changed.init, nullptr, replace);
    changed.body = RewriteStmt(changed.body, nullptr, replace);
    return MakeStmt(std::move(changed));
  });
  RemoveAlloc(state.func, buffer);
  return CheckSourcesIndependent(state, block);
}

// Moves the block's formula into the producer of a buffer that the block reads; the producer keeps its name and its
// loops. Legal if the block is the only reader of this intermediate buffer and reads all of it, at plain iterators. The
// buffer must have one producer, without a reduction.
Status ApplyStep(State& state, ReverseComputeInline& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  const Store* store = SingleStore(block);
  if (!store || block.init || IsReduction(block))
    return Err("block '", block.name, "' must be one store without a reduction");
  if (Reads(block, store->buffer->name)) return Err("block '", block.name, "' reads what it writes");
  if (WritersOf(state.func.body, store->buffer->name).size() != 1) {
    return Err("buffer '", store->buffer->name, "' has several writers, whose order matters");
  }
  // Finds the producer: the only writer of an intermediate buffer that only `block` reads.
  Buffer buffer;
  Name producer;
  std::string reason = "it is not the only reader of an intermediate buffer with one producer";
  for (const Name& name : BuffersRead(block)) {
    std::vector<Name> writers = WritersOf(state.func.body, name);
    if (!IsAlloc(state.func, name) || writers.size() != 1) continue;
    if (ReadersOf(state.func.body, name).size() != 1) continue;
    Path from = TRY(FindBlock(state.func.body, writers[0]));
    const Block& p = from.block();
    if (p.init || IsReduction(p) || !SingleStore(p)) {
      reason = "producer '" + p.name.str() + "' must be one store without a reduction";
      continue;
    }
    if (producer.empty()) buffer = *FindBuffer(state.func, name), producer = p.name;
  }
  if (producer.empty()) return Err("block '", block.name, "': ", reason);
  std::optional<std::vector<size_t>> places;
  bool same = true;
  ForEachLoad(block, [&](const Load& load) {
    if (load.buffer->name != buffer->name) return;
    auto found = AsIterators(load.indices, block);
    same = same && found && (!places || *places == *found);
    places = found;
  });
  bool whole = same && places && places->size() == block.iters.size();
  for (size_t d = 0; whole && d < places->size(); ++d) {
    whole = autotune::Equal(buffer->shape[d], block.iters[(*places)[d]].extent);
  }
  if (!whole)
    return Err("block '", block.name, "' must read the whole buffer '", buffer->name,
               "', at indices that are its iterators");

  Stmt rest = ReplaceTarget(path, MakeSeq({}));
  // All other buffers that `block` reads must be complete before the producer runs.
  std::vector<Name> order;
  ForEachBlock(rest, [&](const Block& b, const auto&) { order.push_back(b.name); });
  auto position = [&](const Name& name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  for (const Name& name : BuffersRead(block)) {
    for (const Name& writer : WritersOf(rest, name)) {
      if (position(writer) > position(producer)) {
        return Err("block '", block.name, "' also needs block '", writer, "', which comes after '", producer, "'");
      }
    }
  }
  Path place = TRY(FindBlock(rest, producer));
  TRY(CheckReadsComplete(block, place.Loops(), "'" + producer.str() + "'", {buffer->name}));
  state.func.body = RewriteBlocks(rest, [&](const Block& p, const Ranges&) {
    if (p.name != producer) return Stmt();
    const Store& from = *SingleStore(p);
    VarMap map = IterMap(block, *places, from.indices);
    Expr value = RewriteExpr(store->value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      return load && load->buffer->name == buffer->name ? from.value : e;
    });
    // The map only replaces iterators of `block`. So it leaves from.value alone, which uses the producer's iterators.
    std::vector<Expr> indices;
    for (const Expr& index : store->indices) indices.push_back(Substitute(index, map));
    Block changed = p;
    changed.body = MakeStmt(Store{store->buffer, std::move(indices), Substitute(value, map)});
    return MakeStmt(std::move(changed));
  });
  RemoveAlloc(state.func, buffer->name);
  TRY(CheckStillIndependent(state, producer));
  return CheckSourcesIndependent(state, block);
}

}  // namespace autotune::schedule
