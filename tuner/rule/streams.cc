#include <algorithm>

#include "ir/annotations.h"
#include "ir/dot.h"
#include "support/integer.h"
#include "topi/matmul.h"
#include "tuner/rule/packing.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kWorthStreaming = 64 << 10;  // bytes of constants below which a register tile is as fast

// Returns the most rows of a product that is streamed. Constants from beyond a core's own cache arrive so slowly
// that only the registers bound the rows. Each row needs two accumulators, so that two panels are read at a time. Two
// more registers hold the panels' vectors. One holds a broadcast, and another one a product if the target has no
// multiply-add instruction.
int64_t MostRows(double bytes, const Target& target) {
  if (bytes <= static_cast<double>(target.l2_bytes)) return topi::kMostStreamedRows;
  return std::max<int64_t>(topi::kMostStreamedRows, (target.vector_registers - (target.has_fma ? 1 : 2)) / 2 - 1);
}

// Moves the loop over rows to the outer loops if each of its iterations has constants of its own. A batch of products
// of one row has such a loop.
Roles WithSharedRows(const SketchBuilder& s, const BlockView& block) {
  Roles r = RolesOf(block);
  if (r.m.iter.empty() || r.n.iter.empty()) return r;
  const std::optional<ColumnOperand> columns = FindColumnOperand(s.func(), block, Name(), r.n.iter);
  if (!columns || !DependsOn(block, columns->buffer, r.m)) return r;
  r.outer.push_back(r.m);
  r.m = {.extent = 1};
  return r;
}

// Returns the constants if the block is a product of a few rows with a matrix of them, or a batch of such products with
// a matrix each; else nothing.
std::optional<ColumnOperand> StreamedOperand(const SketchBuilder& s, const BlockView& block, const Roles& r) {
  const int64_t rows = r.m.extent;
  const double bytes =
      static_cast<double>(block.element_bytes * r.n.extent * Iterations(r.outer)) * block.reduce_length;
  if (r.k.empty() || block.guarded || rows > MostRows(bytes, s.target())) return std::nullopt;
  if (r.n.extent < LanesOf(block, s.target()) || bytes < static_cast<double>(kWorthStreaming) || r.n.iter.empty())
    return std::nullopt;
  // Several rows share what an instruction for dot products reads (DotTilingRule).
  const int64_t steps = StepsOfDot(block, s.target());
  if (rows > 1 && steps > 1 && r.k.back().extent % steps == 0) return std::nullopt;
  std::optional<ColumnOperand> columns = FindColumnOperand(s.func(), block, rows > 1 ? r.m.iter : Name(), r.n.iter);
  const auto reads_own = [&](const BlockView::Loop& loop) {
    return loop.extent == 1 || DependsOn(block, columns->buffer, loop);
  };
  const bool fits = columns && columns->constant && std::ranges::all_of(r.outer, reads_own);
  return fits ? columns : std::nullopt;
}

// Returns the steps of the sum whose products one instruction adds for each column, or 1. The other operand must have
// them side by side.
int64_t GroupOf(const SketchBuilder& s, const BlockView& block, const Roles& r, const ColumnOperand& constants) {
  const int64_t steps = StepsOfDot(block, s.target());
  bool fits = r.m.extent == 1 && constants.k_dim >= 0 && r.k.back().extent % steps == 0;
  ForEachOperand(block, [&](const Load& load) {
    fits &= load.buffer->name == constants.buffer->name || IsVar(load.indices.back(), r.k.back().iter);
  });
  return fits ? steps : 1;
}

}  // namespace

// Places the product of a few rows with a constant matrix. It should run at the bandwidth of memory. One sequential
// stream is slower, since hardware prefetchers stop at the end of each page. So the matrix is cut into narrow,
// contiguous panels, and several panels are read at the same time, each from another page.
//
//   parallel over n_0, outer loops
//     registers = 0
//     reduction loops; k_1 unrolled: rows, panels n_1, vectors of a panel unrolled: registers += a * b
//     write the registers back through the element-wise epilogue
//
// One row of bytes or bf16 takes the steps of the sum in groups, as DotTilingRule does.
Status StreamsRule(SketchBuilder& s, const BlockView& block, int) {
  if (!block.reduction) return Err("the block is not a reduction");
  const Roles r = WithSharedRows(s, block);
  std::optional<ColumnOperand> constants = StreamedOperand(s, block, r);
  if (!constants) return Err("the block is not a product of a few rows and many constants");
  const int64_t lanes = LanesOf(block, s.target());
  WriteBack out = TRY(s.MakeWriteBack(block));
  const auto [panels, width] = TRY(ChooseStreamedPanels(s, r.n, lanes));
  const int64_t group = GroupOf(s, block, r, *constants);
  TRY(PackColumns(s, block.name, *constants, width, group));
  auto [panels_of_task, panel, column] = TRY(s.Split(r.n.var, {kAuto, panels, width}));
  auto [panel_vectors, vector] = TRY(s.Split(column, {kAuto, lanes}));
  // Terms that are parts of one constant stand one behind the other, so that it is loaded once for all of them.
  const bool shares = !DependsOn(block, constants->buffer, r.k.back()) && r.k.back().extent <= kMaxUnroll;
  BlockView::Loop last = r.k.back();
  Loops steps;  // of a group
  if (group > 1) {
    auto [groups, inner] = TRY(s.Split(last.var, {kAuto, group}));
    last.var = groups, last.extent /= group;
    steps = inner;
    TRY(s.Do(Annotate{.target = inner, .key = kDot, .value = 1}));
  }
  Unrolled k =
      TRY(s.UnrollReduction(last, shares ? std::vector<int64_t>{last.extent} : Divisors(last.extent, kMaxUnroll)));
  Loops sums = r.k;
  sums.list.back() = k.outer;
  std::vector<BlockView::Loop> rows(block.spatial.begin(), block.spatial.end() - 1);
  std::vector<BlockView::Loop> outer = r.outer;
  std::erase_if(outer, [](const BlockView::Loop& loop) { return loop.extent == 1; });
  std::erase_if(rows, [&](const BlockView::Loop& row) {
    return std::ranges::any_of(outer, [&](const BlockView::Loop& loop) { return loop.var == row.var; });
  });
  const Loops tile = {rows, panel, panel_vectors}, tasks = {panels_of_task, outer};
  TRY(s.Order(shares ? Loops{tasks, sums, tile, k.inner, vector} : Loops{tasks, sums, k.inner, tile, vector, steps}));
  const Name task = TRY(s.Parallel(tasks));
  TRY(s.Do(PadBlock{.block = block.name}));
  TRY(s.MakeRegisterTile(
      block, out,
      {.at = task, .below = sums.list.front(), .steps = k.inner, .tile = tile, .vector = vector, .lanes = lanes}));
  s.AddStage({.kind = StageModel::kStreams,
              .block = block.name,
              .m_knob = panels.knob,
              .n_knob = width.knob,
              .k_knob = k.factor.knob,
              .m = r.m.extent,
              .n = r.n.extent * Iterations(r.outer),
              .k = Iterations(r.k) / group,  // a group is a step with operands as wide as a result
              .element_bytes = block.element_bytes,
              .column = ModelOf(block, *constants, group)});
  s.Call(block.name.str() + ":streams");
  return {};
}

}  // namespace autotune
