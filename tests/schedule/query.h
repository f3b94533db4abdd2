// For tests: queries about a scheduled function (blocks, loops, data flow). Header-only; pure functions.
#pragma once
#include <vector>

#include "schedule/tree.h"

namespace autotune {

// Returns the names of all blocks, in program order.
inline std::vector<Name> GetBlocks(const PrimFunc& func) {
  std::vector<Name> names;
  schedule::ForEachBlock(func.body, [&](const Block& block, const auto&) { names.push_back(block.name); });
  return names;
}

inline Result<Block> GetBlock(const PrimFunc& func, const Name& name) {
  schedule::Path path = TRY(schedule::FindBlock(func.body, name));
  return path.block();
}

struct LoopInfo {
  Name var;
  int64_t extent = 0;  // -1: symbolic
  LoopKind kind = LoopKind::kSerial;
  bool spatial = false, reduce = false;  // kinds of iterators of the block that depend on the loop
};
// Returns the loops around a block, outermost first.
inline Result<std::vector<LoopInfo>> GetLoops(const PrimFunc& func, const Name& block) {
  schedule::Path path = TRY(schedule::FindBlock(func.body, block));
  std::vector<LoopInfo> loops;
  for (const For* loop : path.Loops()) {
    const int64_t* extent = AsInt(loop->extent);
    schedule::Feeds feeds = schedule::FeedsOf(path.block(), loop->var);
    loops.push_back({loop->var, extent ? *extent : -1, loop->kind, feeds.spatial, feeds.reduce});
  }
  return loops;
}

// Returns the buffers that a block reads, except the one that it updates.
inline Result<std::vector<Buffer>> BuffersReadBy(const PrimFunc& func, const Name& block) {
  schedule::Path path = TRY(schedule::FindBlock(func.body, block));
  std::vector<Buffer> buffers;
  for (const Name& name : schedule::BuffersRead(path.block())) buffers.push_back(*schedule::FindBuffer(func, name));
  return buffers;
}

inline Result<Buffer> BufferWrittenBy(const PrimFunc& func, const Name& block) {
  schedule::Path path = TRY(schedule::FindBlock(func.body, block));
  return schedule::WrittenBuffer(path.block());
}

}  // namespace autotune
