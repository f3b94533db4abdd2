#include <algorithm>
#include <map>
#include <set>

#include "ir/annotations.h"
#include "target/streaming.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kLine = 16;            // elements of a line of memory
constexpr int64_t kTaskElements = 8192;  // of a task, if there are enough: then handing it out costs next to nothing

// Softmax, layer normalization, sums of rows: several passes over rows that do not depend on each other. One loop over
// the rows, in parallel, and in it all blocks one after the other, each in vectors: a row comes from memory once and
// goes back once, what is between stays in the cache or in registers.
class Rows : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    if (!state.done.empty()) return std::vector<SketchState>{};
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    int depth = RowLoops(blocks);
    if (depth < 1) return std::vector<SketchState>{};
    SketchState next = state;
    // Where a block cannot go into the loop over rows, the function is not of this kind.
    if (!Place(next, blocks, depth, target).ok()) return std::vector<SketchState>{};
    return std::vector<SketchState>{std::move(next)};
  }

 private:
  // The number of outer loops that all blocks have in common and that their reductions leave alone, if there are
  // blocks with more loops than that; else 0.
  static int RowLoops(const std::vector<BlockView>& blocks) {
    const BlockView* least = nullptr;
    for (const BlockView& block : blocks) {
      if (block.reduction && (!least || block.spatial.size() < least->spatial.size())) least = &block;
    }
    if (!least || !blocks.back().writes_output) return 0;
    size_t depth = least->spatial.size();
    bool longer = false;
    for (const BlockView& block : blocks) {
      if (block.spatial.size() < depth || (&block != &blocks.back() && block.writes_output)) return 0;
      for (size_t i = 0; i < depth; ++i) {
        if (block.spatial[i].extent != least->spatial[i].extent) return 0;
      }
      longer |= block.spatial.size() > depth;
    }
    return longer ? static_cast<int>(depth) : 0;
  }

  // Elements of a row.
  static int64_t ColumnsOf(const BlockView& block, int depth) {
    int64_t columns = 1;
    for (size_t i = depth; i < block.spatial.size(); ++i) columns *= block.spatial[i].extent;
    return columns;
  }

  static Status Place(SketchState& s, const std::vector<BlockView>& blocks, int depth, const Target& target) {
    const BlockView& last = blocks.back();
    const int64_t lanes = target.VectorLanes(32);
    int64_t rows = 1, widest = 1;
    std::vector<Name> outer;
    for (int i = 0; i < depth; ++i) {
      outer.push_back(last.spatial[i].var);
      rows *= last.spatial[i].extent;
    }
    StageModel model;
    for (const BlockView& block : blocks) {
      int64_t columns = ColumnsOf(block, depth);
      columns = static_cast<int64_t>(static_cast<double>(columns) * block.reduce_length);
      widest = std::max(widest, columns);
      model.flops += std::max(1.0, block.flops) * static_cast<double>(columns);
    }

    Name row = outer[0];
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
      std::vector<Name> loops = TRY(s.Do(ComputeAt{.block = blocks[i].name, .loop = row}));
      passes[i] = TRY(Vectors(s, blocks[i], loops, depth, lanes));
      s.done.insert(blocks[i].name);
    }
    std::vector<Name> loops;
    for (const auto* list : {&last.spatial, &last.reduce}) {
      for (const BlockView::Loop& loop : *list) loops.push_back(loop.var);
    }
    passes.back() = TRY(Vectors(s, last, loops, depth, lanes));
    s.done.insert(last.name);
    AskForNextRow(s, blocks, passes, row);
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
    s.name = "rows";
    return {};
  }

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

  // The block's loops inside a row. `loops`: those of its iterators, in order, the first `depth` being the row's.
  // Returns the loop over vectors that stays a loop, or no name.
  static Result<Name> Vectors(SketchState& s, const BlockView& block, const std::vector<Name>& loops, int depth,
                              int64_t lanes) {
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
    } else {
      std::vector<Name> order = reduce;
      order.insert(order.end(), columns.begin(), columns.end());
      TRY(s.Do(Reorder{.loops = order}));
      std::vector<Name> made = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = reduce[0]}));
      s.done.insert(made[0]);
      int64_t extent = block.spatial.back().extent;
      TRY(Vectorized(s, made.back(), extent, lanes, true));
      TRY(Vectorized(s, columns.back(), extent, lanes, true));
      if (block.reduce_length <= 8) {
        for (const Name& loop : reduce) TRY(s.Do(Unroll{.loop = loop}));
      }
      // Lanes are accumulated in registers. The row's own number is read by loops with tails, which registers cannot
      // be.
      if (!block.writes_output) TRY(s.Do(SetScope{.buffer = block.writes, .scope = Scope::kRegister}));
    }
    return Name();
  }

  // Returns the loop over vectors, if it stays a loop.
  static Result<Name> Vectorized(SketchState& s, const Name& loop, int64_t extent, int64_t lanes, bool unrolled) {
    if (extent == 1) return Name();
    if (extent <= lanes) {
      if ((extent & (extent - 1)) == 0) TRY(s.Do(Vectorize{.loop = loop}));
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

}  // namespace

const SketchRule& RowsRule() {
  static const Rows rule;
  return rule;
}

}  // namespace autotune
