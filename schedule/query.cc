#include "schedule/query.h"

#include <algorithm>

#include "schedule/tree.h"

namespace autotune {

using schedule::FindBlock;
using schedule::ForEachBlock;
using schedule::Path;

std::vector<Name> GetBlocks(const PrimFunc& func) {
  std::vector<Name> names;
  ForEachBlock(func.body, [&](const Block& block, const auto&) { names.push_back(block.name); });
  return names;
}

Result<Block> GetBlock(const PrimFunc& func, const Name& name) {
  Path path = TRY(FindBlock(func.body, name));
  return path.block();
}

Result<std::vector<LoopInfo>> GetLoops(const PrimFunc& func, const Name& block) {
  Path path = TRY(FindBlock(func.body, block));
  std::vector<LoopInfo> loops;
  for (const For* loop : path.Loops()) {
    const int64_t* extent = AsInt(loop->extent);
    schedule::Feeds feeds = schedule::FeedsOf(path.block(), loop->var);
    loops.push_back({loop->var, extent ? *extent : -1, loop->kind, feeds.spatial, feeds.reduce});
  }
  return loops;
}

Result<std::vector<Name>> GetChildBlocks(const PrimFunc& func, const Name& loop) {
  Path path = TRY(schedule::FindLoop(func.body, loop));
  std::vector<Name> names;
  ForEachBlock(path.loop().body, [&](const Block& block, const auto&) { names.push_back(block.name); });
  return names;
}

Result<std::vector<Name>> GetProducers(const PrimFunc& func, const Name& block) {
  Path path = TRY(FindBlock(func.body, block));
  std::vector<Name> buffers = schedule::BuffersRead(path.block()), names;
  ForEachBlock(func.body, [&](const Block& b, const auto&) {
    if (b.name == block) return;
    bool writes = std::any_of(buffers.begin(), buffers.end(), [&](const Name& n) { return schedule::Writes(b, n); });
    if (writes) names.push_back(b.name);
  });
  return names;
}

Result<std::vector<Name>> GetConsumers(const PrimFunc& func, const Name& block) {
  Path path = TRY(FindBlock(func.body, block));
  Buffer written = TRY(schedule::WrittenBuffer(path.block()));
  return schedule::ReadersOf(func.body, written->name);
}

Result<std::vector<Buffer>> BuffersReadBy(const PrimFunc& func, const Name& block) {
  Path path = TRY(FindBlock(func.body, block));
  std::vector<Buffer> buffers;
  for (const Name& name : schedule::BuffersRead(path.block())) {
    const Buffer* buffer = schedule::FindBuffer(func, name);
    if (!buffer) return Err("there is no buffer '", name, "'");
    buffers.push_back(*buffer);
  }
  return buffers;
}

Result<Buffer> BufferWrittenBy(const PrimFunc& func, const Name& block) {
  Path path = TRY(FindBlock(func.body, block));
  return schedule::WrittenBuffer(path.block());
}

bool HasReduction(const Block& block) { return schedule::IsReduction(block); }
bool IsInjective(const Block& block) { return schedule::IsPlainSpatial(block); }

bool IsElementwiseOf(const Block& block, const Buffer& producer) {
  if (schedule::IsReduction(block) || block.init || !schedule::SingleStore(block)) return false;
  bool all = true, any = false;
  schedule::ForEachLoad(block, [&](const Load& load) {
    if (load.buffer->name != producer->name) return;
    any = true;
    auto places = schedule::AsIterators(load.indices, block);
    all = all && places && places->size() == block.iters.size() && std::is_sorted(places->begin(), places->end());
  });
  return any && all;
}

bool IsPadding(const Block& block) {
  const Store* store = schedule::SingleStore(block);
  const Select* select = store && schedule::IsPlainSpatial(block) ? store->value.As<Select>() : nullptr;
  return select && (AsInt(select->b) || select->b.As<FloatImm>());
}

bool WritesOutput(const PrimFunc& func, const Block& block) {
  bool output = false;
  schedule::ForEachStore(block, [&](const Store& s) { output |= ParamOf(func, s.buffer->name) != nullptr; });
  return output;
}

const Param* ParamOf(const PrimFunc& func, const Name& buffer) { return schedule::FindParam(func, buffer); }

}  // namespace autotune
