#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "arith/analyzer.h"
#include "ir/byte_table.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "target/streaming.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

// Most iterations of a loop that is unrolled because it fills no vector [chosen; measured with the 4 channels of a
// padded photo only].
constexpr int64_t kMostShort = 8;
// Number of outermost loops of a reduction inside which its operand may be computed.
constexpr int64_t kDeepestProducer = 2;
// Candidates for the unrolled vectors of an iteration, and for the prefetch distance of a transpose in tiles, without
// and with streaming stores. With streaming stores, tiles follow rows, and a tile further ahead is often beyond the end
// of the row.
const std::vector<int64_t> kUnrolledVectors = {1, 2, 4}, kTilesAhead = {0, 1, 4}, kStreamedTilesAhead = {0, 1};

// Returns true if iterators i and i + 1 of the block are neighbouring subscripts in every buffer that it reads or
// writes. A loop over both then walks each of these buffers like a loop over a single dimension.
bool SideBySide(const BlockView& view, size_t i) {
  const Block& block = *view.node.As<Block>();
  const Iter &row = block.iters[i], &column = block.iters[i + 1];
  const int64_t* width = AsInt(column.extent);
  bool all = width != nullptr;
  if (!all) return false;
  ForEachAccess(block.body, [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    if (LookedUpByte(buffer, indices)) return;
    size_t used = 0, beside = 0;
    for (size_t d = 0; d < indices.size(); ++d) {
      used += UsesVar(indices[d], row.var) || UsesVar(indices[d], column.var);
      beside += d > 0 && IsVar(indices[d], column.var) && ConstShape(buffer)[d] == *width &&
                ToLinear(indices[d - 1]).Coefficient(row.var) == 1;
    }
    all = all && (used == 0 || (used == 2 && beside == 1));
  });
  return all;
}

// Returns true if the block copies elements (or a constant where there is no element), and its last two iterators are
// neighbouring subscripts both in the buffer that it reads and in the one that it writes.
bool CopiesRows(const BlockView& view) {
  const Block& block = *view.node.As<Block>();
  const size_t rank = block.iters.size();
  if (!block.body.As<Store>() || rank < 2 || view.spatial.size() != rank || view.flops > 0) return false;
  int accesses = 0;
  bool contiguous = true;
  ForEachAccess(block.body, [&](const Buffer& buffer, const std::vector<Expr>& indices) {
    if (LookedUpByte(buffer, indices)) return;
    ++accesses;
    contiguous = contiguous && !indices.empty() && IsVar(indices.back(), block.iters.back().var);
  });
  return accesses == 2 && contiguous && SideBySide(view, rank - 2);
}

// Returns the index of the loop along which an operand is contiguous, if this is not the last loop, along which the
// result is contiguous. Otherwise returns -1.
int CrossLoop(const BlockView& view) {
  const Block& block = *view.node.As<Block>();
  if (view.spatial.empty() || view.spatial.size() != block.iters.size()) return -1;
  const Store* store = block.body.As<Store>();
  const Name& inner = block.iters.back().var;
  if (!store || store->indices.empty() || !IsVar(store->indices.back(), inner)) return -1;
  int across = -1;
  ForEachOperand(view, [&](const Load& load) {
    const Var* contiguous = load.indices.empty() ? nullptr : load.indices.back().As<Var>();
    const bool reads_inner =
        std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return UsesVar(i, inner); });
    if (!contiguous || contiguous->name == inner || !reads_inner) return;
    for (size_t i = 0; i + 1 < block.iters.size(); ++i) {
      if (block.iters[i].var == contiguous->name) across = static_cast<int>(i);
    }
  });
  return across;
}

bool WritesAroundCaches(const SketchBuilder& s, const BlockView& block) {
  const Store* store = block.node.As<Block>()->body.As<Store>();
  return store && block.writes_output && IsStreamed(block.element_bytes * Iterations(block.spatial), s.target());
}

// Returns the distance in bytes between the elements that the block reads in two successive iterations of `iter`.
int64_t ReadStride(const Load& load, const Name& iter) {
  int64_t stride = load.buffer->dtype.Bytes(), bytes = 0;
  for (size_t d = load.indices.size(); d-- > 0; stride *= ConstShape(load.buffer)[d])
    bytes += stride * ToLinear(load.indices[d]).Coefficient(iter);
  return bytes;
}

// Returns the operand whose rows lie a multiple of a page apart, if it is the only one. All lines of a tile of such an
// operand map to the same set of the first-level cache and evict each other, so every element would fetch its line
// again.
Name ConflictingOperand(const BlockView& view, int64_t page_bytes) {
  const Name& last = view.node.As<Block>()->iters.back().var;
  int loads = 0;
  Name found;
  ForEachOperand(view, [&](const Load& load) {
    if (LookedUpByte(load)) return;
    const int64_t bytes = ReadStride(load, last);
    ++loads;
    if (bytes != 0 && bytes % page_bytes == 0) found = load.buffer->name;
  });
  return loads == 1 ? found : Name();
}

// Orders the loops of a copy by the layout of the buffer that it reads, so that hardware prefetchers can follow. This
// is best with streaming stores, since they do not wait for memory. The last loop keeps its place.
Status FollowReads(SketchBuilder& s, const BlockView& view, std::vector<Loop>& loops) {
  const Block& block = *view.node.As<Block>();
  const Load* load = block.body.As<Store>()->value.As<Load>();
  if (!load || view.spatial.size() != block.iters.size() || loops.size() != block.iters.size()) return {};
  std::vector<size_t> order(loops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end() - 1, [&](size_t a, size_t b) {
    return std::abs(ReadStride(*load, block.iters[a].var)) > std::abs(ReadStride(*load, block.iters[b].var));
  });
  if (std::is_sorted(order.begin(), order.end())) return {};
  std::vector<Loop> ordered;
  for (size_t i : order) ordered.push_back(loops[i]);
  loops = std::move(ordered);
  return s.Order(loops);
}

// Schedules a transpose tile by tile, so that all elements of each cache line are used while the line is in the cache.
class TransposeTiler {
 public:
  TransposeTiler(SketchBuilder& s, const BlockView& block, std::vector<Loop> loops, int across)
      : s_(s),
        block_(block),
        loops_(std::move(loops)),
        across_(static_cast<size_t>(across)),
        edge_(s.target().cache_line / block.lane_bytes),
        lanes_(std::min(LanesOf(block, s.target()), edge_)),
        streamed_(WritesAroundCaches(s, block)) {}

  // Returns true if the block has whole tiles, whose edges are a cache line in both directions.
  bool Fits() const { return loops_.back().extent >= edge_ && loops_[across_].extent >= edge_; }

  // Places the block. `fuse`: first fuses dimensions that are neighbours in all buffers.
  Status Run(bool fuse, StageModel model) {
    // Copies the tiles of a conflicting operand first, since the cache does not hold such a tile and each of its lines
    // is read several times. Not needed if tiles are whole and a vector is a cache line: such tiles are transposed in
    // registers. The copy rules out fused dimensions: the bounds of their tiles are not known exactly.
    const bool whole = loops_[across_].extent % edge_ == 0 && loops_.back().extent % edge_ == 0 && !HasSelect(block_);
    Name copy;
    if (const Name conflicting = ConflictingOperand(block_, s_.machine().page_bytes);
        !conflicting.empty() && !(lanes_ == edge_ && whole)) {
      copy = TRY(s_.Do(CacheRead{.block = block_.name, .buffer = conflicting})).front();
      fuse = false;
    }
    if (fuse) TRY(FuseNeighbours());
    auto [row_tile, row] = TRY(s_.Split(loops_[across_].var, {kAuto, edge_}));
    auto [column_tile, column] = TRY(s_.Split(loops_.back().var, {kAuto, edge_}));
    const Name along = TRY(OrderTiles(row_tile, column_tile, {row, column}, model));
    if (!copy.empty()) {
      const Name copied = TRY(s_.Do(ComputeAt{.block = copy, .loop = along})).back();
      TRY(Vectors(copied));
      s_.Place(copy);
    }
    TRY(Vectors(column));
    TRY(s_.Unroll(row));
    model.rows_ahead_knob = TRY(AskAhead(along, row)).knob;
    s_.Place(block_.name);
    s_.AddPasses(std::move(model));
    return {};
  }

 private:
  // Fuses neighbouring dimensions, from the last loop outwards, so that the positions of outer loops do not change.
  Status FuseNeighbours() {
    for (size_t i = loops_.size() - 1; i-- > 0;) {
      const bool to_last = i + 2 == loops_.size() && i != across_;
      if (!(to_last || i + 1 == across_) || !SideBySide(block_, i)) continue;
      const Loop &row = loops_[i], &column = loops_[i + 1];
      const Name fused = TRY(s_.FuseLoops({row.var, column.var}));
      loops_[i] = {fused, row.extent * column.extent};
      loops_.erase(loops_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (across_ > i) --across_;
    }
    return {};
  }

  // Orders the tiles along the longer of the two loops. With streaming stores, orders them along the rows of the
  // operand instead, so that hardware prefetchers can follow. The other loops become parallel. If they have too few
  // iterations, pieces of the first loop become parallel, too. Returns the loop along which tiles follow one another.
  Result<Name> OrderTiles(const Name& row_tile, const Name& column_tile, const Loops& tile, StageModel& model) {
    Loop along{column_tile, CeilDiv(loops_.back().extent, edge_)};
    Loop other{row_tile, CeilDiv(loops_[across_].extent, edge_)};
    if (streamed_ || loops_[across_].extent > loops_.back().extent) std::swap(along, other);
    std::vector<Loop> outer;
    for (size_t i = 0; i + 1 < loops_.size(); ++i) {
      if (i != across_) outer.push_back(loops_[i]);
    }
    outer.push_back(other);
    const bool parallel = model.m >= kWorthForking;
    int64_t pieces = 1;
    while (parallel && pieces < along.extent &&
           (along.extent % pieces || Iterations(outer) * pieces < kTasksPerCore * s_.target().num_cores))
      ++pieces;
    if (pieces > 1) {
      auto [piece, rest] = TRY(s_.Split(along.var, {pieces, kAuto}));
      outer.push_back({piece, pieces});
      along.var = rest;
    }
    TRY(s_.Order({outer, along.var, tile}));
    if (parallel) TRY(s_.Parallel(outer));
    return along.var;
  }

  Status Vectors(const Name& loop) {
    auto [vectors, vector] = TRY(s_.Split(loop, {kAuto, lanes_}));
    TRY(s_.Do(Vectorize{.loop = vector}));
    return s_.Unroll(vectors);
  }

  // Prefetches, inside loop `at`, the operands' lines of a later tile along `along`: each store misses otherwise, and
  // the misses do not overlap. Streaming stores bypass the caches, so their buffer is not prefetched; in that case
  // tiles follow rows, and a tile further on may lie beyond the end of the row.
  Result<Choice> AskAhead(const Name& along, const Name& at) {
    std::set<Name> buffers = block_.reads;
    if (!streamed_) buffers.insert(block_.writes);
    std::vector<Prefetch> wanted;
    for (const Name& buffer : buffers)
      wanted.push_back({.block = block_.name, .buffer = buffer, .loop = along, .at = at});
    return s_.ChoosePrefetches(block_.name.str() + "_tile_ahead", wanted,
                               streamed_ ? kStreamedTilesAhead : kTilesAhead);
  }

  SketchBuilder& s_;
  const BlockView& block_;
  std::vector<Loop> loops_;
  size_t across_;               // index of the loop along which an operand is contiguous; not the last one
  const int64_t edge_, lanes_;  // elements of a cache line; of a vector
  const bool streamed_;
};

// Schedules a transpose whose rows are shorter than a vector, such as one of an image from NCHW to NHWC. Vectors run
// along the operand's rows, loop `across`, so that loads and arithmetic are vectors; each lane is stored alone. `fuse`:
// first fuses `across` with the loop around it if both are neighbours in all buffers, so that tails are rare.
Status NarrowTranspose(SketchBuilder& s, const BlockView& block, std::vector<Loop> loops, size_t across, bool fuse,
                       StageModel model) {
  if (fuse && across > 0 && SideBySide(block, across - 1)) {
    Loop& row = loops[across - 1];
    row.var = TRY(s.FuseLoops({row.var, loops[across].var}));
    row.extent *= loops[across].extent;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(across--));
  }
  const int64_t lanes = LanesOf(block, s.target());
  auto [vectors, vector] = TRY(s.Split(loops[across].var, {kAuto, lanes}));
  const Name column = loops.back().var;
  std::vector<Loop> outer(loops.begin(), loops.end() - 1);
  outer[across] = {vectors, CeilDiv(loops[across].extent, lanes)};
  TRY(s.Order({outer, column, vector}));
  TRY(s.Do(Vectorize{.loop = vector}));
  TRY(s.Unroll(column));
  if (model.m >= kWorthForking) {
    TRY(s.Parallel(outer));
    model.outer = Iterations(outer);
  }
  s.Place(block.name);
  s.AddPasses(std::move(model));
  return {};
}

StageModel StreamingModel(const BlockView& block) {
  StageModel model;
  model.block = block.name;
  if (block.spatial.size() >= 3) {  // an image: rows, pixels of a row, channels
    model.rows = block.spatial.end()[-3].extent;
    model.columns = block.spatial.end()[-2].extent;
  }
  model.m = Iterations(block.spatial);
  model.element_bytes = block.element_bytes;
  return model;
}

// Returns how many of `lanes` a loop uses. Vectors of small elements have many lanes, of which a short loop would waste
// most in its last vector. So it takes shorter vectors that divide it, but at least `floats` lanes, as many as f32 has.
int64_t WholeLanes(int64_t extent, int64_t lanes, int64_t floats) {
  while (lanes > floats && extent % lanes != 0) lanes /= 2;
  return lanes;
}

// Lets the search move a block into the loops of the reduction that alone reads its result, if this reduction is
// already placed. Returns the current loops of the block.
Result<std::vector<Loop>> MoveToReduction(SketchBuilder& s, const BlockView& block, StageModel& model) {
  const std::vector<BlockView> blocks = s.Blocks();
  std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  std::vector<Loop> loops = block.spatial;
  if (block.writes_output || consumers.size() != 1 || !consumers[0]->reduction || !s.IsPlaced(consumers[0]->name))
    return loops;
  std::vector<int64_t> depths = {-1};
  for (int64_t d = 0; d < std::min(kDeepestProducer, std::ssize(consumers[0]->spatial)); ++d) depths.push_back(d);
  Choice at = TRY(s.ChooseLocation(block.name, depths));
  std::vector<Name> made = TRY(s.Do(ComputeAt{.block = block.name, .loop = at.name}));
  loops.resize(made.size());
  for (size_t i = 0; i < made.size(); ++i) loops[i].var = made[i];
  model.location_knob = at.knob;
  for (size_t i = 0; i < s.stages().size(); ++i) {
    if (s.stages()[i].kind == StageModel::kTiled) model.consumer = static_cast<int>(i);
  }
  return loops;
}

}  // namespace

// Places blocks without data reuse. The outer loops are fused and parallel; the last loop is vectorized. Transposes go
// tile by tile, or vector by vector of the operand if rows of the result are shorter than a vector. The operand of a
// tiled reduction (a padded copy of its input) may also be computed inside the loops of the reduction.
Status StreamingRule(SketchBuilder& s, const BlockView& block, int) {
  if (block.reduction) return Err("the block is a reduction");
  int64_t lanes = LanesOf(block, s.target());
  // A block that is already in another stage's parallel loop, such as the zeros of its sums, belongs to that stage.
  const bool of_other_stage = s.IsInTask(block.name);
  StageModel model = StreamingModel(block);
  std::vector<Loop> loops = TRY(MoveToReduction(s, block, model));
  if (const int across = CrossLoop(block); model.location_knob < 0 && across >= 0) {
    auto tile = [&](SketchBuilder& to, bool fuse) {
      TransposeTiler tiler(to, block, loops, across);
      return tiler.Run(fuse, model);
    };
    // If tiles of fused dimensions cannot be proved independent, the dimensions stay separate.
    if (TransposeTiler(s, block, loops, across).Fits())
      return s.TryAll([&](SketchBuilder& to) { return tile(to, true); }) ? Status() : tile(s, false);
    if (block.spatial.back().extent < lanes && block.spatial[static_cast<size_t>(across)].extent >= lanes) {
      auto narrow = [&](SketchBuilder& to, bool fuse) {
        return NarrowTranspose(to, block, loops, static_cast<size_t>(across), fuse, model);
      };
      return s.TryAll([&](SketchBuilder& to) { return narrow(to, true); }) ? Status() : narrow(s, false);
    }
  }
  // If a pixel has fewer elements than a vector, fuses the loop over its elements with the loop over the pixels of a
  // row, whose elements are contiguous.
  if (loops.size() > 1 && loops.back().extent < lanes && CopiesRows(block)) {
    const Loop pixel = loops.back();
    loops.pop_back();
    loops.back().var = TRY(s.Do(Fuse{.loops = {loops.back().var, pixel.var}})).front();
    loops.back().extent *= pixel.extent;
  }
  if (!loops.empty()) lanes = WholeLanes(loops.back().extent, lanes, s.target().VectorLanes(32));
  const bool vectors = !loops.empty() && loops.back().extent >= lanes;
  const bool is_short = !loops.empty() && !vectors && loops.back().extent > 1 && loops.back().extent <= kMostShort;
  if (is_short) TRY(s.Unroll(loops.back().var));
  if (vectors) {
    std::vector<int64_t> unrolls = kUnrolledVectors;
    std::erase_if(unrolls, [&](int64_t u) { return u > 1 && u * lanes > loops.back().extent; });
    Choice u = TRY(s.Choose(block.name.str() + "_u", unrolls));
    auto [outer, unrolled, vector] = TRY(s.Split(loops.back().var, {kAuto, u, lanes}));
    loops.back().var = outer;
    model.k_knob = u.knob;
    TRY(s.Do(Vectorize{.loop = vector}));
    TRY(s.Unroll(unrolled));
    if (WritesAroundCaches(s, block)) TRY(FollowReads(s, block, loops));
  }
  // Make the fewest outer loops parallel that give every core several tasks. Inside the parallel loop of a reduction
  // all loops stay serial.
  if (model.m >= kWorthForking && !loops.empty()) {
    std::vector<Loop> outer;
    const size_t usable = loops.size() - (vectors && loops.size() > 1 ? 1 : 0);
    for (size_t i = 0; i < usable && Iterations(outer) < kTasksPerCore * s.target().num_cores; ++i)
      outer.push_back(loops[i]);
    TRY(s.Parallel(outer));
    model.outer = Iterations(outer);
    if (usable == loops.size() && vectors && !outer.empty()) {
      model.outer = 1, model.n = loops.back().extent, model.lanes = lanes;
      model.shares_vectors = true;
    }
  }
  s.Place(block.name);
  if (!of_other_stage) s.AddPasses(std::move(model));
  return {};
}

}  // namespace autotune
