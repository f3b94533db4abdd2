#include "tuner/rule/sum_parts.h"

#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

// These numbers are chosen by hand, not measured.
constexpr int64_t kTileResults = 64 * 64;  // results of a block of threads that uses shared memory well
// If small tiles already give every compute unit two blocks, parts have at least kFewestOfMany steps, since a second
// kernel then gains little.
constexpr int64_t kSmallTile = 32 * 32, kFewestOfMany = 256;
constexpr int64_t kBlocksPerUnit = 2;       // blocks of threads that a compute unit needs to hide latencies [chosen]
constexpr int64_t kFewestStepsOfPart = 64;  // least steps of a part: adding up costs, too [chosen]
constexpr int64_t kFewestOfSlice = 32;      // least steps of a slice: adding up costs, too [chosen]

// Returns the number of parts into which the longest loop of the block's sum is cut: as many as give every compute unit
// work, or `fewer` times fewer. Returns 1 if the results alone are enough work, if the sum is too short, or if no such
// number divides it.
int64_t PartsOfLoop(const BlockView& block, const Loop& longest, int64_t together, int64_t fewer,
                    const Target& target) {
  const bool many = Iterations(block.spatial) >= kBlocksPerUnit * target.num_cores * kSmallTile;
  const int64_t fewest = many ? kFewestOfMany : kFewestStepsOfPart;
  const int64_t tiles = CeilDiv(Iterations(block.spatial), kTileResults);
  const int64_t wanted = kBlocksPerUnit * target.num_cores / tiles;
  const int64_t pieces = longest.extent % together == 0 ? longest.extent / together : longest.extent;
  const std::vector<int64_t> parts = Divisors(pieces, std::min(wanted, Iterations(block.reduce) / fewest) / fewer);
  return parts.empty() ? 1 : parts.back();
}

}  // namespace

Status InParts(SketchBuilder& s, const BlockView& block, int way, int64_t together,
               const std::function<Status(const BlockView&)>& place) {
  if (way == 0) return place(block);
  if (block.reduce.empty()) return Err("nothing is summed");
  const Loop& longest = *std::ranges::max_element(block.reduce, {}, &Loop::extent);
  auto parts_of = [&](int way) { return PartsOfLoop(block, longest, together, int64_t{1} << (way - 1), s.target()); };
  const int64_t parts = parts_of(way);
  if (parts == 1 || (way > 1 && parts == parts_of(way - 1))) return Err("the sum is not cut into parts");
  const Name partial = TRY(s.CutReduction(block, longest, parts));
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* product = FindBlock(blocks, partial);
  if (!product) return Err("the partial sums no longer exist");
  TRY(place(*product));
  s.Call(block.name.str() + ":gpu_parts");
  return {};
}

Status InSlices(SketchBuilder& s, const BlockView& block, int64_t slices,
                const std::function<Status(const BlockView&, const Name&)>& place) {
  if (block.reduce.empty()) return Err("nothing is summed");
  if (CeilDiv(Iterations(block.spatial), kTileResults) > kBlocksPerUnit * s.target().num_cores)
    return Err("the results alone are enough work");
  const Loop& longest = *std::ranges::max_element(block.reduce, {}, &Loop::extent);
  const int64_t lanes = LanesOf(block, s.target());
  if (longest.extent % (slices * lanes) != 0 || Iterations(block.reduce) < slices * kFewestOfSlice)
    return Err("the sum is not cut into slices");
  const Name partial = TRY(s.CutReduction(block, longest, slices, block.name.str() + "_slices"));
  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView* product = FindBlock(blocks, partial);
  if (!product) return Err("the partial sums no longer exist");
  TRY(place(*product, block.name));
  s.Call(block.name.str() + ":gpu_slices");
  return {};
}

}  // namespace autotune
