#include <algorithm>

#include "ir/visit.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kWorthColumns = 16384;    // elements below which a register tile does as well
constexpr int64_t kNarrowest = 64;          // columns of a task: some lines of memory in a row
constexpr int64_t kWidest = 4096;           // columns of a task: their accumulators stay in the first cache
constexpr int64_t kColumnTasksPerCore = 1;  // a column's neighbours are worth more than balance
constexpr int64_t kUnroll = 4;              // vectors
constexpr int64_t kSparedVectors = 4;       // registers that are no accumulators
constexpr int64_t kRowsOfPart = 8;          // below which the parts' sums are too large a part of the work
constexpr int64_t kFewColumns = 256;        // columns whose sums fit registers: other rules combine partial ones
constexpr int64_t kMostRows = 4;  // rows of a product that use an element: each is a pass over the accumulators

// Reductions over outer dimensions only, of elements that are used once: column sums, global pooling. A register tile
// would walk down a few columns at a time and take one line of memory from each row; here whole stretches of rows are
// added to accumulators in the cache, so that memory is read in the order in which it lies. A product of a few rows and
// a matrix that is computed, too, is such a sum: each row of the matrix is added to the accumulators of all rows.
//
//   parallel over (outer loops, c_0)
//     rows, c_1 in vectors: sums = 0
//     reduction loops: rows: c_1 in vectors: sums += x, or a * x
//
// Where columns alone would have to keep all cores busy, each core takes some of the rows, whole, and its sums are
// added up in the end: in pieces, rows come in at half the bandwidth or less.
class Columns : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (!block.reduction || state.done.count(block.name) || !Fits(state, blocks, block, target)) continue;
      SketchState next =
          TRY_NOTE(Place(state, block, target), "while placing the columns of block " + block.name.str());
      return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  static double Elements(const BlockView& view) {
    double count = view.reduce_length;
    for (const BlockView::Loop& loop : view.spatial) count *= static_cast<double>(loop.extent);
    return count;
  }

  // The loops of the rows that use an element: a few at most, none of a plain sum.
  static std::vector<BlockView::Loop> RowsOf(const BlockView& view) {
    std::vector<BlockView::Loop> rows;
    std::set<Name> unused;
    for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
      const Name iter = IterOf(view, view.spatial[i].var);
      bool used = iter.empty();
      ForEachLoad(view, [&](const Load& load) {
        const LinearForm index = FlatIndex(view, load.buffer, load.indices);
        used = used || index.Rest() || (IsAlongColumns(view, index) && index.Coefficient(iter) != 0);
      });
      if (!used) rows.push_back(view.spatial[i]);
    }
    return rows;
  }

  static void ForEachLoad(const BlockView& view, const std::function<void(const Load&)>& visit) {
    Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (load && load->buffer->name != view.writes) visit(*load);
      return true;
    });
  }

  static bool IsAlongColumns(const BlockView& view, const LinearForm& index) {
    return index.Coefficient(IterOf(view, view.spatial.back().var)) == 1;
  }

  // The last spatial loop is contiguous in the result, and in each operand that moves with it. Of those operands every
  // element is used by a few rows only, side by side; the others are single numbers.
  static bool Fits(const SketchState& state, const std::vector<BlockView>& blocks, const BlockView& view,
                   const Target& target) {
    const Store* store = view.node.As<Block>()->body.As<Store>();
    if (view.spatial.empty() || view.reduce.empty() || view.guarded || !store) return false;
    const int64_t columns = view.spatial.back().extent;
    const bool product = view.reads.size() > 1;
    if (columns < (product ? kShortestVector : target.VectorLanes(32)) ||
        (columns <= kFewColumns && IsPartial(state, blocks, view)))
      return false;
    const Name iter = IterOf(view, view.spatial.back().var);
    if (iter.empty() || !IsVar(store->indices.back(), iter)) return false;
    std::set<Name> repeated;
    int64_t rows = 1;
    for (const BlockView::Loop& row : RowsOf(view)) {
      repeated.insert(IterOf(view, row.var));
      rows *= row.extent;
    }
    if (rows > kMostRows || Elements(view) < static_cast<double>(rows * kWorthColumns)) return false;
    int along = 0;
    bool fits = true;
    ForEachLoad(view, [&](const Load& load) {
      const LinearForm index = FlatIndex(view, load.buffer, load.indices);
      fits = fits && !index.Rest();
      if (!IsAlongColumns(view, index)) {
        fits = fits && index.Coefficient(iter) == 0;
        return;
      }
      ++along;
      fits = fits && ReadsOnce(view, index, repeated);
    });
    return fits && along > 0 && (!product || !ReadsConstants(state.schedule.func(), view));
  }

  // Constants are packed for the rules of products.
  static bool ReadsConstants(const PrimFunc& func, const BlockView& view) {
    return std::any_of(func.params.begin(), func.params.end(), [&](const Param& p) {
      return p.role == ParamRole::kConstant && view.reads.contains(p.buffer->name);
    });
  }

  // As few tasks as keep all cores busy.
  static int64_t ColumnsOfTask(int64_t columns, int64_t outer, const Target& target) {
    const int64_t lanes = target.VectorLanes(32);
    int64_t wanted = (kColumnTasksPerCore * target.num_cores + outer - 1) / outer;
    int64_t each = std::clamp((columns + wanted - 1) / wanted, std::max(lanes, kNarrowest), kWidest);
    return std::min((each + lanes - 1) / lanes * lanes, (columns + lanes - 1) / lanes * lanes);
  }

  static int64_t OuterOf(const BlockView& block) {
    int64_t outer = 1;
    for (size_t i = 0; i + 1 < block.spatial.size(); ++i) outer *= block.spatial[i].extent;
    for (const BlockView::Loop& row : RowsOf(block)) outer /= row.extent;
    return outer;
  }

  // Into how many parts the outermost reduction is cut: as many as cores lack tasks, or a few more, if that divides it.
  static int64_t PartsOfRows(const BlockView& block, const Target& target) {
    const int64_t rows = block.reduce[0].extent, wanted = (target.num_cores + OuterOf(block) - 1) / OuterOf(block);
    for (int64_t parts = wanted; wanted > 1 && parts <= std::min(2 * wanted, rows / kRowsOfPart); ++parts) {
      if (rows % parts == 0) return parts;
    }
    return 1;
  }

  static Result<SketchState> Place(const SketchState& from, const BlockView& block, const Target& target) {
    const int64_t parts = PartsOfRows(block, target);
    if (parts == 1) return PlaceAlone(from, block, target);
    SketchState s = from;
    Name part = TRY(s.Do(Split{.loop = block.reduce[0].var, .factors = {parts, Factors::kAuto}}))[0];
    // What adds the parts up comes behind the outermost reduction loop: behind everything.
    std::vector<Name> order = {part};
    for (const BlockView::Loop& loop : block.spatial) order.push_back(loop.var);
    TRY(s.Do(Reorder{.loops = std::move(order)}));
    Name partial = TRY(s.Do(Rfactor{.loop = part, .axis = 0}))[0];
    std::vector<BlockView> blocks = ViewBlocks(s.schedule.func());
    return PlaceAlone(s, *FindBlock(blocks, partial), target);
  }

  static Result<SketchState> PlaceAlone(const SketchState& from, const BlockView& block, const Target& target) {
    SketchState s = from;
    const int64_t lanes = target.VectorLanes(32), columns = block.spatial.back().extent, outer = OuterOf(block);
    std::vector<Name> parallel, reduce, rows;
    for (const BlockView::Loop& row : RowsOf(block)) rows.push_back(row.var);
    for (size_t i = 0; i + 1 < block.spatial.size(); ++i) {
      const Name& loop = block.spatial[i].var;
      if (std::find(rows.begin(), rows.end(), loop) == rows.end()) parallel.push_back(loop);
    }
    const int64_t each = ColumnsOfTask(columns, outer, target), vectors = each / lanes;
    int64_t unroll = kUnroll;
    while (vectors % unroll != 0) unroll /= 2;
    std::vector<Name> c = TRY(
        s.Do(Split{.loop = block.spatial.back().var, .factors = {Factors::kAuto, vectors / unroll, unroll, lanes}}));
    parallel.push_back(c[0]);
    for (const BlockView::Loop& loop : block.reduce) reduce.push_back(loop.var);
    std::vector<Name> order = parallel;
    order.insert(order.end(), reduce.begin(), reduce.end());
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), c.begin() + 1, c.end());
    TRY(s.Do(Reorder{.loops = order}));
    Name fused = parallel[0];
    if (parallel.size() > 1) fused = TRY(s.Do(Fuse{.loops = parallel}))[0];
    TRY(s.Do(Parallel{.loop = fused}));
    std::vector<Name> init = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = reduce[0]}));
    TRY(s.Do(Unroll{.loop = init[init.size() - 2]}));
    TRY(s.Do(Vectorize{.loop = init.back()}));
    TRY(s.Do(Unroll{.loop = c[2]}));
    TRY(s.Do(Vectorize{.loop = c[3]}));
    // Accumulators of which each has an address of its own become registers.
    int64_t accumulators = vectors;
    for (const BlockView::Loop& row : RowsOf(block)) accumulators *= row.extent;
    if (accumulators + kSparedVectors <= target.vector_registers) {
      rows.push_back(c[1]);
      for (const Name& loop : rows) TRY(s.Do(Unroll{.loop = loop}));
    }
    s.done.insert(init[0]);
    s.done.insert(block.name);

    StageModel model;
    model.flops = block.flops;
    model.outer = outer * ((columns + each - 1) / each);
    model.element_bytes = block.element_bytes;
    model.read_bytes = static_cast<double>(block.element_bytes) * Elements(block);
    model.write_bytes = static_cast<double>(block.element_bytes * outer * columns);
    model.m = static_cast<int64_t>(Elements(block)) / model.outer;
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + ":columns";
    return s;
  }
};

}  // namespace

const SketchRule& ColumnsRule() {
  static const Columns rule;
  return rule;
}

}  // namespace autotune
