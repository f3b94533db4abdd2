#include <algorithm>
#include <bit>
#include <optional>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/dot.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "tuner/rule/image.h"
#include "tuner/rule/packing.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kWorthPackingRows = 64;     // least number of columns for which rows are packed
constexpr int64_t kWorthAsking = 64;          // least steps of a sum whose operands are prefetched
constexpr int64_t kMostConditions = 1 << 14;  // most evaluations of a condition: about 1 us each, so 16 ms in all

// Which operands are packed. The rule has one way for each of these kinds and each of the two orders of the middle
// loops.
enum Packed { kNothing, kColumns, kColumnsAndRows, kPackedKinds };

// Returns true if the subscripts of one operand use both m and n, as in pooling. Then no operand is broadcast along n.
bool ReadsAlongBoth(const BlockView& view, const Roles& r) {
  bool both = false;
  ForEachOperand(view, [&](const Load& load) {
    auto moves = [&](const Name& iter) {
      return std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return UsesVar(i, iter); });
    };
    both |= moves(r.m.iter) && moves(r.n.iter);
  });
  return both;
}

// Tiles one block in one way.
class Tiler {
 public:
  // `group`: steps of the sum that one instruction takes (StepsOfDot), or 1.
  Tiler(SketchBuilder& s, const BlockView& block, int64_t group)
      : s_(s), block_(block), r_(RolesOf(block)), lanes_(TileLanes(block, r_.n.extent, s.target())), group_(group) {}

  Status Run(int way) {
    TRY(Choose(static_cast<Packed>(way % kPackedKinds), way >= kPackedKinds));
    if (group_ > 1) TRY(CheckGroups(r_, columns_, rows_, lanes_, group_));
    WriteBack out = TRY(s_.MakeWriteBack(block_));
    TRY(TileRows());
    if (lanes_ > 0) {
      const int64_t most = std::min(kMaxVectors, CeilDiv(r_.n.extent, lanes_));
      n_ = TRY(s_.TileLoop(r_.n, {.levels = 3, .max_inner = lanes_ * most, .multiple_of = lanes_}));
    }
    if (columns_) panels_ = TRY(PackColumns(s_, block_.name, *columns_, n_.Inner(), group_));
    TRY(SplitReduction());
    TRY(Order());
    TRY(PlaceOperands());
    TRY(s_.Do(PadBlock{.block = block_.name}));
    TRY(s_.MakeRegisterTile(block_, out,
                            {.at = inner_,
                             .below = sums_.list.empty() ? Name() : sums_.list.front(),
                             .steps = k_.inner,
                             .tile = {m_.inner, vectors_},
                             .vector = vector_,
                             .lanes = lanes_,
                             .vectors_first = true}));
    if (const double met = MetShare(); met < 1 && s_.Try(SkipPadding{.block = block_.name})) met_ = met;
    if (group_ > 1 && met_ == 1 && HasSelect(block_)) return Err("a condition inside a group cannot be skipped");
    TRY(AskAhead());
    s_.AddStage(Model());
    s_.Call(block_.name.str() + (group_ > 1 ? ":dots" : "") + (n_inside_ ? ":mn" : ":nm") +
            (columns_ && !columns_->constant ? ":columns" : "") + (pack_rows_ ? ":rows" : ""));
    return {};
  }

 private:
  // Chooses the operands to pack, and the order of the middle loops. Packing at run time pays only if the packed data
  // is read several times.
  Status Choose(Packed packed, bool n_inside) {
    const int64_t m = r_.m.extent, n = r_.n.extent;
    if (n_inside && (m == 1 || n <= LanesOf(block_, s_.target())))
      return Err("a single middle loop has only one order");
    n_inside_ = n_inside;
    pack_rows_ = packed == kColumnsAndRows;
    if (lanes_ > 0) {
      columns_ = FindColumnOperand(s_.func(), block_, r_.m.iter, r_.n.iter);
      rows_ = FindRowOperand(block_, r_);
      if (rows_ && rows_->is_conditional && group_ == 1) rows_.reset();
    }
    if (packed == kNothing) {
      if (columns_ && columns_->constant) return Err("constants are always packed");
      columns_.reset();
      return {};
    }
    if (!columns_) return Err("no operand depends on n and not on m");
    if (packed == kColumns ? !columns_->constant && m < kWorthPacking : m < kWorthPacking || n < kWorthPackingRows)
      return Err("the packed operand would be read too few times");
    if (pack_rows_ && (!rows_ || rows_->is_slice || r_.k.back().extent % ShortestVector(block_) != 0))
      return Err("no operand's rows are whole vectors");
    return {};
  }

  // Tiles the rows. The outer loops that the packed columns do not depend on, such as the images of a batch, become one
  // loop, of which each task computes a chosen number of iterations inside its loop over panels: a panel then comes
  // from a far cache once for all of them.
  Status TileRows() {
    if (r_.m.var.empty()) return {};
    std::vector<BlockView::Loop> shared, others;
    for (const BlockView::Loop& loop : r_.outer)
      (columns_ && loop.extent > 1 && !ColumnsDependOn(loop) ? shared : others).push_back(loop);
    if (!shared.empty()) {
      TRY(s_.Order({others, shared, r_.m.var}));
      const Name all = TRY(s_.FuseLoops(shared));
      shared_ = Iterations(shared);
      turns_ = TRY(s_.Choose(all.str() + "_turns", Divisors(shared_, shared_)));
      auto [outer, inner] = TRY(s_.Split(all, {kAuto, turns_}));
      turns_outer_ = outer, turns_inner_ = inner;
      r_.outer = others;
    }
    m_ = TRY(s_.TileLoop(r_.m, {.levels = 3, .max_inner = std::min(kMaxRows, r_.m.extent)}));
    if (shared.empty()) return {};
    TRY(s_.Order({turns_outer_, m_.outer, turns_inner_, m_.middle}));
    m_.middle = TRY(s_.FuseLoops({turns_inner_, m_.middle}));
    return {};
  }

  bool ColumnsDependOn(const BlockView::Loop& loop) const { return DependsOn(block_, columns_->buffer, loop); }

  // Unrolls the last reduction loop by a divisor of its extent. Packed rows have pieces of that length.
  Status SplitReduction() {
    sums_ = r_.k;
    if (r_.k.empty()) return {};
    BlockView::Loop last = r_.k.back();
    if (group_ > 1) {
      auto [groups, steps] = TRY(s_.Split(last.var, {kAuto, group_}));
      last.var = groups, steps_ = steps;
      last.extent /= group_;
    }
    std::vector<int64_t> steps = Divisors(last.extent, kMaxUnroll);
    if (pack_rows_) {  // whole vectors, at most a cache line
      steps = Divisors(last.extent, s_.target().cache_line / block_.lane_bytes, ShortestVector(block_));
      std::erase_if(steps, [](int64_t d) { return !std::has_single_bit(static_cast<uint64_t>(d)); });
    }
    k_.factor = TRY(s_.ChooseUnroll(last, std::move(steps)));
    if (pack_rows_) packed_rows_ = TRY(PackRows(s_, block_.name, *rows_, m_.Inner(), k_.factor));
    TRY(s_.SplitUnrolled(last.var, k_));
    sums_.list.back() = k_.outer;
    return {};
  }

  // Orders all loops and fuses the outer ones into one parallel loop. Consecutive tasks write pieces of the same rows
  // of the result, so cores that get ranges of tasks share few cache lines.
  Status Order() {
    std::vector<BlockView::Loop> outer, pieces;
    for (const BlockView::Loop& loop : r_.outer) (IsInsideRows(loop) ? pieces : outer).push_back(loop);
    pieces_ = Iterations(pieces);
    const Loops parallel = {outer, turns_outer_, m_.outer, pieces, n_.outer};
    middle_ = n_inside_ ? Loops{m_.middle, n_.middle} : Loops{n_.middle, m_.middle};
    if (lanes_ > 0) {
      auto [vectors, vector] = TRY(s_.Split(n_.inner, {kAuto, lanes_}));
      vectors_ = vectors, vector_ = vector;
    } else {
      middle_ = {middle_, r_.n.var};
    }
    TRY(s_.Order({parallel, middle_, sums_, k_.inner, m_.inner, vectors_, vector_, steps_}));
    if (group_ > 1) TRY(s_.Do(Annotate{.target = steps_, .key = kDot, .value = 1}));
    const Name task = TRY(s_.Parallel(parallel));
    inner_ = middle_.list.empty() ? task : middle_.list.back();
    return {};
  }

  // Returns true if the loop is inside the loop over m in the program, whose loops have the order of the result.
  bool IsInsideRows(const BlockView::Loop& loop) const {
    auto at = [&](const Name& var) { return std::ranges::find(block_.spatial, var, &BlockView::Loop::var); };
    return !r_.m.var.empty() && at(r_.m.var) < at(loop.var);
  }

  // Places the copies that are made at run time.
  Status PlaceOperands() {
    const int64_t deepest = static_cast<int64_t>(middle_.list.size()) - 1;  // 0: the parallel loop
    if (columns_ && !columns_->constant)
      panels_at_ = TRY(PlacePacked(s_, panels_, deepest, PackingOf(*columns_, group_), lanes_));
    if (pack_rows_) rows_at_ = TRY(PlacePacked(s_, packed_rows_, deepest, Packing::kRows, lanes_));
    return {};
  }

  // Prefetches the operands of the next iteration of a middle loop, inside the innermost loop that is not unrolled.
  Status AskAhead() {
    if (sums_.list.empty() || middle_.list.empty() || r_.k.back().extent < kWorthAsking) return {};
    auto ask = [&](const Name& buffer, const Name& loop, const char* suffix) {
      return s_.ChoosePrefetches(block_.name.str() + suffix,
                                 {{.block = block_.name, .buffer = buffer, .loop = loop, .at = k_.outer}}, {0, 1});
    };
    // If n is inside m, panels either stay in the cache, or are read again and again, so that prefetches cost too much.
    if (columns_ && !n_inside_) panel_ahead_ = TRY(ask(panels_, n_.middle, "_panel_ahead"));
    // Windows of the next tile mostly read rows that are already in the cache, so only the rows of a plain product are
    // prefetched.
    const bool one_sum = std::count_if(r_.k.begin(), r_.k.end(), [](const auto& l) { return l.extent > 1; }) == 1;
    if (rows_ && !rows_->is_slice && !rows_->is_conditional && one_sum && !pack_rows_)
      rows_ahead_ = TRY(ask(rows_->buffer->name, m_.middle, "_rows_ahead"));
    return {};
  }

  // Returns the share of the steps of the sum for which the condition of the update's select holds, on average over all
  // results. Returns 1 if there is no condition, if it depends on the position in a register tile, or if it has too
  // many values to count.
  double MetShare() const {
    const Select* select = nullptr;
    Walk(block_.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      if (!select) select = e.As<Select>();
      return !select;
    });
    if (!select || UsesVar(select->condition, r_.m.iter) || UsesVar(select->condition, r_.n.iter)) return 1;
    if (HasNode<Load>(select->condition)) return 1;  // known at run time only
    int64_t all = 1, met = 0;
    std::vector<std::pair<Name, int64_t>> iters;  // of the condition, with their extents
    for (const Iter& iter : block_.node.As<Block>()->iters) {
      const int64_t* extent = AsInt(iter.extent);
      if (!UsesVar(select->condition, iter.var)) continue;
      if (!extent) return 1;
      iters.emplace_back(iter.var, *extent);
      all *= *extent;
    }
    if (all > kMostConditions) return 1;
    for (int64_t i = 0; i < all; ++i) {
      VarMap values;
      int64_t rest = i;
      for (const auto& [var, extent] : iters) {
        values[var] = Expr(rest % extent);
        rest /= extent;
      }
      met += Analyzer().Proves(Substitute(select->condition, values));
    }
    return static_cast<double>(met) / static_cast<double>(all);
  }

  // Returns the number of different matrices from which columns are packed: the product of the outer loops that the
  // operand's subscripts use.
  int64_t PanelSets() const {
    int64_t sets = 1;
    for (const BlockView::Loop& loop : r_.outer) sets *= columns_ && ColumnsDependOn(loop) ? loop.extent : 1;
    return sets;
  }

  StageModel Model() const {
    return {.kind = StageModel::kTiled,
            .block = block_.name,
            .m_knob = m_.sizes.knob,
            .n_knob = n_.sizes.knob,
            .k_knob = k_.factor.knob,
            .shared = shared_,
            .turns_knob = turns_.knob,
            .outer = Iterations(r_.outer),
            .m = r_.m.extent,
            .n = r_.n.extent,
            // A group is a step with operands as wide as a result.
            .k = Iterations(r_.k) / group_,
            .pieces = pieces_,
            .n_inside = n_inside_,
            .packed = columns_.has_value(),
            .broadcast = columns_ || !ReadsAlongBoth(block_, r_),
            .element_bytes = block_.element_bytes,
            .location_knob = panels_at_.knob,
            .rows_knob = rows_at_.knob,
            .panel_sets = PanelSets(),
            .panel_ahead_knob = panel_ahead_.knob,
            .rows_ahead_knob = rows_ahead_.knob,
            .row_bytes = rows_ ? rows_->row_bytes : 0,
            .m_image = ImageOf(block_, r_.m.iter),
            .met = met_,
            .added_apart = group_ > 1 && AddsWords(block_)};
  }

  SketchBuilder& s_;
  const BlockView& block_;
  Roles r_;
  const int64_t lanes_, group_;
  Name steps_;  // the loop over the steps of a group
  bool n_inside_ = false, pack_rows_ = false;
  int64_t pieces_ = 1;                    // of each row of the result
  double met_ = 1;                        // share of the steps of the sum that are not skipped
  std::optional<ColumnOperand> columns_;  // set if it is packed
  std::optional<RowOperand> rows_;        // set even if it is not packed
  Name panels_, packed_rows_;             // the blocks that pack columns and rows
  int64_t shared_ = 1;                    // iterations of the outer loops that share the columns
  Choice turns_;                          // how many of them a task computes
  Name turns_outer_, turns_inner_;        // the loops over the tasks and over the iterations of a task
  Choice panels_at_, rows_at_, panel_ahead_, rows_ahead_;
  Tile m_, n_;
  Unrolled k_;
  Loops sums_, middle_;  // reduction loops that are not unrolled; loops between the parallel loop and the sums
  Name vectors_, vector_, inner_;
};

}  // namespace

// Multi-level tiling of a reduction, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008), with the tile sizes and orders left to the search:
//
//   parallel over (outer loops, m_0, outer loops inside a row of the result, n_0)
//     m_1, n_1 (or n_1, m_1); m_1 includes a part of the outer loops that share the columns
//       registers = 0
//       reduction loops; k_1 unrolled: m_2 unrolled: n_2 in vectors: registers += a * b
//       write the registers' tile back through the element-wise epilogue
//
// Operands may be repacked for the register tile (packing.h). A constant operand that depends on n is always packed, in
// `prepare`; other operands are packed in some of the ways. Steps of a sum that meet padding at every position of a
// register tile are skipped.
Status TilingRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!block.reduction) return Err("the block is not a reduction");
  return Tiler(s, block, 1).Run(way);
}

// The same, with steps in groups whose products one instruction adds.
Status DotTilingRule(SketchBuilder& s, const BlockView& block, int way) {
  if (!block.reduction) return Err("the block is not a reduction");
  const int64_t steps = StepsOfDot(block, s.target());
  if (steps == 1) return Err("it adds no products that an instruction of the target adds in groups");
  return Tiler(s, block, steps).Run(kColumns + way * kPackedKinds);
}

}  // namespace autotune
