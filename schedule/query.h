// Queries about a scheduled function, for rules and tests: blocks, loops, data flow. They never stand in a trace.
// Pure functions; thread-safe.
#pragma once
#include <vector>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

struct LoopInfo {
  Name var;
  int64_t extent = 0;  // -1: symbolic
  LoopKind kind = LoopKind::kSerial;
  // What it feeds of the block it was asked for.
  bool spatial = false, reduce = false;
};

// In program order.
std::vector<Name> GetBlocks(const PrimFunc& func);
Result<Block> GetBlock(const PrimFunc& func, const Name& name);
// The loops around a block, outermost first.
Result<std::vector<LoopInfo>> GetLoops(const PrimFunc& func, const Name& block);
// The blocks below a loop, in program order.
Result<std::vector<Name>> GetChildBlocks(const PrimFunc& func, const Name& loop);

// Blocks that write what `block` reads, or read what it writes; in program order, itself not included.
Result<std::vector<Name>> GetProducers(const PrimFunc& func, const Name& block);
Result<std::vector<Name>> GetConsumers(const PrimFunc& func, const Name& block);
Result<std::vector<Buffer>> BuffersReadBy(const PrimFunc& func, const Name& block);  // without its own accumulator
Result<Buffer> BufferWrittenBy(const PrimFunc& func, const Name& block);

bool HasReduction(const Block& block);
// Spatial, one store at all its iterators, plain: what compute_inline takes.
bool IsInjective(const Block& block);
// Injective, and every intermediate it reads is read at exactly its own iterators in order (constants and parameters
// may be broadcast): relu, bias, residual add.
bool IsElementwiseOf(const Block& block, const Buffer& producer);
// Stores `condition ? value : constant`.
bool IsPadding(const Block& block);
bool WritesOutput(const PrimFunc& func, const Block& block);
const Param* ParamOf(const PrimFunc& func, const Name& buffer);  // null for an intermediate

}  // namespace autotune
