#include <algorithm>

#include "tuner/rule/rule.h"

namespace autotune {
namespace {

// Least number of vectors, chosen by hand. With fewer, one thread per element is better than one thread per vector.
constexpr int64_t kFewestVectors = 16384;
const std::vector<int64_t> kThreads = {128, 256, 512};  // candidates for the threads of a block

// Returns true if each point of the block's own loops stores one element.
bool IsPlain(const BlockView& block) {
  const Block* node = block.node.As<Block>();
  return node->body.As<Store>() && !node->predicate && node->iters.size() == block.spatial.size();
}

}  // namespace

// Element-wise blocks on a GPU: one thread for each vector of 16 bytes. With 4 bytes per thread, the threads of a
// compute unit have too few loads in flight to keep memory busy.
//
//   blocks over f_0; threads x over f_1; the vectors of all loops together are f
Status GpuStreamingRule(SketchBuilder& s, const BlockView& block, int) {
  if (block.reduction || !IsPlain(block)) return Err("the block is not element-wise");
  const int64_t lanes = LanesInMemory(block, s.target());
  if (lanes == 1) return Err("the block's elements are not contiguous vectors in memory");
  if (Iterations(block.spatial) < kFewestVectors * lanes) return Err("the block has few elements");
  std::vector<int64_t> counts = kThreads;
  const int64_t vectors = Iterations(block.spatial) / lanes;
  // A last block that is not full would need a guard in every lane.
  std::erase_if(counts, [&](int64_t n) { return n > s.target().max_threads || vectors % n != 0; });
  if (counts.empty()) return Err("no number of threads divides the number of vectors");
  const Choice threads = TRY(s.Choose(block.name.str() + "_threads", counts));
  auto [blocks, thread, lane] = TRY(s.Split(TRY(s.FuseLoops(block.spatial)), {kAuto, threads, lanes}));
  TRY(s.Straighten(lane));
  TRY(s.Do(Bind{.loop = blocks, .axis = LoopKind::kBlockX}));
  TRY(s.Do(Bind{.loop = thread, .axis = LoopKind::kThreadX}));
  TRY(UnboundRule(s, block, 0));
  s.Call(block.name.str() + ":gpu_vectors");
  return {};
}

}  // namespace autotune
