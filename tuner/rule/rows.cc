#include <algorithm>
#include <map>
#include <set>

#include "ir/annotations.h"
#include "ir/visit.h"
#include "target/streaming.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kLine = 16;              // elements of a line of memory
constexpr int64_t kTaskElements = 8192;    // of a task, if there are enough: then handing it out costs next to nothing
constexpr int64_t kRowsPerCore = 4;        // enough to balance rows of several blocks; fewer are cut
constexpr int64_t kRegisterColumns = 256;  // columns of a row whose accumulators may be registers
constexpr int64_t kSparedRegisters = 4;    // vector registers that are no accumulators
constexpr int64_t kRowUnroll = 4;          // vectors of a wide row

int64_t InstancesOf(const BlockView& block) {
  int64_t count = 1;
  for (const auto* loops : {&block.spatial, &block.reduce}) {
    for (const BlockView::Loop& loop : *loops) count *= loop.extent;
  }
  return count;
}

// Whether a reduction reads every element once, through all its loads.
bool ReadsAllOnce(const BlockView& view) {
  bool once = true;
  int loads = 0;
  Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name == view.writes) return true;
    ++loads;
    once = once && ReadsOnce(view, FlatIndex(view, load->buffer, load->indices));
    return true;
  });
  return once && loads > 0;
}

// Several passes over rows: a loop over the rows with all blocks inside, each in vectors.
class RowPasses {
 public:
  // The outer loops that all blocks have in common and that their reductions leave alone.
  static int CommonLoops(const std::vector<BlockView>& blocks) {
    size_t depth = blocks[0].spatial.size();
    for (const BlockView& block : blocks) {
      depth = std::min(depth, block.spatial.size());
      for (size_t i = 0; i < depth; ++i) {
        if (block.spatial[i].extent != blocks[0].spatial[i].extent) depth = i;
      }
    }
    return static_cast<int>(depth);
  }

  static int64_t RowsOf(const BlockView& block, int depth) {
    int64_t rows = 1;
    for (int i = 0; i < depth; ++i) rows *= block.spatial[i].extent;
    return rows;
  }

  // Elements of a row.
  static int64_t ColumnsOf(const BlockView& block, int depth) {
    int64_t columns = 1;
    for (size_t i = depth; i < block.spatial.size(); ++i) columns *= block.spatial[i].extent;
    return columns;
  }

  // Places all `blocks` in one loop over the rows, their first `depth` loops; one after the other if that is 0.
  static Status Place(SketchState& s, const std::vector<BlockView>& blocks, int depth, const Target& target) {
    const BlockView& last = blocks.back();
    const int64_t rows = RowsOf(last, depth);
    int64_t widest = 1;
    std::vector<Name> outer;
    for (int i = 0; i < depth; ++i) outer.push_back(last.spatial[i].var);
    StageModel model;
    for (const BlockView& block : blocks) {
      int64_t columns = ColumnsOf(block, depth);
      columns = static_cast<int64_t>(static_cast<double>(columns) * block.reduce_length);
      widest = std::max(widest, columns);
      model.flops += std::max(1.0, block.flops) * static_cast<double>(columns);
    }

    Name row = outer.empty() ? Name() : outer[0];
    if (outer.size() > 1) row = TRY(s.Do(Fuse{.loops = outer}))[0];
    int64_t each = RowsOfTask(rows, widest, target);
    Name task = row;
    if (each > 1) {
      std::vector<Name> made = TRY(s.Do(Split{.loop = row, .factors = {Factors::kAuto, each}}));
      task = made[0];
      row = made[1];
    }
    std::vector<Name> passes(blocks.size());
    for (size_t i = blocks.size() - 1; i-- > 0;) {
      std::vector<Name> loops = LoopsOf(blocks[i]);
      if (depth > 0) loops = TRY(s.Do(ComputeAt{.block = blocks[i].name, .loop = row}));
      passes[i] = TRY(Vectors(s, blocks[i], loops, depth, IsRead(blocks, blocks[i]), target));
      s.done.insert(blocks[i].name);
    }
    passes.back() = TRY(Vectors(s, last, LoopsOf(last), depth, true, target));
    s.done.insert(last.name);
    if (depth > 0) AskForNextRow(s, blocks, passes, row);
    // Where results go around the caches, the last pass waits for memory, and exponentials do not. In halves of lines
    // it would wait longer than alone.
    const bool computes =
        std::any_of(blocks.begin(), blocks.end() - 1, [](const BlockView& block) { return block.transcendental; });
    const int64_t columns = ColumnsOf(last, depth);
    if (each > 1 && computes && columns % kLine == 0 && IsStreamed(4 * rows * columns, target))
      TRY(s.Do(Annotate{.target = row, .key = kOverlap, .value = 1}));
    if (rows * widest >= kWorthForking && rows > 1) TRY(s.Do(Parallel{.loop = task}));

    model.outer = rows / each;
    model.m = each;
    model.element_bytes = last.element_bytes;
    model.read_bytes = model.write_bytes = static_cast<double>(model.element_bytes * rows * widest);
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + "rows";
    return {};
  }

  // The block's loops inside a row. `loops`: those of its iterators, in order, the first `depth` being the row's.
  // `read`: by other blocks than reductions. Returns the loop over vectors that stays a loop, or no name.
  static Result<Name> Vectors(SketchState& s, const BlockView& block, const std::vector<Name>& loops, int depth,
                              bool read, const Target& target) {
    const int64_t lanes = target.VectorLanes(32);
    size_t spatial = block.spatial.size();
    std::vector<Name> columns(loops.begin() + depth, loops.begin() + static_cast<int64_t>(spatial)),
        reduce(loops.begin() + static_cast<int64_t>(spatial), loops.end());
    if (!block.reduction) {
      if (columns.empty()) return Name();
      return Vectorized(s, columns.back(), block.spatial.back().extent, lanes, false);
    }
    if (columns.empty()) {  // the last few lanes
      TRY(s.Do(DecomposeReduction{.block = block.name, .loop = reduce[0]}));
      for (const Name& loop : reduce) TRY(s.Do(Unroll{.loop = loop}));
      return Name();
    }
    std::vector<Name> order = reduce;
    order.insert(order.end(), columns.begin(), columns.end());
    TRY(s.Do(Reorder{.loops = order}));
    const int64_t extent = block.spatial.back().extent;
    const bool wide = extent > kRegisterColumns;
    std::vector<Name> pieces = {columns.back()};
    if (wide) {
      pieces = TRY(s.Do(Split{.loop = columns.back(), .factors = {Factors::kAuto, kRowUnroll, lanes}}));
    }
    std::vector<Name> made = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = reduce[0]}));
    s.done.insert(made[0]);
    for (const Name& loop : {made.back(), pieces.back()}) {
      if (wide) {
        TRY(s.Do(Vectorize{.loop = loop}));
      } else {
        TRY(Vectorized(s, loop, extent, lanes, true));
      }
    }
    if (wide) {
      for (const Name& loop : {made[made.size() - 2], pieces[1]}) TRY(s.Do(Unroll{.loop = loop}));
    }
    if (block.reduce_length <= 8) {
      for (const Name& loop : reduce) TRY(s.Do(Unroll{.loop = loop}));
    }
    // Lanes are accumulated in registers. The row's own numbers are read by loops with tails, which registers cannot
    // be.
    const int64_t vectors = (ColumnsOf(block, depth) + lanes - 1) / lanes;
    if (depth > 0 && !read && vectors + kSparedRegisters <= target.vector_registers)
      TRY(s.Do(SetScope{.buffer = block.writes, .scope = Scope::kRegister}));
    return Name();
  }

  // Whether other blocks than reductions read the block's results, or callers do.
  static bool IsRead(const std::vector<BlockView>& blocks, const BlockView& block) {
    std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
    return block.writes_output ||
           std::any_of(consumers.begin(), consumers.end(), [](const BlockView* c) { return !c->reduction; });
  }

  // The loops of the block's iterators.
  static std::vector<Name> LoopsOf(const BlockView& block) {
    std::vector<Name> loops;
    for (const auto* list : {&block.spatial, &block.reduce}) {
      for (const BlockView::Loop& loop : *list) loops.push_back(loop.var);
    }
    return loops;
  }

 private:
  // The first pass over a row waits for memory, and the others leave it idle. So a later pass that reads the row again
  // asks for the next one. `passes`: by block, the loop over its vectors, if there is one.
  static void AskForNextRow(SketchState& s, const std::vector<BlockView>& blocks, const std::vector<Name>& passes,
                            const Name& row) {
    std::set<Name> read, written;
    for (const BlockView& block : blocks) written.insert(block.writes);
    std::map<Name, Prefetch> again;
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (const Name& buffer : blocks[i].reads) {
        if (written.contains(buffer) || read.insert(buffer).second || passes[i] == Name()) continue;
        if (i + 1 == blocks.size() && again.contains(buffer)) continue;  // the last pass waits for memory itself
        again[buffer] = {.block = blocks[i].name, .buffer = buffer, .loop = row, .at = passes[i], .ahead = 1};
      }
    }
    for (const auto& [buffer, prefetch] : again) {
      SketchState trial = s;  // what a block reads here and there cannot be asked for
      if (trial.Do(prefetch).ok()) s.prefetches.push_back(prefetch);
    }
  }

  // A divisor of `rows`: tasks of some thousand elements, but enough of them for all cores.
  static int64_t RowsOfTask(int64_t rows, int64_t columns, const Target& target) {
    int64_t most = std::min(kTaskElements / std::max<int64_t>(1, columns), rows / (kTasksPerCore * target.num_cores));
    for (int64_t each = std::min<int64_t>(most, rows); each > 1; --each) {
      if (rows % each == 0) return each;
    }
    return 1;
  }

  // Returns the loop over vectors, if it stays a loop.
  static Result<Name> Vectorized(SketchState& s, const Name& loop, int64_t extent, int64_t lanes, bool unrolled) {
    if (extent == 1) return Name();
    if (extent <= lanes) {
      TRY(s.Do(Vectorize{.loop = loop}));
      return Name();
    }
    if (unrolled) {  // registers, which no guard may index: as many whole vectors as fit, then a shorter one
      TRY(s.Do(Vectorize{.loop = loop}));
      return Name();
    }
    std::vector<Name> made = TRY(s.Do(Split{.loop = loop, .factors = {Factors::kAuto, lanes}}));
    TRY(s.Do(Vectorize{.loop = made[1]}));
    return made[0];
  }
};

// Of a reduction of few rows in lanes, the parts into which its sums are cut: one for each task that the cores want.
// 1: it is none, or there are enough rows. `blocks`: the first one reads the input.
int64_t PartsOf(const SketchState& state, const std::vector<BlockView>& blocks, const Target& target) {
  constexpr int64_t kPartsPerCore = 4;
  const BlockView& first = blocks[0];
  if (!first.reduction || first.spatial.empty() || first.reduce.empty() || !IsPartial(state, blocks, first) ||
      !ReadsAllOnce(first))
    return 1;
  const int64_t elements = InstancesOf(first),
                rows = elements / first.spatial.back().extent / static_cast<int64_t>(first.reduce_length);
  for (size_t i = 1; i < blocks.size(); ++i) {
    if (2 * InstancesOf(blocks[i]) > elements) return 1;  // several passes: a row stays where it is
  }
  return std::max<int64_t>(
      1, std::min((kPartsPerCore * target.num_cores + rows - 1) / rows, elements / rows / kTaskElements));
}

// Softmax, layer normalization, sums of rows: several passes over rows that do not depend on each other. One loop over
// the rows, in parallel, and in it all blocks one after the other, each in vectors: a row comes from memory once and
// goes back once, what is between stays in the cache or in registers.
class Rows : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    if (!state.done.empty()) return std::vector<SketchState>{};
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (int depth = RowLoops(state, blocks, target); depth > 0; --depth) {
      SketchState next = state;
      // Where a block cannot go into the loop over rows, or would be computed again for each row, the function is not
      // of this kind.
      if (RowPasses::Place(next, blocks, depth, target).ok() && IsOnce(next, blocks, depth))
        return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  // The number of outer loops that all blocks have in common and that their reductions leave alone, if there are
  // blocks with more loops than that; else 0.
  static int RowLoops(const SketchState& state, const std::vector<BlockView>& blocks, const Target& target) {
    const BlockView* least = nullptr;
    bool longer = false, once = true;
    const int depth = RowPasses::CommonLoops(blocks);
    for (const BlockView& block : blocks) {
      if (&block != &blocks.back() && block.writes_output) return 0;
      longer |= static_cast<int>(block.spatial.size()) > depth;
      if (!block.reduction) continue;
      if (!least || block.spatial.size() < least->spatial.size()) least = &block;
      once = once && ReadsAllOnce(block);
    }
    if (!least || !longer || !blocks.back().writes_output || PartsOf(state, blocks, target) > 1) return 0;
    // Rows whose results are several elements: blocks that use elements several times have other rules.
    const bool several = static_cast<int>(least->spatial.size()) > depth;
    if (several && (!once || RowPasses::RowsOf(blocks[0], depth) < kRowsPerCore * target.num_cores)) return 0;
    return depth;
  }

  // Whether each row computes its own part of each block. Extents may agree by chance.
  static bool IsOnce(const SketchState& placed, const std::vector<BlockView>& before, int depth) {
    const std::vector<BlockView> after = ViewBlocks(placed.schedule.func());
    return std::all_of(before.begin(), before.end(), [&](const BlockView& block) {
      const BlockView* now = FindBlock(after, block.name);
      return now && InstancesOf(*now) < 2 * InstancesOf(block) + depth;
    });
  }
};

// What is left of a reduction whose elements lie along rows, if other rules have not placed all of it: few rows, or
// none. The sums of few rows are cut into parts, which all cores compute; what combines them is next to nothing.
//
//   parallel over (parts, rows)
//     registers = 0
//     reduction loops: lanes in vectors: registers += x
//     partial results = registers
//   the other blocks, row by row
class Lanes : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = Left(state);
    if (blocks.empty() || !IsLanes(state, blocks)) return std::vector<SketchState>{};
    SketchState next = state;
    if (const int64_t parts = PartsOf(state, blocks, target); parts > 1) {
      TRY_NOTE(PlaceParts(next, blocks[0], parts, target), "while cutting block " + blocks[0].name.str());
      blocks = Left(next);
    }
    for (int depth = RowPasses::CommonLoops(blocks); depth >= 0; --depth) {
      SketchState placed = next;
      if (RowPasses::Place(placed, blocks, depth, target).ok()) return std::vector<SketchState>{std::move(placed)};
    }
    return std::vector<SketchState>{};
  }

 private:
  static std::vector<BlockView> Left(const SketchState& state) {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    std::erase_if(blocks, [&](const BlockView& block) { return state.done.contains(block.name); });
    return blocks;
  }

  // Whether the blocks are the passes of one reduction, of which the first, in lanes, does most of the work.
  static bool IsLanes(const SketchState& state, const std::vector<BlockView>& blocks) {
    const BlockView& first = blocks[0];
    if (!first.reduction || first.spatial.empty() || first.spatial.back().extent > kRegisterColumns ||
        !IsPartial(state, blocks, first) || !ReadsAllOnce(first))
      return false;
    return std::all_of(blocks.begin() + 1, blocks.end(), [&](const BlockView& block) {
      return 2 * InstancesOf(block) <= InstancesOf(first) && block.spatial.size() <= first.spatial.size();
    });
  }

  static Status PlaceParts(SketchState& s, const BlockView& block, int64_t parts, const Target& target) {
    const auto longest =
        std::max_element(block.reduce.begin(), block.reduce.end(),
                         [](const BlockView::Loop& a, const BlockView::Loop& b) { return a.extent < b.extent; });
    for (int64_t more = parts; more <= 2 * parts; ++more) {
      if (longest->extent % more != 0) continue;
      parts = more;
      break;
    }
    parts = std::min(parts, longest->extent);
    Name part = TRY(s.Do(Split{.loop = longest->var, .factors = {parts, Factors::kAuto}}))[0];
    std::vector<Name> order = {part};
    for (const BlockView::Loop& loop : block.spatial) order.push_back(loop.var);
    // What adds the parts up comes behind the outermost reduction loop: behind everything.
    TRY(s.Do(Reorder{.loops = std::move(order)}));
    const Name partial = TRY(s.Do(Rfactor{.loop = part, .axis = 0}))[0];
    const std::vector<Name> made = TRY(s.Do(CacheWrite{.block = partial, .scope = Scope::kGlobal}));

    const std::vector<BlockView> blocks = ViewBlocks(s.schedule.func());
    const BlockView& view = *FindBlock(blocks, partial);
    const int depth = static_cast<int>(view.spatial.size()) - 1;
    std::vector<Name> loops = RowPasses::LoopsOf(view), rows(loops.begin(), loops.begin() + depth);
    std::vector<Name> nest = rows;
    for (const BlockView::Loop& loop : view.reduce) nest.push_back(loop.var);
    nest.push_back(loops[depth]);
    TRY(s.Do(Reorder{.loops = nest}));
    Name task = rows[0];
    if (rows.size() > 1) task = TRY(s.Do(Fuse{.loops = rows}))[0];
    TRY(s.Do(Parallel{.loop = task}));
    std::vector<Name> copy = TRY(s.Do(ReverseComputeAt{.block = made[1], .loop = task}));
    TRY(s.Do(Vectorize{.loop = copy.back()}));
    TRY(RowPasses::Vectors(s, view, loops, depth, false, target));
    s.done.insert(partial);
    s.done.insert(made[1]);

    StageModel model;
    const double elements = static_cast<double>(InstancesOf(block));
    model.flops = block.flops;
    model.outer = RowPasses::RowsOf(view, depth);
    model.element_bytes = block.element_bytes;
    model.m = static_cast<int64_t>(elements) / model.outer;
    model.read_bytes = static_cast<double>(block.element_bytes) * elements;
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + ":parts";
    return {};
  }
};

}  // namespace

const SketchRule& RowsRule() {
  static const Rows rule;
  return rule;
}

const SketchRule& LanesRule() {
  static const Lanes rule;
  return rule;
}

}  // namespace autotune
