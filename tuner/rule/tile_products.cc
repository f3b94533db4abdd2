#include <algorithm>

#include "ir/annotations.h"
#include "ir/tile_product.h"
#include "support/integer.h"
#include "tuner/rule/image.h"
#include "tuner/rule/packing.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

// The register tile. Its rows lie at equal distances in memory, since a tile is loaded by one instruction.
struct Shape {
  int64_t rows = 0, row_tiles = 1, columns = 0;
};

// Returns the shape for m rows and n columns; no rows: there is none. `run`: rows that lie at equal distances, from
// each multiple of `run` on.
Shape ShapeOf(int64_t m, int64_t n, int64_t run) {
  Shape shape{.rows = TileRowsOf(run)};
  if (shape.rows == 0) return shape;
  // Two tiles of rows lie at an equal distance if no image row, or every one, ends between them.
  const int64_t tiles = run / shape.rows;
  if ((m / shape.rows) % 2 == 0 && (tiles % 2 == 0 || tiles == 1)) shape.row_tiles = 2;
  // Eight registers hold two by two tiles of sums, or one by three, with their operands.
  int64_t vectors = shape.row_tiles > 1 ? 2 : 3;
  while (n / kTileColumns % vectors != 0) --vectors;
  shape.columns = kTileColumns * vectors;
  return shape;
}

}  // namespace

// Tiling with registers of two dimensions (ir/tile_product.h). The columns are packed in panels of groups, as for
// DotTilingRule; the other operand is read where it is.
//
//   parallel over (outer loops, m_0, n_0)
//     m_1, n_1 (or n_1, m_1)
//       sums = 0
//       loops over the sum; tiles of rows: rows: columns: group: sums += a * b       (these loops are one product)
//       write the sums back through the element-wise epilogue
Status TileProductRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!s.target().has_tiles) return Err("the target has no registers of two dimensions");
  const int64_t group = block.reduction ? DotGroupOf(block) : 0;
  if (group == 0) return Err("it adds no products of bytes or bf16");
  Roles r = RolesOf(block);
  if (r.m.var.empty() || r.n.var.empty() || r.k.empty() || block.guarded)
    return Err("it is no product of two matrices");
  const std::optional<ColumnOperand> columns = FindColumnOperand(s.func(), block, r.m.iter, r.n.iter);
  if (!columns || columns->k_dim < 0) return Err("no columns have the steps of the sum in one dimension");
  if (!columns->constant && r.m.extent < kWorthPacking) return Err("the packed operand would be read too few times");
  const std::optional<RowOperand> rows = FindRowOperand(block, r);
  if (!rows) return Err("the other operand does not have the steps of the sum side by side");
  if (rows->is_conditional) return Err("no instruction multiplies registers of two dimensions under a condition");
  if (r.k.back().extent % group != 0 || r.n.extent % kTileColumns != 0) return Err("it has no whole tiles");
  const ImageModel image = ImageOf(block, r.m.iter);
  const int64_t run = image.row > 0 ? image.row : r.m.extent;
  if (r.m.extent % run != 0) return Err("the rows of the image are cut");
  const Shape shape = ShapeOf(r.m.extent, r.n.extent, run);
  if (shape.rows == 0) return Err("too few rows lie at equal distances");
  const bool n_inside = way > 0;
  int64_t panel_sets = 1;  // different matrices from which columns are packed
  for (const BlockView::Loop& loop : r.outer) panel_sets *= DependsOn(block, columns->buffer, loop) ? loop.extent : 1;

  const WriteBack out = TRY(s.MakeWriteBack(block));
  const int64_t tall = shape.rows * shape.row_tiles;
  Tile m = TRY(s.TileLoop(r.m, {.levels = 3, .max_inner = tall, .multiple_of = tall}));
  Tile n = TRY(s.TileLoop(r.n, {.levels = 3, .max_inner = shape.columns, .multiple_of = shape.columns}));
  const auto [row_tiles, row] = TRY(s.Split(m.inner, {kAuto, shape.rows}));
  const Name panels = TRY(PackColumns(s, block.name, *columns, n.Inner(), group));
  const auto [groups, steps] = TRY(s.Split(r.k.back().var, {kAuto, group}));
  Loops sums(std::vector<BlockView::Loop>(r.k.begin(), r.k.end() - 1));
  sums.list.push_back(groups);
  const Loops parallel = {r.outer, m.outer, n.outer};
  const Loops middle = n_inside ? Loops{m.middle, n.middle} : Loops{n.middle, m.middle};
  TRY(s.Order({parallel, middle, sums, row_tiles, row, n.inner, steps}));
  // The product begins at the first loop over the sum that stays: loops of one iteration disappear.
  const auto first = std::ranges::find_if(r.k, [](const BlockView::Loop& loop) { return loop.extent > 1; });
  const size_t at = std::min<size_t>(static_cast<size_t>(first - r.k.begin()), r.k.size() - 1);
  TRY(s.Do(Annotate{.target = sums.list[at], .key = kTiles, .value = 1}));
  TRY(s.Parallel(parallel));
  Choice panels_at;
  if (!columns->constant) panels_at = TRY(PlacePacked(s, panels, 0, PackingOf(*columns, group), kTileColumns));

  s.Place(out.block);
  std::vector<Name> epilogue = TRY(s.Do(ReverseComputeAt{.block = out.block, .loop = middle.list.back()}));
  if (epilogue.empty()) return Err("the results have no loops");
  const auto [vectors, lanes] = TRY(s.Split(epilogue.back(), {kAuto, kTileColumns}));
  TRY(s.Do(Vectorize{.loop = lanes}));
  TRY(s.Unroll(vectors));
  const std::vector<Name> made = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = sums.list.front()}));
  s.Place(made[0]);
  const auto [zero_vectors, zero_lanes] = TRY(s.Split(made.back(), {kAuto, kTileColumns}));
  TRY(s.Do(Vectorize{.loop = zero_lanes}));
  TRY(s.Unroll(zero_vectors));
  s.Place(block.name);
  s.AddStage({.kind = StageModel::kTiled,
              .block = block.name,
              .m_knob = m.sizes.knob,
              .n_knob = n.sizes.knob,
              .outer = Iterations(r.outer),
              .m = r.m.extent,
              .n = r.n.extent,
              .k = Iterations(r.k) / group,
              .n_inside = n_inside,
              .packed = true,
              .element_bytes = block.element_bytes,
              .location_knob = panels_at.knob,
              .panel_sets = panel_sets,
              .row_bytes = rows->row_bytes,
              .m_image = image,
              .tile_registers = true});
  s.Call(block.name.str() + ":tiles" + (n_inside ? ":mn" : ":nm"));
  return {};
}

}  // namespace autotune
