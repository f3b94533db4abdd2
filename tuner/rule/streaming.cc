#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "target/streaming.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kTile = 16;  // of a transpose, both ways: a line of memory of 32-bit elements

// Blocks without data reuse: outer loops fused and run in parallel; the last one in vectors. The
// producer of a tiled reduction (a padded copy of its input) may also be computed inside the reduction's loops.
class Streaming : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (block.reduction || state.done.count(block.name)) continue;
      SketchState next = TRY_NOTE(Place(state, block, blocks, target), "while placing block " + block.name.str());
      return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  static Result<SketchState> Place(const SketchState& from, const BlockView& block,
                                   const std::vector<BlockView>& blocks, const Target& target) {
    SketchState s = from;
    const int64_t lanes = target.VectorLanes(32);
    StageModel model;
    model.flops = std::max(1.0, block.flops);
    if (const size_t loops = block.spatial.size(); loops >= 3) {
      model.rows = block.spatial[loops - 3].extent;
      model.image_row = block.spatial[loops - 2].extent;
    }
    std::vector<Name> loops;
    int64_t total = 1;
    for (const BlockView::Loop& loop : block.spatial) {
      loops.push_back(loop.var);
      total *= loop.extent;
    }
    model.m = total;
    model.element_bytes = block.element_bytes;
    model.write_bytes = static_cast<double>(block.element_bytes * total);
    model.read_bytes = model.write_bytes * std::max(1.0, static_cast<double>(block.reads.size()));
    int64_t last = block.spatial.empty() ? 1 : block.spatial.back().extent;

    // A producer of exactly one tiled reduction may move into it.
    std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
    bool movable =
        !block.writes_output && consumers.size() == 1 && consumers[0]->reduction && from.done.count(consumers[0]->name);
    if (movable) {
      const BlockView& reduction = *consumers[0];
      std::vector<int64_t> depths = {-1};
      for (int64_t d = 0; d < std::min<int64_t>(2, static_cast<int64_t>(reduction.spatial.size())); ++d)
        depths.push_back(d);
      Name at = TRY(s.Sample(SampleComputeLocation{.block = block.name}, 0, depths, model.location_knob));
      loops = TRY(s.Do(ComputeAt{.block = block.name, .loop = at}));
      for (size_t i = 0; i < s.stages.size(); ++i) {
        if (s.stages[i].kind == StageModel::kTiled) model.consumer = static_cast<int>(i);
      }
    }

    // A transpose goes tile by tile, so that of every line of memory that it touches all elements are used at once.
    int across = movable ? -1 : CrossLoop(block);
    if (across >= 0 && last >= kTile && block.spatial[across].extent >= kTile) {
      // Where no proof is known that tiles of fused dimensions are independent, dimensions stay apart.
      Result<SketchState> fused = PlaceTiles(s, block, loops, across, model, target, true);
      return fused.ok() ? std::move(fused) : PlaceTiles(std::move(s), block, loops, across, model, target, false);
    }

    // Pixels of less than a vector: with the next loop, along which they lie side by side.
    if (last < lanes && loops.size() > 1 && CopiesRows(block)) {
      last *= block.spatial[block.spatial.size() - 2].extent;
      Name fused = TRY(s.Do(Fuse{.loops = {loops[loops.size() - 2], loops.back()}}))[0];
      loops.pop_back();
      loops.back() = fused;
    }

    Name vector_loop;
    if (!loops.empty() && last >= lanes) {
      std::vector<int64_t> unrolls = {1, 2, 4};
      std::erase_if(unrolls, [&](int64_t u) { return u > 1 && u * lanes > last; });
      Name u = TRY(s.Sample(SampleCategorical{.candidates = unrolls, .results = {Name(block.name.str() + "_u")}}, last,
                            unrolls, model.k_knob));
      std::vector<Name> made = TRY(s.Do(Split{.loop = loops.back(), .factors = {Factors::kAuto, u, lanes}}));
      loops.back() = made[0];
      vector_loop = made[2];
      TRY(s.Do(Vectorize{.loop = vector_loop}));
      TRY(s.Do(Unroll{.loop = made[1]}));
    }
    std::vector<int64_t> extents;
    for (size_t i = 0; i < loops.size(); ++i) extents.push_back(block.spatial[i].extent);
    if (!vector_loop.empty() && WritesAroundCaches(block, total, target)) TRY(FollowReads(s, block, loops, extents));
    // The fewest outer loops that give every core several tasks are shared out; inside a reduction's parallel loop they
    // stay serial.
    if (total >= kWorthForking && !loops.empty()) {
      std::vector<Name> outer;
      int64_t tasks = 1;
      size_t usable = std::max<size_t>(1, loops.size() - (vector_loop.empty() || loops.size() == 1 ? 0 : 1));
      for (size_t i = 0; i < usable && tasks < kTasksPerCore * target.num_cores; ++i) {
        outer.push_back(loops[i]);
        tasks *= extents[i];
      }
      Name fused = outer[0];
      if (outer.size() > 1) fused = TRY(s.Do(Fuse{.loops = outer}))[0];
      TRY(s.Do(Parallel{.loop = fused}));
      model.outer = tasks;
      model.m = std::max<int64_t>(1, total / tasks);
    }
    s.done.insert(block.name);
    s.stages.push_back(model);
    return s;
  }

  // Whether iterators i and i + 1 of the block are subscripts of neighbours in what it reads as in what it writes: a
  // loop over both walks each of these buffers as one over a single dimension would.
  static bool SideBySide(const BlockView& view, size_t i) {
    const Block& block = *view.node.As<Block>();
    const Iter &row = block.iters[i], &column = block.iters[i + 1];
    const int64_t* width = AsInt(column.extent);
    bool all = width != nullptr;
    auto check = [&](const Buffer& buffer, const std::vector<Expr>& indices) {
      size_t used = 0, beside = 0;
      for (size_t d = 0; d < indices.size(); ++d) {
        used += UsesVar(indices[d], [&](const Name& v) { return v == row.var || v == column.var; });
        beside += d > 0 && IsVar(indices[d], column.var) && ConstShape(buffer)[d] == *width &&
                  ToLinear(indices[d - 1]).Coefficient(row.var) == 1;
      }
      all = all && (used == 0 || (used == 2 && beside == 1));
    };
    if (!all) return false;
    ForEachAccess(block, check);
    return all;
  }

  static void ForEachAccess(const Block& block,
                            const std::function<void(const Buffer&, const std::vector<Expr>&)>& access) {
    auto loads = [&](const Expr& e) {
      if (const Load* load = e.As<Load>()) access(load->buffer, load->indices);
      return true;
    };
    Walk(
        block.body,
        [&](const Stmt& s) {
          if (const Store* store = s.As<Store>()) access(store->buffer, store->indices);
          return true;
        },
        loads);
  }

  // Whether the block copies elements (or a value where there is none), its two last iterators being subscripts of
  // neighbours in what it reads as in what it writes.
  static bool CopiesRows(const BlockView& view) {
    const Block& block = *view.node.As<Block>();
    size_t rank = block.iters.size();
    if (!block.body.As<Store>() || rank < 2 || view.spatial.size() != rank || view.flops > 0) return false;
    int accesses = 0;
    bool contiguous = true;
    ForEachAccess(block, [&](const Buffer&, const std::vector<Expr>& indices) {
      ++accesses;
      contiguous = contiguous && !indices.empty() && IsVar(indices.back(), block.iters.back().var);
    });
    return accesses == 2 && contiguous && SideBySide(view, rank - 2);
  }

  // The loop along which an operand is contiguous, if that is not the last one, along which the result is; else -1.
  static int CrossLoop(const BlockView& view) {
    const Block& block = *view.node.As<Block>();
    if (view.spatial.empty() || view.spatial.size() != block.iters.size()) return -1;
    const Store* store = block.body.As<Store>();
    const Var* inner = store && !store->indices.empty() ? store->indices.back().As<Var>() : nullptr;
    if (!inner || inner->name != block.iters.back().var) return -1;
    int across = -1;
    Walk(store->value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load || load->indices.empty()) return true;
      const Var* contiguous = load->indices.back().As<Var>();
      bool reads_inner = false;
      for (const Expr& index : load->indices) {
        reads_inner |= UsesVar(index, [&](const Name& v) { return v == inner->name; });
      }
      if (!contiguous || contiguous->name == inner->name || !reads_inner) return true;
      for (size_t i = 0; i + 1 < block.iters.size(); ++i) {
        if (block.iters[i].var == contiguous->name) across = static_cast<int>(i);
      }
      return true;
    });
    return across;
  }

  // Tiles follow one another along the longer one of the two loops, in both operands' streams of kTile lines at most,
  // and what they touch is asked for ahead: stores to so many places are waited for one by one otherwise. Results that
  // are written around the caches wait for nothing; then tiles follow the rows of what is read, as prefetchers do.
  static Result<SketchState> PlaceTiles(SketchState s, const BlockView& block, std::vector<Name> loops, size_t across,
                                        StageModel model, const Target& target, bool fuse) {
    // A tile that a cache does not hold is copied first, if its lines are read more than once: whole tiles of vectors
    // of a whole line are transposed in registers. Bounds of tiles of fused dimensions are not known as tight ones.
    Name copy;
    const int64_t lanes = std::min(target.VectorLanes(32), static_cast<int>(kTile));
    const bool whole = block.spatial[across].extent % kTile == 0 && block.spatial.back().extent % kTile == 0 &&
                       !HasNode<Select>(block.node.As<Block>()->body.As<Store>()->value);
    if (const Name conflicting = ConflictingOperand(block); !conflicting.empty() && !(lanes == kTile && whole)) {
      copy = TRY(s.Do(CacheRead{.block = block.name, .buffer = conflicting}))[0];
      fuse = false;
    }
    std::vector<int64_t> extents;
    for (const BlockView::Loop& loop : block.spatial) extents.push_back(loop.extent);
    // Neighbours in both operands are one dimension. From the last loop on: loops before stay where they are.
    for (size_t i = extents.size() - 1; fuse && i-- > 0;) {
      bool to_last = i + 2 == extents.size() && i != across;
      if (!(to_last || i + 1 == across) || !SideBySide(block, i)) continue;
      loops[i] = TRY(s.Do(Fuse{.loops = {loops[i], loops[i + 1]}}))[0];
      extents[i] *= extents[i + 1];
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (across > i) --across;
    }
    std::vector<Name> a = TRY(s.Do(Split{.loop = loops[across], .factors = {Factors::kAuto, kTile}})),
                      b = TRY(s.Do(Split{.loop = loops.back(), .factors = {Factors::kAuto, kTile}}));
    auto tiles = [&](int64_t extent) { return (extent + kTile - 1) / kTile; };
    int64_t along_tiles = tiles(extents.back()), tasks = tiles(extents[across]);
    Name along = b[0], other = a[0];
    const bool streamed = WritesAroundCaches(block, model.m, target);
    if (streamed || extents[across] > extents.back()) {
      std::swap(along, other);
      std::swap(along_tiles, tasks);
    }
    std::vector<Name> outer;
    for (size_t i = 0; i + 1 < loops.size(); ++i) {
      if (i == across) continue;
      outer.push_back(loops[i]);
      tasks *= extents[i];
    }
    outer.push_back(other);
    const bool parallel = model.m >= kWorthForking;
    int64_t pieces = 1;
    while (parallel && pieces < along_tiles &&
           (along_tiles % pieces || tasks * pieces < kTasksPerCore * target.num_cores))
      ++pieces;
    if (pieces > 1) {
      std::vector<Name> made = TRY(s.Do(Split{.loop = along, .factors = {pieces, Factors::kAuto}}));
      outer.push_back(made[0]);
      along = made[1];
      tasks *= pieces;
    }
    std::vector<Name> order = outer;
    for (const Name& loop : {along, a[1], b[1]}) order.push_back(loop);
    TRY(s.Do(Reorder{.loops = order}));
    if (parallel) {
      Name fused = outer[0];
      if (outer.size() > 1) fused = TRY(s.Do(Fuse{.loops = outer}))[0];
      TRY(s.Do(Parallel{.loop = fused}));
      model.m = std::max<int64_t>(1, model.m / tasks);
      model.outer = tasks;
    }
    if (!copy.empty()) {
      Name row = TRY(s.Do(ComputeAt{.block = copy, .loop = along})).back();
      std::vector<Name> vectors = TRY(s.Do(Split{.loop = row, .factors = {Factors::kAuto, lanes}}));
      TRY(s.Do(Vectorize{.loop = vectors[1]}));
      TRY(s.Do(Unroll{.loop = vectors[0]}));
      s.done.insert(copy);
    }
    std::vector<Name> made = TRY(s.Do(Split{.loop = b[1], .factors = {Factors::kAuto, lanes}}));
    TRY(s.Do(Vectorize{.loop = made[1]}));
    TRY(s.Do(Unroll{.loop = made[0]}));
    TRY(s.Do(Unroll{.loop = a[1]}));
    TRY(AskAhead(s, block, along, a[1], streamed, model.rows_ahead_knob));
    s.done.insert(block.name);
    s.stages.push_back(model);
    return s;
  }

  static bool WritesAroundCaches(const BlockView& block, int64_t elements, const Target& target) {
    const Store* store = block.node.As<Block>()->body.As<Store>();
    return store && block.writes_output && IsStreamed(store->buffer->dtype.Bytes() * elements, target);
  }

  // Bytes from an element that the block reads to the one that the next iteration of `iter` reads.
  static int64_t ReadStride(const Load& load, const Name& iter) {
    int64_t stride = load.buffer->dtype.Bytes(), bytes = 0;
    for (size_t d = load.indices.size(); d-- > 0; stride *= ConstShape(load.buffer)[d])
      bytes += stride * ToLinear(load.indices[d]).Coefficient(iter);
    return bytes;
  }

  // Stores around the caches wait for nothing: then the rows of a copy follow one another as they lie in what is read,
  // as prefetchers do. The last loop keeps its place.
  static Status FollowReads(SketchState& s, const BlockView& view, std::vector<Name>& loops,
                            std::vector<int64_t>& extents) {
    const Block& block = *view.node.As<Block>();
    const Load* load = block.body.As<Store>()->value.As<Load>();
    if (!load || view.spatial.size() != block.iters.size() || loops.size() != block.iters.size()) return {};
    std::vector<size_t> order(loops.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end() - 1, [&](size_t a, size_t b) {
      return std::abs(ReadStride(*load, block.iters[a].var)) > std::abs(ReadStride(*load, block.iters[b].var));
    });
    if (std::is_sorted(order.begin(), order.end())) return {};
    std::vector<Name> ordered;
    std::vector<int64_t> ordered_extents;
    for (size_t i : order) ordered.push_back(loops[i]), ordered_extents.push_back(extents[i]);
    loops = std::move(ordered), extents = std::move(ordered_extents);
    TRY(s.Do(Reorder{.loops = loops}));
    return {};
  }

  // The one operand, if its tiles' lines all fall into one set of a first-level cache, which holds fewer: rows that are
  // whole multiples of a page apart. Each line would be fetched again for each of its elements.
  static Name ConflictingOperand(const BlockView& view) {
    const Block& block = *view.node.As<Block>();
    const Name& last = block.iters.back().var;
    int loads = 0;
    Name found;
    Walk(block.body.As<Store>()->value, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      int64_t bytes = load ? ReadStride(*load, last) : 0;
      loads += load != nullptr;
      if (bytes != 0 && bytes % kPage == 0) found = load->buffer->name;
      return true;
    });
    return loads == 1 ? found : Name();
  }

  // In the iterations of `at`, the lines of a tile that comes later along `along`, of all that can be asked for. Of
  // results that go around the caches none is; then tiles follow rows, and a tile further on is beyond the row's end.
  static Status AskAhead(SketchState& s, const BlockView& block, const Name& along, const Name& at, bool streamed,
                         int& knob) {
    std::set<Name> buffers = block.reads;
    if (!streamed) buffers.insert(block.writes);
    std::vector<Prefetch> wanted;
    for (const Name& buffer : buffers)
      wanted.push_back({.block = block.name, .buffer = buffer, .loop = along, .at = at, .ahead = 1});
    const std::vector<int64_t> ahead = streamed ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0, 1, 4};
    return s.SampleAhead(wanted, block.name.str() + "_tile_ahead", ahead, knob);
  }
};

}  // namespace

const SketchRule& StreamingRule() {
  static const Streaming rule;
  return rule;
}

}  // namespace autotune
