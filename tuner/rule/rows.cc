#include <algorithm>
#include <map>
#include <set>

#include "ir/annotations.h"
#include "support/integer.h"
#include "target/streaming.h"
#include "tuner/rule/passes.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

constexpr double kMostLanesLeft = 64;    // most lanes that are combined without a loop; topi/reduce.cc makes at most 48
constexpr int64_t kTaskElements = 8192;  // elements of a task that is long compared with the cost of starting it
constexpr int64_t kRowsPerCore = 4;      // least rows per core for balance; with fewer, rows are cut
constexpr int64_t kPartsPerCore = 4;     // parts per core if rows are cut
constexpr int64_t kRegisterColumns = 256;  // most columns of a row whose accumulators may be registers
constexpr int64_t kSparedRegisters = 4;    // vector registers that are not used for accumulators
constexpr int64_t kRowUnroll = 4;          // unrolled vectors of a wide row

// Returns true if every load of the reduction reads each element once.
bool ReadsAllOnce(const BlockView& view) {
  bool once = true;
  int loads = 0;
  ForEachOperand(view, [&](const Load& load) {
    ++loads;
    once = once && ReadsOnce(view, FlatIndex(view, load.buffer, load.indices));
  });
  return once && loads > 0;
}

// ---- Passes over rows: a loop over the rows with all blocks inside, each in vectors ---------------------------------

// RowLoops returns the loops over rows; ColumnLoops returns the other spatial loops.
std::vector<Loop> RowLoops(const BlockView& block, size_t depth) {
  return {block.spatial.begin(), block.spatial.begin() + static_cast<std::ptrdiff_t>(depth)};
}
std::vector<Loop> ColumnLoops(const BlockView& block, size_t depth) {
  return {block.spatial.begin() + static_cast<std::ptrdiff_t>(depth), block.spatial.end()};
}

// The loops of a block inside a row: over columns and over sums.
struct Pass {
  std::vector<Loop> columns, sums;
};

// Returns the loops of the block inside a row, with their current names. `loops` are the current loops of all its
// iterators; the first `depth` of them are over rows.
Pass PassOf(const BlockView& block, const std::vector<Name>& loops, size_t depth) {
  Pass pass{ColumnLoops(block, depth), block.reduce};
  size_t at = depth;
  for (std::vector<Loop>* list : {&pass.columns, &pass.sums}) {
    for (Loop& loop : *list) loop.var = loops[at++];
  }
  return pass;
}

// Vectorizes the columns of a block that is no reduction. Returns the loop over vectors, or an empty name if the
// columns fit one vector.
Result<Name> VectorizeColumns(SketchBuilder& s, const Loop& columns, int64_t lanes) {
  if (columns.extent == 1) return Name();
  if (columns.extent <= lanes) {
    TRY(s.Do(Vectorize{.loop = columns.var}));
    return Name();
  }
  auto [vectors, vector] = TRY(s.Split(columns.var, {kAuto, lanes}));
  TRY(s.Do(Vectorize{.loop = vector}));
  return vectors;
}

// Schedules a reduction inside a row. `local`: only reductions of the same row read the results.
Status PlaceSums(SketchBuilder& s, const BlockView& block, const Pass& pass, bool local) {
  const Name& outermost = pass.sums.front().var;
  if (pass.columns.empty()) {  // one result for each row: the sum over the last few lanes
    s.Place(TRY(s.Do(DecomposeReduction{.block = block.name, .loop = outermost})).front());
    return block.reduce_length <= kMostLanesLeft ? s.Unroll(pass.sums) : Status();
  }
  const int64_t lanes = LanesOf(block, s.target()), extent = pass.columns.back().extent;
  TRY(s.Order({pass.sums, pass.columns}));
  // Up to kRegisterColumns columns become one vectorized loop, which lowering cuts into whole vectors and a shorter
  // last one. This loop is not split here, since a split may add a guard, and sums under a guard cannot be in
  // registers.
  Name vector = extent > 1 ? pass.columns.back().var : Name(), unrolled;
  if (extent > kRegisterColumns) {
    auto [pieces, vectors, within] = TRY(s.Split(vector, {kAuto, kRowUnroll, lanes}));
    unrolled = vectors, vector = within;
  }
  const std::vector<Name> zero = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = outermost}));
  s.Place(zero.front());
  if (!vector.empty()) {
    for (const Name& loop : {zero.back(), vector}) TRY(s.Do(Vectorize{.loop = loop}));
  }
  if (!unrolled.empty()) TRY(s.Unroll({zero.end()[-2], unrolled}));
  if (block.reduce_length <= static_cast<double>(kMaxUnroll)) TRY(s.Unroll(pass.sums));
  // Register buffers can only be accessed in whole vectors. So accumulators in lanes can be in registers. The elements
  // of a row cannot, since the tails of loops read them one by one.
  if (local && Iterations(pass.columns) == extent &&
      CeilDiv(Iterations(pass.columns), lanes) + kSparedRegisters <= s.target().vector_registers)
    TRY(s.Do(SetScope{.buffer = block.writes, .scope = Scope::kRegister}));
  return {};
}

// Prefetches the next row in a pass that reads the current row again. The first pass over a row is bound by memory,
// while later passes find the row in a cache. `vectors` has the loop over vectors of each block, if there is one.
void AskForNextRow(SketchBuilder& s, const std::vector<BlockView>& blocks, const std::vector<Name>& vectors,
                   const Name& row) {
  std::set<Name> read, written;
  for (const BlockView& block : blocks) written.insert(block.writes);
  std::map<Name, Prefetch> again;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const Name& buffer : blocks[i].reads) {
      if (written.contains(buffer) || read.insert(buffer).second || vectors[i].empty()) continue;
      // The last pass is bound by memory itself, so an earlier pass is better.
      if (i + 1 == blocks.size() && again.contains(buffer)) continue;
      again[buffer] = {.block = blocks[i].name, .buffer = buffer, .loop = row, .at = vectors[i]};
    }
  }
  for (const auto& [buffer, prefetch] : again) s.AddPrefetches({prefetch});
}

// Returns the number of rows of a task. A task has at most kTaskElements elements, and each core has at least
// kTasksPerCore tasks. A task consists of whole iterations of an outer loop, since only then are its rows known to be
// independent of those of other tasks.
int64_t RowsOfTask(const std::vector<Loop>& outer, int64_t columns, const Target& target) {
  const int64_t most =
      std::min(kTaskElements / std::max<int64_t>(1, columns), Iterations(outer) / (kTasksPerCore * target.num_cores));
  int64_t rows = 1, inner = 1;
  for (size_t i = outer.size(); i-- > 0 && inner <= most; inner *= outer[i].extent)
    rows = std::max(rows, inner * Divisors(outer[i].extent, most / inner).back());
  return rows;
}

// Returns true if callers, or other blocks than reductions, read the block's results.
bool IsRead(const std::vector<BlockView>& blocks, const BlockView& block) {
  std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  return block.writes_output ||
         std::any_of(consumers.begin(), consumers.end(), [](const BlockView* c) { return !c->reduction; });
}

// Returns true if the results of the block can be in a register buffer: their readers read them in whole vectors or in
// equal parts of vectors, and not with a stride. A part of 3 lanes, for example, could begin in one vector and end in
// the next.
bool IsReadInVectors(const std::vector<BlockView>& blocks, const BlockView& block, size_t depth, int64_t lanes) {
  const std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  return std::all_of(consumers.begin(), consumers.end(), [&](const BlockView* consumer) {
    if (consumer->spatial.size() <= depth) return true;  // a sum over the row, which reads one element after the other
    const Loop& columns = consumer->spatial.back();
    bool side_by_side = true;
    ForEachOperand(*consumer, [&](const Load& load) {
      if (load.buffer->name != block.writes) return;
      side_by_side &= FlatIndex(*consumer, load.buffer, load.indices).Coefficient(columns.iter) == 1;
    });
    return side_by_side && (lanes % columns.extent == 0 || columns.extent % lanes == 0);
  });
}

// Returns the number of elements that the widest pass over a row computes or sums.
int64_t WidestPass(const std::vector<BlockView>& blocks, size_t depth) {
  int64_t widest = 1;
  for (const BlockView& block : blocks) {
    const int64_t columns = Iterations(ColumnLoops(block, depth)) * static_cast<int64_t>(block.reduce_length);
    widest = std::max(widest, columns);
  }
  return widest;
}

}  // namespace

size_t CommonLoops(const std::vector<BlockView>& blocks) {
  size_t depth = blocks[0].spatial.size();
  for (const BlockView& block : blocks) {
    depth = std::min(depth, block.spatial.size());
    for (size_t i = 0; i < depth; ++i) {
      if (block.spatial[i].extent != blocks[0].spatial[i].extent) depth = i;
    }
  }
  return depth;
}

bool IsOnce(const std::vector<BlockView>& placed, const std::vector<BlockView>& before, size_t depth) {
  return std::all_of(before.begin(), before.end(), [&](const BlockView& block) {
    const BlockView* now = FindBlock(placed, block.name);
    return now && Instances(*now) < 2 * Instances(block) + static_cast<int64_t>(depth);
  });
}

Result<Name> MakePass(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t i, const std::vector<Name>& loops,
                      size_t depth) {
  const BlockView& block = blocks[i];
  const Pass pass = PassOf(block, loops, depth);
  if (block.reduction) {
    const bool local = depth > 0 && i + 1 < blocks.size() && !IsRead(blocks, block) &&
                       IsReadInVectors(blocks, block, depth, LanesOf(block, s.target()));
    TRY(PlaceSums(s, block, pass, local));
    return Name();
  }
  if (pass.columns.empty()) return Name();
  return VectorizeColumns(s, pass.columns.back(), LanesOf(block, s.target()));
}

Status PlacePasses(SketchBuilder& s, const std::vector<BlockView>& blocks, size_t depth) {
  const BlockView& last = blocks.back();
  const std::vector<Loop> outer = RowLoops(last, depth);
  const int64_t rows = Iterations(outer), widest = WidestPass(blocks, depth);
  const int64_t each = RowsOfTask(outer, widest, s.target());
  Name row = TRY(s.FuseLoops(outer)), task = row;
  if (each > 1) {
    auto [tasks, rest] = TRY(s.Split(row, {kAuto, each}));
    task = tasks, row = rest;
  }
  std::vector<Name> vectors(blocks.size());
  auto place = [&](size_t i) -> Status {
    std::vector<Name> loops = Loops{blocks[i].spatial, blocks[i].reduce}.list;
    if (depth > 0 && i + 1 < blocks.size()) loops = TRY(s.Do(ComputeAt{.block = blocks[i].name, .loop = row}));
    vectors[i] = TRY(MakePass(s, blocks, i, loops, depth));
    return {};
  };
  for (size_t i = blocks.size() - 1; i-- > 0;) TRY(place(i));  // consumers first
  TRY(place(blocks.size() - 1));
  for (const BlockView& block : blocks) s.Place(block.name);
  if (depth > 0) AskForNextRow(s, blocks, vectors, row);
  // With streaming stores the last pass is bound by memory, but exponentials of the next row are not, so the two can
  // overlap. This does not help if rows are not whole cache lines, since the stores of partial lines are slower.
  const bool computes =
      std::any_of(blocks.begin(), blocks.end() - 1, [](const BlockView& block) { return block.transcendental; });
  const int64_t row_bytes = last.element_bytes * Iterations(ColumnLoops(last, depth));
  if (each > 1 && computes && row_bytes % s.target().cache_line == 0 && IsStreamed(rows * row_bytes, s.target()))
    TRY(s.Do(Annotate{.target = row, .key = kOverlap, .value = 1}));
  if (rows * widest >= kWorthForking && rows > 1) TRY(s.Parallel(task));

  StageModel model{.block = last.name, .element_bytes = last.element_bytes};
  for (size_t i = 0; i + 1 < blocks.size(); ++i) model.passes.push_back(blocks[i].name);
  s.AddPasses(std::move(model));
  s.Call("rows");
  return {};
}

namespace {

// Returns the number of parts into which each row is cut if there are too few rows for the cores. The parts of all rows
// give each core kPartsPerCore tasks, but a part has at least kTaskElements elements. Returns 1 unless the first block
// reads the input and reduces each row to a partial sum for each lane.
int64_t PartsOf(const SketchBuilder& s, const std::vector<BlockView>& blocks) {
  const BlockView& first = blocks[0];
  if (!first.reduction || first.spatial.empty() || first.reduce.empty() || !s.IsPartial(blocks, first) ||
      !ReadsAllOnce(first))
    return 1;
  const int64_t elements = Instances(first),
                rows = elements / first.spatial.back().extent / static_cast<int64_t>(first.reduce_length);
  for (size_t i = 1; i < blocks.size(); ++i) {
    if (2 * Instances(blocks[i]) > elements) return 1;  // several passes read the elements, so rows stay whole
  }
  const int64_t wanted = CeilDiv(kPartsPerCore * s.target().num_cores, rows);
  return std::max<int64_t>(1, std::min(wanted, elements / rows / kTaskElements));
}

// Returns the number of outer loops that are the rows of all blocks (CommonLoops). Returns 0 if no block has further
// loops, or if other rules suit the blocks better.
size_t RowDepth(const SketchBuilder& s, const std::vector<BlockView>& blocks) {
  const BlockView* least = nullptr;
  bool longer = false, once = true;
  const size_t depth = CommonLoops(blocks);
  for (const BlockView& block : blocks) {
    if (&block != &blocks.back() && block.writes_output) return 0;
    longer |= block.spatial.size() > depth;
    if (!block.reduction) continue;
    if (!least || block.spatial.size() < least->spatial.size()) least = &block;
    once = once && ReadsAllOnce(block);
  }
  if (!least || !longer || !blocks.back().writes_output || PartsOf(s, blocks) > 1) return 0;
  // If a row has several results, blocks that use elements several times are left to other rules.
  const bool several = least->spatial.size() > depth;
  const int64_t rows = Iterations(RowLoops(blocks[0], depth));
  return several && (!once || rows < kRowsPerCore * s.target().num_cores) ? 0 : depth;
}

std::vector<BlockView> BlocksLeft(const SketchBuilder& s) {
  std::vector<BlockView> blocks = s.Blocks();
  std::erase_if(blocks, [&](const BlockView& block) { return s.IsPlaced(block.name); });
  return blocks;
}

// Returns the first block and those of the others that follow from it alone: a kernel may have several reductions.
std::vector<BlockView> OnlyFirstChain(std::vector<BlockView> blocks) {
  std::set<Name> others;  // what other blocks write
  for (const BlockView& block : blocks) others.insert(block.writes);
  std::set<Name> made;
  std::erase_if(blocks, [&](const BlockView& block) {
    const auto is_made = [&](const Name& buffer) { return made.contains(buffer); };
    const auto is_other = [&](const Name& buffer) { return others.contains(buffer) && !made.contains(buffer); };
    const bool follows =
        made.empty() || (std::ranges::any_of(block.reads, is_made) && std::ranges::none_of(block.reads, is_other));
    if (follows) made.insert(block.writes);
    return !follows;
  });
  return blocks;
}

// Returns true if the blocks are the passes of one reduction, and the first of them, which sums in lanes, does most of
// the work.
bool IsLanes(const SketchBuilder& s, const std::vector<BlockView>& blocks) {
  const BlockView& first = blocks[0];
  if (!first.reduction || first.spatial.empty() || first.spatial.back().extent > kRegisterColumns ||
      !s.IsPartial(blocks, first) || !ReadsAllOnce(first))
    return false;
  return std::all_of(blocks.begin() + 1, blocks.end(), [&](const BlockView& block) {
    return 2 * Instances(block) <= Instances(first) && block.spatial.size() <= first.spatial.size();
  });
}

// Returns a divisor of the extent near `wanted` and at least `cores`; `wanted` if there is none. Parts of unequal size
// would need a guard in all lanes, whose masks need registers.
int64_t PartsWithoutRest(int64_t extent, int64_t wanted, int64_t cores) {
  const std::vector<int64_t> more = Divisors(extent, 2 * wanted, wanted), fewer = Divisors(extent, wanted, cores);
  if (!more.empty()) return more.front();
  return std::min(fewer.empty() ? wanted : fewer.back(), extent);
}

// Cuts the block's sums into parts and places them. `registers`: the lanes of a part are summed in registers.
Status PlaceParts(SketchBuilder& s, const BlockView& block, int64_t parts, bool registers) {
  auto longest = std::max_element(block.reduce.begin(), block.reduce.end(),
                                  [](const Loop& a, const Loop& b) { return a.extent < b.extent; });
  parts = PartsWithoutRest(longest->extent, parts, s.target().num_cores);
  const Name partial = TRY(s.CutReduction(block, *longest, parts));
  const std::vector<Name> copied = TRY(s.Do(CacheWrite{.block = partial, .scope = Scope::kGlobal}));
  const Name copy = copied[1];

  const std::vector<BlockView> blocks = s.Blocks();
  const BlockView& view = *FindBlock(blocks, partial);
  const size_t depth = view.spatial.size() - 1;
  const std::vector<Loop> rows = RowLoops(view, depth), lanes = ColumnLoops(view, depth);
  TRY(s.Order({rows, view.reduce, lanes}));
  const Name task = TRY(s.Parallel(rows));
  const Name lane = TRY(s.Do(ReverseComputeAt{.block = copy, .loop = task})).back();
  TRY(s.Do(Vectorize{.loop = lane}));
  TRY(PlaceSums(s, view, {lanes, view.reduce}, registers && depth > 0));
  s.Place(partial);
  s.Place(copy);
  s.AddPasses({.block = partial, .element_bytes = block.element_bytes});
  s.Call(block.name.str() + (registers ? ":parts" : ":parts in memory"));
  return {};
}

}  // namespace

// Places several passes over independent rows: softmax, layer normalization, sums of rows. One parallel loop runs over
// the rows. It contains all blocks, one after the other, each vectorized. So each row is read from memory once and
// written once, and intermediate results stay in the cache or in registers.
Status RowsRule(SketchBuilder& s, const BlockView& block, int) {
  const std::vector<BlockView> blocks = s.Blocks();
  if (s.Placed() > 0 || block.name != blocks.front().name) return Err("the rule for rows takes all blocks or none");
  for (size_t depth = RowDepth(s, blocks); depth > 0; --depth) {
    // The rule does not apply if a block cannot move into the loop over rows, or would be computed again for each row.
    if (s.TryAll([&](SketchBuilder& to) -> Status {
          TRY(PlacePasses(to, blocks, depth));
          return IsOnce(to.Blocks(), blocks, depth) ? Status() : Err("a block is computed again for each row");
        }))
      return {};
  }
  return Err("the blocks have no rows in common");
}

// Places the blocks of a reduction along rows that other rules have not placed, because there are few rows. The sums of
// few rows are cut into parts, so that all cores compute; combining the parts costs little.
//
//   parallel over (parts, rows)
//     registers = 0
//     reduction loops: lanes in vectors: registers += x
//     partial results = registers
//   the other blocks, row by row
//
// The second way keeps the sums in the L1 cache. It helps if a row is not a whole number of vectors: the masks for its
// end may leave too few registers for the sums.
Status LanesRule(SketchBuilder& s, const BlockView& block, int way) {
  std::vector<BlockView> blocks = OnlyFirstChain(BlocksLeft(s));
  if (block.name != blocks.front().name || !IsLanes(s, blocks)) return Err("the block is not a reduction in lanes");
  if (const int64_t parts = PartsOf(s, blocks); parts > 1) {
    TRY(PlaceParts(s, blocks[0], parts, way == 0));
    blocks = OnlyFirstChain(BlocksLeft(s));
  } else if (way > 0) {
    return Err("sums of whole rows are in registers");
  }
  for (size_t depth = CommonLoops(blocks) + 1; depth-- > 0;) {
    if (s.TryAll([&](SketchBuilder& to) { return PlacePasses(to, blocks, depth); })) return {};
  }
  return Err("the passes cannot be placed one after the other");
}

}  // namespace autotune
