#include <algorithm>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kMaxWindowRows = 3;    // most rows of a register tile
constexpr int64_t kMaxPixels = 14;       // most pixels of a row in a register tile
constexpr int64_t kMaxUnrolledRows = 5;  // most rows of a window (and most channels of a group) that are unrolled

// The loops of a block, by their roles for a window that slides over an image.
struct WindowRoles {
  BlockView::Loop rows, pixels, channels;  // `rows` is empty if the image has one dimension
  std::vector<BlockView::Loop> outer;      // the other spatial loops
  int64_t stride = 1;                      // stride of the window along a row
  int64_t lanes = 1;                       // elements of a vector of channels
};

// The reduction loops of a window: serial loops, and loops that are unrolled.
struct Taps {
  Loops serial, unrolled;
  Choice columns, rows, depth;  // unroll factors
};

// Returns the number of elements of a vector of channels. Among the vector lengths that need the fewest vectors it
// takes the shortest, since lanes beyond the last channel are masked.
int64_t ChannelLanes(const BlockView& block, const Target& target) {
  const int64_t channels = block.spatial.back().extent;
  int64_t lanes = LanesOf(block, target);
  while (lanes > ShortestVector(block) && CeilDiv(channels, lanes / 2) == CeilDiv(channels, lanes)) lanes /= 2;
  return lanes;
}

// Returns the distance by which the window moves if the iterator grows by one.
int64_t StrideOf(const BlockView& view, const Name& iter) {
  int64_t stride = 1;
  ForEachOperand(view, [&](const Load& load) {
    for (const Expr& index : load.indices) stride = std::max(stride, ToLinear(index).Coefficient(iter));
  });
  return stride;
}

// Finds the one or two sliding loops, which share a subscript with a reduction. Channels are the last subscript of
// every operand and share it with no row or column of the window. Rows and columns of the window are the last two
// reductions.
Result<WindowRoles> WindowRolesOf(const BlockView& view, const Target& target) {
  if (view.spatial.size() < 2 || view.reduce.empty()) return Err("no window slides");
  WindowRoles r{.channels = view.spatial.back(), .lanes = ChannelLanes(view, target)};
  std::vector<Name> reduce;
  for (const Iter& iter : view.node.As<Block>()->iters) {
    if (iter.kind == IterKind::kReduce) reduce.push_back(iter.var);
  }
  const std::vector<Name> window(reduce.end() - std::min<std::ptrdiff_t>(2, std::ssize(reduce)), reduce.end());
  bool fits = true;
  std::set<size_t> sliding;
  ForEachOperand(view, [&](const Load& load) {
    for (size_t d = 0; d < load.indices.size(); ++d) {
      const Expr& index = load.indices[d];
      auto any = [&](const std::vector<Name>& vars) {
        return std::any_of(vars.begin(), vars.end(), [&](const Name& v) { return UsesVar(index, v); });
      };
      const bool last = d + 1 == load.indices.size(), channels = UsesVar(index, r.channels.iter);
      fits = fits && channels == last && !(last && any(window));
      if (last || !any(reduce)) continue;
      for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
        if (UsesVar(index, view.spatial[i].iter)) sliding.insert(i);
      }
    }
  });
  if (!fits || sliding.empty() || sliding.size() > 2) return Err("no window slides over rows of channels");
  r.pixels = view.spatial[*sliding.rbegin()];
  if (sliding.size() == 2) r.rows = view.spatial[*sliding.begin()];
  for (size_t i = 0; i + 1 < view.spatial.size(); ++i) {
    if (!sliding.contains(i)) r.outer.push_back(view.spatial[i]);
  }
  r.stride = StrideOf(view, r.pixels.iter);
  return r;
}

// Inlines a zero-padded copy of the data into the update, where a zero leaves the sum unchanged. Returns true if the
// update has a condition afterwards.
Result<bool> InlinePadding(SketchBuilder& s, const BlockView& block) {
  const Store* update = block.node.As<Block>()->body.As<Store>();
  const Call* call = update ? update->value.As<Call>() : nullptr;
  const Binary* sum = update ? update->value.As<Binary>() : nullptr;
  bool padded = update && HasNode<Select>(update->value);
  const bool product = (call && call->op == Op::kFma) || (sum && sum->op == BinaryOp::kAdd);
  const std::vector<BlockView> blocks = s.Blocks();
  for (const BlockView& other : blocks) {
    if (!product || !block.reads.count(other.writes) || other.reduction || s.IsPlaced(other.name)) continue;
    const Store* store = other.node.As<Block>()->body.As<Store>();
    const Select* select = store ? store->value.As<Select>() : nullptr;
    if (!select || !IsZero(select->b) || ConsumersOf(blocks, other).size() != 1) continue;
    TRY(s.Do(ComputeInline{.block = other.name}));
    padded = true;
  }
  return padded;
}

// Unrolls the columns of the window by a chosen factor. Unrolls rows, and channels of a group, completely or not at
// all.
Result<Taps> UnrollWindow(SketchBuilder& s, const BlockView& block) {
  Taps taps;
  size_t inside = block.reduce.size();  // number of loops from `loop` inwards
  for (const BlockView::Loop& loop : block.reduce) {
    const bool column = inside == 1, row = inside == 2, depth = inside == 3;
    --inside;
    if (!column && !row && !depth) {
      taps.serial.list.push_back(loop.var);
      continue;
    }
    std::vector<int64_t> steps = {1};
    if (column) {
      steps = Divisors(loop.extent, kMaxPixels);
    } else if (loop.extent > 1 && loop.extent <= kMaxUnrolledRows) {
      steps.push_back(loop.extent);
    }
    const Unrolled made = TRY(s.UnrollReduction(loop, steps));
    (column ? taps.columns : row ? taps.rows : taps.depth) = made.factor;
    taps.serial.list.push_back(made.outer);
    taps.unrolled.list.push_back(made.inner);
  }
  return taps;
}

// Returns true if the input, over which the windows slide, is larger than the last-level cache.
bool SlidesOverMemory(const BlockView& block, const WindowRoles& r, const Target& target) {
  return block.element_bytes * Iterations(block.spatial) * r.stride * r.stride > target.l3_bytes;
}

// Prefetches, inside loop `at`, the operands that depend on `rows`, for the next iteration of `loop`.
Result<Choice> AskForNextRows(SketchBuilder& s, const BlockView& block, const Name& rows, const Name& loop,
                              const Name& at) {
  const std::vector<BlockView> blocks = s.Blocks();
  std::set<Name> sliding;
  ForEachOperand(*FindBlock(blocks, block.name), [&](const Load& load) {
    auto moves = [&](const Expr& index) { return UsesVar(index, rows); };
    if (std::any_of(load.indices.begin(), load.indices.end(), moves)) sliding.insert(load.buffer->name);
  });
  std::vector<Prefetch> wanted;
  for (const Name& buffer : sliding) wanted.push_back({.block = block.name, .buffer = buffer, .loop = loop, .at = at});
  return s.ChoosePrefetches(block.name.str() + "_rows_ahead", wanted, {0, 1});
}

StageModel WindowModel(const BlockView& block, const WindowRoles& r, const Taps& taps) {
  StageModel model{.kind = StageModel::kWindow,
                   .block = block.name,
                   .outer = Iterations(r.outer),
                   .m = r.pixels.extent,
                   .n = r.channels.extent,
                   .element_bytes = block.element_bytes};
  model.rows = r.rows.extent;
  size_t inside = block.reduce.size();
  for (const BlockView::Loop& loop : block.reduce) {
    (inside == 1 ? model.k : inside == 2 ? model.window_rows : model.depth) *= loop.extent;
    --inside;
  }
  model.k_knob = taps.columns.knob;
  model.row_knob = taps.rows.knob;
  model.depth_knob = taps.depth.knob;
  model.stride = r.stride;
  model.lanes = r.lanes;
  model.operands = static_cast<int>(block.reads.size());
  return model;
}

}  // namespace

// Places sliding windows in which an output channel depends on one input channel (depthwise convolution, pooling) or on
// a few neighbouring ones (a convolution across groups). It computes whole vectors of channels. Only a few outputs use
// each input, so a padded copy of the input would cost as much as the work itself.
//
//   parallel over (outer loops, c_0, h_0)
//     w_0, c_1 (or c_1, w_0)
//       registers = 0
//       window rows; channels of a group; window columns unrolled: h_1 unrolled: w_1 unrolled: c_2 in vectors:
//         registers += x * w
//       write the registers' tile back through the element-wise epilogue
//
// Padding is a condition of the update instead of a copy. Lowering turns it into guards, peels the few tiles at the
// ends of a row that need the guards, and tests each row once.
Status WindowRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!block.reduction) return Err("the block is not a reduction");
  const bool channels_inside = way == 0;
  const WindowRoles r = TRY(WindowRolesOf(block, s.target()));
  if (!channels_inside && r.channels.extent <= r.lanes) return Err("a single vector of channels has only one order");
  const bool padded = TRY(InlinePadding(s, block));
  const WriteBack out = TRY(s.MakeWriteBack(block));
  // Channels are padded to whole vectors before other loops are split, so that the guards of those loops stay.
  Tile h, w, c;
  if (!r.rows.var.empty())
    h = TRY(s.ChooseTile(r.rows, {.levels = 2, .max_inner = std::min(kMaxWindowRows, r.rows.extent)}));
  w = TRY(s.ChooseTile(r.pixels, {.levels = 2, .max_inner = std::min(kMaxPixels, r.pixels.extent)}));
  const int64_t most = std::min(kMaxVectors, CeilDiv(r.channels.extent, r.lanes));
  c = TRY(s.TileLoop(r.channels, {.levels = 3, .max_inner = r.lanes * most, .multiple_of = r.lanes}));
  TRY(s.Do(PadBlock{.block = block.name}));
  if (!r.rows.var.empty()) TRY(s.SplitTile(r.rows.var, h));
  TRY(s.SplitTile(r.pixels.var, w));
  const Taps taps = TRY(UnrollWindow(s, block));

  // If many images come from memory, one task computes the tiles of an image in order, and each tile prefetches the
  // rows of the next one. Hardware prefetchers would load these rows too late.
  const bool in_order = !h.outer.empty() && Iterations(r.outer) >= kTasksPerCore * s.target().num_cores &&
                        SlidesOverMemory(block, r, s.target());
  const Loops images = {r.outer, c.outer};
  const Loops middle = channels_inside ? Loops{w.outer, c.middle} : Loops{c.middle, w.outer};
  auto [vectors, vector] = TRY(s.Split(c.inner, {kAuto, r.lanes}));
  const Loops tile = {h.inner, w.inner, vectors};
  TRY(s.Order({images, h.outer, middle, taps.serial, taps.unrolled, tile, vector}));
  TRY(s.Parallel(in_order ? images : Loops{images, h.outer}));
  TRY(s.Do(Annotate{.target = w.outer, .key = kPeel, .value = 1}));
  const Name inner = middle.list.back();
  TRY(s.MakeRegisterTile(block, out,
                         {.at = inner,
                          .below = taps.serial.list.front(),
                          .steps = taps.unrolled,
                          .tile = tile,
                          .vector = vector,
                          .lanes = r.lanes}));
  if (padded) s.Try(SkipPadding{.block = block.name});  // other kinds of conditions stay
  Choice rows_ahead;
  if (in_order) rows_ahead = TRY(AskForNextRows(s, block, r.rows.iter, h.outer, inner));

  StageModel model = WindowModel(block, r, taps);
  model.n_inside = channels_inside;
  model.h_knob = h.sizes.knob;
  model.m_knob = w.sizes.knob;
  model.n_knob = c.sizes.knob;
  model.rows_ahead_knob = rows_ahead.knob;
  model.rows_in_order = in_order;
  model.epilogue_flops = out.flops;
  s.AddStage(model);
  s.Call(block.name.str() + (channels_inside ? ":wc" : ":cw"));
  return {};
}

}  // namespace autotune
