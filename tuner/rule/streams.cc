#include <algorithm>

#include "ir/visit.h"
#include "tuner/rule/packing.h"

namespace autotune {
namespace {

constexpr int64_t kMaxStreamedRows = 4;        // each more is another use of what comes from memory
constexpr int64_t kWorthStreaming = 64 << 10;  // bytes of constants below which a register tile does as well
constexpr int64_t kMaxPanels = 8;              // read side by side
constexpr int64_t kMaxPanelVectors = 4;        // vectors of a panel

// A few rows times a matrix of constants, each of which is used by these rows only: as fast as they come from memory.
// One sequential stream does not reach that: a prefetcher stops at the end of every page and starts anew, so the
// matrix is cut into narrow panels, contiguous each, and several of them are read side by side, each in a page of its
// own.
//
//   parallel over n_0
//     registers = 0
//     reduction loops; k_1 unrolled: rows, panels n_1, vectors of a panel unrolled: registers += a * b
//     write the registers back through the element-wise epilogue
class Streams : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      std::optional<ColumnOperand> columns = Fits(state, block, target);
      if (!columns) continue;
      SketchState next = TRY_NOTE(Place(state, block, blocks, *columns, target),
                                  "while placing the streams of block " + block.name.str());
      return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  // The matrix of constants, if there is one that no loop but n's and the reduction's moves through.
  static std::optional<ColumnOperand> Fits(const SketchState& state, const BlockView& view, const Target& target) {
    if (!view.reduction || state.done.count(view.name) || view.spatial.empty() || view.reduce.empty() || view.guarded)
      return std::nullopt;
    const int64_t n = view.spatial.back().extent;
    int64_t rows = 1;
    Name row;
    for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
      if (view.spatial[i].extent > 1 && rows > 1) return std::nullopt;
      rows *= view.spatial[i].extent;
      if (view.spatial[i].extent > 1) row = IterOf(view, view.spatial[i].var);
    }
    const double bytes = 4.0 * view.reduce_length * static_cast<double>(n);
    if (rows > kMaxStreamedRows || n < target.VectorLanes(32) || bytes < static_cast<double>(kWorthStreaming))
      return std::nullopt;
    const Name column = IterOf(view, view.spatial.back().var);
    if (column.empty()) return std::nullopt;
    std::optional<ColumnOperand> columns = FindColumnOperand(state.schedule.func(), view, row, column);
    if (!columns || !columns->constant) return std::nullopt;
    return columns;
  }

  static std::vector<int64_t> UpTo(std::vector<int64_t> values, int64_t limit) {
    std::erase_if(values, [&](int64_t v) { return v > limit; });
    return values;
  }

  static Result<SketchState> Place(const SketchState& from, const BlockView& block,
                                   const std::vector<BlockView>& blocks, const ColumnOperand& columns,
                                   const Target& target) {
    SketchState s = from;
    const int64_t lanes = target.VectorLanes(32);
    const BlockView::Loop& n = block.spatial.back();
    const int64_t vectors = (n.extent + lanes - 1) / lanes;
    StageModel model{
        .kind = StageModel::kStreams, .n = n.extent, .element_bytes = block.element_bytes, .flops = block.flops};
    for (const BlockView::Loop& loop : block.reduce) model.k *= loop.extent;

    const BlockView* consumer = FusedConsumer(from, blocks, block);
    Name out, registers = block.writes;
    if (consumer) {
      out = consumer->name;
    } else {
      std::vector<Name> made = TRY(s.Do(CacheWrite{.block = block.name, .scope = Scope::kGlobal}));
      registers = made[0];
      out = made[1];
    }

    auto choose = [&](const std::string& name, std::vector<int64_t> candidates, int64_t extent, int& knob) {
      return s.Sample(SampleCategorical{.candidates = candidates, .results = {Name(name)}}, extent, candidates, knob);
    };
    std::vector<int64_t> widths;
    for (int64_t width : UpTo({1, 2, kMaxPanelVectors}, vectors)) widths.push_back(width * lanes);
    Name width = TRY(choose(n.var.str() + "_panel", widths, n.extent, model.n_knob));
    Name panels =
        TRY(choose(n.var.str() + "_panels", UpTo({1, 2, 3, 4, 6, kMaxPanels}, vectors), n.extent, model.m_knob));
    TRY(PackColumns(s, block.name, columns, width));
    std::vector<Name> n_loops = TRY(s.Do(Split{.loop = n.var, .factors = {Factors::kAuto, panels, width}}));
    std::vector<Name> lane_loops = TRY(s.Do(Split{.loop = n_loops[2], .factors = {Factors::kAuto, lanes}}));

    std::vector<Name> k_loops, rows;
    for (const BlockView::Loop& loop : block.reduce) k_loops.push_back(loop.var);
    const BlockView::Loop& last = block.reduce.back();
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= std::min(kMaxUnroll, last.extent); ++d) {
      if (last.extent % d == 0) divisors.push_back(d);
    }
    Name unroll = TRY(choose(last.var.str() + "_u", divisors, last.extent, model.k_knob));
    std::vector<Name> made = TRY(s.Do(Split{.loop = last.var, .factors = {Factors::kAuto, unroll}}));
    k_loops.back() = made[0];
    for (size_t i = 0; i + 1 < block.spatial.size(); ++i) {
      rows.push_back(block.spatial[i].var);
      model.m *= block.spatial[i].extent;
    }

    std::vector<Name> order = {n_loops[0]}, tile = rows;
    order.insert(order.end(), k_loops.begin(), k_loops.end());
    order.push_back(made[1]);
    tile.push_back(n_loops[1]);
    tile.push_back(lane_loops[0]);
    order.insert(order.end(), tile.begin(), tile.end());
    order.push_back(lane_loops[1]);
    TRY(s.Do(Reorder{.loops = order}));
    TRY(s.Do(Parallel{.loop = n_loops[0]}));
    TRY(s.Do(PadBlock{.block = block.name}));

    std::vector<Name> out_loops = TRY(s.Do(ReverseComputeAt{.block = out, .loop = n_loops[0]}));
    std::vector<Name> halves = TRY(s.Do(Split{.loop = out_loops.back(), .factors = {Factors::kAuto, lanes}}));
    TRY(s.Do(Vectorize{.loop = halves[1]}));
    out_loops.back() = halves[0];
    for (const Name& loop : out_loops) TRY(s.Do(Unroll{.loop = loop}));
    TRY(s.Do(SetScope{.buffer = registers, .scope = Scope::kRegister}));
    s.done.insert(out);

    std::vector<Name> init = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = k_loops[0]}));
    s.done.insert(init[0]);
    for (size_t i = 1; i + 1 < init.size(); ++i) TRY(s.Do(Unroll{.loop = init[i]}));
    TRY(s.Do(Vectorize{.loop = init.back()}));
    TRY(s.Do(Unroll{.loop = made[1]}));
    for (const Name& loop : tile) TRY(s.Do(Unroll{.loop = loop}));
    TRY(s.Do(Vectorize{.loop = lane_loops[1]}));
    s.done.insert(block.name);
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + ":streams";
    return s;
  }
};

}  // namespace

const SketchRule& StreamsRule() {
  static const Streams rule;
  return rule;
}

}  // namespace autotune
