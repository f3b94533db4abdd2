#include <algorithm>

#include "ir/annotations.h"
#include "ir/dot.h"
#include "support/integer.h"
#include "tuner/rule/packing.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

// Returns the block that scales and adds up the sums of blocks of terms, if `block` computes such sums
// (topi::BlockMatMul); else nothing.
std::optional<BlockView> SumOfBlocks(const std::vector<BlockView>& blocks, const BlockView& block) {
  if (!block.reduction || block.guarded || block.spatial.size() != 3) return std::nullopt;
  const std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  if (consumers.size() != 1 || block.writes_output) return std::nullopt;
  const BlockView& sum = *consumers[0];
  if (!sum.reduction || sum.guarded || sum.spatial.size() != 2 || sum.reduce.size() != 1) return std::nullopt;
  const bool fits = block.spatial[0].extent == sum.reduce[0].extent &&
                    block.spatial[1].extent == sum.spatial[0].extent &&
                    block.spatial[2].extent == sum.spatial[1].extent;
  return fits ? std::optional(sum) : std::nullopt;
}

// Returns the constants of a scale or zero point for each block and column.
std::vector<ColumnOperand> ConstantsOf(const PrimFunc& func, const BlockView& sum) {
  std::vector<ColumnOperand> found;
  ForEachOperand(sum, [&](const Load& load) {
    const auto param = std::ranges::find_if(func.params, [&](const Param& p) { return p.buffer.Same(load.buffer); });
    if (param == func.params.end() || param->role != ParamRole::kConstant || load.indices.size() != 2) return;
    if (IsVar(load.indices[0], sum.reduce[0].iter) && IsVar(load.indices[1], sum.spatial[1].iter))
      found.push_back({.buffer = load.buffer, .constant = true, .rank = 2, .dim = 1});
  });
  return found;
}

// Returns the choices of the rows of a tile: those of which the last tile needs the least padding.
std::vector<int64_t> HeightsOf(int64_t rows) {
  std::vector<int64_t> heights;
  for (int64_t tiles = CeilDiv(rows, kMaxRows); tiles <= rows; ++tiles) {
    const int64_t height = CeilDiv(rows, tiles);
    if (heights.empty() || heights.back() != height) heights.push_back(height);
  }
  return heights;
}

// The sums of a block for all vectors of the panels that are read side by side.
struct SumsOfBlock {
  Name block, buffer;
  int64_t group = 1;  // steps that one instruction takes
  int64_t lanes = 0;
  std::vector<BlockView::Loop> reduce;
};

// Computes the sums in registers, and returns the choice of unrolled steps.
Result<Choice> PlaceSums(SketchBuilder& s, const SumsOfBlock& sums, const Name& at) {
  const std::vector<Name> made = TRY(s.Do(ComputeAt{.block = sums.block, .loop = at}));
  if (made.size() != 3 + sums.reduce.size()) return Err("the sums of the blocks have other loops");
  const Name row = made[1];
  auto [vectors, lane] = TRY(s.Split(made[2], {kAuto, sums.lanes}));
  // The first loop over the terms is the longest one, so it is the one to unroll.
  BlockView::Loop terms = sums.reduce.front();
  terms.var = made[3];
  std::vector<Name> steps(made.begin() + 4, made.end());
  Name group;
  if (sums.group > 1) {
    const bool is_first = steps.empty();
    auto [groups, within] = TRY(s.Split(is_first ? terms.var : steps.back(), {kAuto, sums.group}));
    group = within;
    if (is_first) {
      terms.var = groups;
      terms.extent /= sums.group;
    } else {
      steps.back() = groups;
    }
  }
  const Unrolled unrolled = TRY(s.UnrollReduction(terms, Divisors(terms.extent, kMaxUnroll)));
  TRY(s.Order({made[0], unrolled.outer, unrolled.inner, steps, row, vectors, lane, group}));
  if (sums.group > 1) TRY(s.Do(Annotate{.target = group, .key = kDot, .value = 1}));
  TRY(s.Do(SetScope{.buffer = sums.buffer, .scope = Scope::kRegister}));
  TRY(s.ZeroAndStraighten(sums.block, unrolled.outer, {unrolled.inner, steps}, {row, vectors}, lane));
  return unrolled.factor;
}

}  // namespace

// Places a product of rows and many constants, whose terms have a scale for each block, as StreamsRule does. The sums
// of a block, integers or floats, stay in registers until they are scaled and added to the sum of all blocks:
//
//   parallel over n_0
//     tiles of rows m_0:
//       registers = 0
//       blocks of terms:
//         sums = 0
//         terms of the block, in groups: panels n_1, vectors of a panel, rows m_1 unrolled: sums += a * b
//         panels, vectors, rows m_1 unrolled: registers += (sums - offset) * scales
//       write the registers back through the element-wise epilogue
//
// The panels of a task stay in the core's own cache for all of its tiles.
Status BlockStreamsRule(SketchBuilder& s, const BlockView& block, int) {
  const std::optional<BlockView> sum = SumOfBlocks(s.Blocks(), block);
  if (!sum) return Err("it does not compute sums of blocks of terms");
  const BlockView::Loop &m = sum->spatial[0], &n = sum->spatial[1], &terms = sum->reduce[0];
  std::optional<ColumnOperand> numbers = FindColumnOperand(s.func(), block, Name(), block.spatial[2].iter);
  if (!numbers || !numbers->constant || numbers->by_iterators || numbers->rank != 3)
    return Err("its columns are no constants");
  const int64_t lanes = LanesOf(block, s.target());
  if (n.extent < lanes || lanes == 1) return Err("there are fewer columns than lanes");
  SumsOfBlock sums{.block = block.name, .buffer = block.writes, .lanes = lanes, .reduce = block.reduce};
  if (block.reduce.back().extent % kByteGroup == 0) sums.group = StepsOfDot(block, s.target());

  const WriteBack out = TRY(s.MakeWriteBack(*sum));
  const Choice rows = TRY(s.Choose(m.var.str() + "_rows", HeightsOf(m.extent)));
  const auto [panels, width] = TRY(ChooseStreamedPanels(s, n, lanes));
  numbers->k_dim = 1;
  TRY(PackColumns(s, block.name, *numbers, width, sums.group));
  const std::vector<ColumnOperand> constants = ConstantsOf(s.func(), *sum);
  for (const ColumnOperand& operand : constants) TRY(PackColumns(s, sum->name, operand, width));

  auto [task, panel, column] = TRY(s.Split(n.var, {kAuto, panels, width}));
  auto [panel_vectors, lane] = TRY(s.Split(column, {kAuto, lanes}));
  auto [tiles, row] = TRY(s.Split(m.var, {kAuto, rows}));
  TRY(s.Order({task, tiles, terms.var, panel, panel_vectors, row, lane}));
  TRY(s.Parallel(task));
  // The sums of a block get the rows and columns of whole tiles, so that what adds them needs no guards.
  TRY((s.Split(block.spatial[1].var, {kAuto, rows})));
  TRY((s.Split(block.spatial[2].var, {kAuto, panels, width})));
  TRY(s.Do(PadBlock{.block = block.name}));
  TRY(s.Do(PadBlock{.block = sum->name}));
  const Choice steps = TRY(PlaceSums(s, sums, terms.var));
  TRY(s.MakeRegisterTile(
      *sum, out,
      {.at = tiles, .below = terms.var, .tile = {panel, panel_vectors, row}, .vector = lane, .lanes = lanes}));
  s.AddStage({.kind = StageModel::kStreams,
              .block = block.name,
              .m_knob = panels.knob,
              .n_knob = width.knob,
              .k_knob = steps.knob,
              .m = m.extent,
              .n = n.extent,
              .k = terms.extent * Iterations(block.reduce) / sums.group,
              .element_bytes = block.element_bytes,
              .column = ModelOf(block, *numbers, sums.group),
              .row_knob = rows.knob,
              .operands = 1 + static_cast<int>(constants.size())});
  s.Call(block.name.str() + ":block_streams");
  return {};
}

}  // namespace autotune
