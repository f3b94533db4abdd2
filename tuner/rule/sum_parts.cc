#include "tuner/rule/sum_parts.h"

#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

// These numbers are chosen by hand, not measured.
constexpr int64_t kTileResults = 64 * 64;  // results of a block of threads that uses shared memory well
constexpr int64_t kBlocksPerUnit = 2;      // blocks of threads that a compute unit needs to hide latencies
constexpr int64_t kFewestSteps = 64;       // least steps of a part; with fewer, adding up the parts costs too much
constexpr int64_t kFewerParts = 4;         // ratio of the numbers of parts in ways 1 and 2
constexpr int64_t kThreads = 128;          // most threads of a block that adds up parts
constexpr int64_t kMostUnrolled = 8;       // most parts whose loads a thread has in flight

// Returns the number of parts into which the longest loop of the block's sum is cut: as many as give every compute unit
// work, or kFewerParts times fewer if `fewer` is true. Returns 1 if the results alone are enough work, if the sum is
// too short, or if no such number divides it.
int64_t PartsOf(const BlockView& block, const Loop& longest, int64_t together, bool fewer, const Target& target) {
  const int64_t tiles = CeilDiv(Iterations(block.spatial), kTileResults);
  const int64_t wanted = kBlocksPerUnit * target.num_cores / tiles / (fewer ? kFewerParts : 1);
  const int64_t pieces = longest.extent % together == 0 ? longest.extent / together : longest.extent;
  const std::vector<int64_t> parts = Divisors(pieces, std::min(wanted, Iterations(block.reduce) / kFewestSteps));
  return parts.empty() ? 1 : parts.back();
}

// Places `sum`, the block that adds up the parts, together with its write-back. Each thread computes one vector of
// results.
Status AddUpParts(SketchBuilder& s, const Name& sum) {
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* view = FindBlock(blocks, sum);
  if (!view || view->reduce.size() != 1 || view->spatial.empty()) return Err("no block adds up the parts");
  const int64_t lanes = LanesInMemory(*view, s.target());
  const int64_t threads = std::min(kThreads, s.target().max_threads);
  const int64_t x = Divisors(view->spatial.back().extent / lanes, threads).back();
  const WriteBack out = TRY(s.MakeWriteBack(*view));
  auto [column, thread_x, lane] = TRY(s.Split(view->spatial.back().var, {kAuto, x, lanes}));
  auto [part, unrolled] =
      TRY(s.Split(view->reduce[0].var, {kAuto, Divisors(view->reduce[0].extent, kMostUnrolled).back()}));
  std::vector<Name> outer = Loops(view->spatial).list;
  outer.back() = column;
  Name thread_y;
  if (outer.size() > 1) {  // a short row leaves threads for further rows
    const size_t last = outer.size() - 2;
    const int64_t y = Divisors(view->spatial[last].extent, threads / x).back();
    auto [row, thread] = TRY(s.Split(outer[last], {kAuto, y}));
    outer[last] = row, thread_y = thread;
  }
  TRY(s.Order({outer, thread_y, thread_x, part, unrolled, lane}));
  const Name block = TRY(s.FuseLoops(outer));
  TRY(s.Straighten(TRY(s.Do(ReverseComputeAt{.block = out.block, .loop = thread_x}))));
  s.Place(out.block);
  TRY(s.ZeroAndStraighten(sum, part, unrolled, {}, lane));
  TRY(s.Do(Bind{.loop = block, .axis = LoopKind::kBlockX}));
  if (!thread_y.empty()) TRY(s.Do(Bind{.loop = thread_y, .axis = LoopKind::kThreadY}));
  TRY(s.Do(Bind{.loop = thread_x, .axis = LoopKind::kThreadX}));
  TRY(s.Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
  TRY(UnboundRule(s, *view, 0));
  s.Call(sum.str() + ":gpu_parts");
  return {};
}

}  // namespace

Status InParts(SketchBuilder& s, const BlockView& block, int way, int64_t together,
               const std::function<Status(const BlockView&)>& place) {
  if (way == 0) return place(block);
  if (block.reduce.empty()) return Err("nothing is summed");
  const Loop& longest = *std::ranges::max_element(block.reduce, {}, &Loop::extent);
  const int64_t most = PartsOf(block, longest, together, false, s.target());
  const int64_t parts = way == 1 ? most : PartsOf(block, longest, together, true, s.target());
  if (parts == 1 || (way > 1 && parts == most)) return Err("the sum is not cut into parts");
  const Name partial = TRY(s.CutReduction(block, longest, parts));
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* product = FindBlock(blocks, partial);
  if (!product) return Err("the partial sums no longer exist");
  TRY(place(*product));
  return AddUpParts(s, block.name);
}

}  // namespace autotune
