#include <algorithm>
#include <bit>
#include <optional>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "tuner/rule/packing.h"

namespace autotune {
namespace {

constexpr int64_t kWorthPacking = 12;      // rows that read a column packed at run time, at least
constexpr int64_t kWorthPackingRows = 64;  // columns that read a packed row, at least
constexpr int64_t kWorthAsking = 64;       // steps of a sum whose operands are worth asking for early
constexpr int64_t kPiece = 4;              // elements in a row that are copied at once, at least
constexpr int64_t kMaxPiece = 16;          // a line of memory of 32-bit elements

int64_t ExtentOf(const BlockView& block, int loop) { return loop < 0 ? 1 : block.spatial[loop].extent; }
int NLoop(const BlockView& block) { return static_cast<int>(block.spatial.size()) - 1; }
// Whether an operand that moves with n stands still along this loop: then the rows of a register tile share it.
bool SharesColumns(const BlockView& block, int loop) {
  const Name n_iter = IterOf(block, block.spatial.back().var), iter = IterOf(block, block.spatial[loop].var);
  bool shares = false;
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name == block.writes) return true;
    bool n = false, moves = iter.empty();
    for (const Expr& index : load->indices) {
      n |= UsesVar(index, [&](const Name& v) { return v == n_iter; });
      moves |= UsesVar(index, [&](const Name& v) { return v == iter; });
    }
    shares |= n && !moves;
    return true;
  });
  return shares;
}
// The longest loop but n's, of those that share columns if there are any.
int MLoop(const BlockView& block) {
  int best = -1;
  bool shared = false;
  for (int i = 0; i < NLoop(block); ++i) {
    const bool shares = block.spatial[i].extent > 1 && SharesColumns(block, i);
    if (best < 0 || shares > shared || (shares == shared && block.spatial[i].extent >= block.spatial[best].extent)) {
      best = i;
      shared = shares;
    }
  }
  return best;
}

// One sketch: what is packed, and which of the middle loops is inside.
struct Variant {
  bool n_inside = false;  // the middle loop of n inside m's
  std::optional<ColumnOperand> columns;
  std::optional<RowOperand> rows;
  int64_t row_bytes = 0;  // of the rows' operand, packed or not
  Buffer unpacked_rows;   // what the rows are read from where they are not packed; null: unknown
};

// Returns the number of elements of a vector along n; 0 (scalars) for a single column. A narrow n gets the shortest
// vector that holds all of it, so that the fewest lanes overshoot. Overshooting indices are clamped, which splits an
// otherwise linear address into quotients and remainders.
int64_t LanesFor(int64_t n, const Target& target) {
  const int64_t full = target.VectorLanes(32);
  if (n >= full) return full;
  if (n == 1) return 0;
  return std::min(full, std::max(kShortestVector, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)))));
}

std::vector<Variant> VariantsOf(const PrimFunc& func, const BlockView& view, const Target& target) {
  const int n_index = NLoop(view), m_index = MLoop(view);
  std::vector<Variant> packings;
  int64_t row_bytes = 0;
  Buffer row_buffer;
  if (LanesFor(ExtentOf(view, n_index), target) == 0) {
    packings.emplace_back();
  } else {
    const Name n_iter = IterOf(view, view.spatial[n_index].var);
    const Name m_iter = m_index < 0 ? Name() : IterOf(view, view.spatial[m_index].var);
    const Name k_iter = view.reduce.empty() ? Name() : IterOf(view, view.reduce.back().var);
    std::optional<ColumnOperand> columns = FindColumnOperand(func, view, m_iter, n_iter);
    std::optional<RowOperand> rows = FindRowOperand(view, m_iter, n_iter, k_iter);
    if (rows) row_bytes = rows->row_bytes;
    // A window's rows come again in the next tile: only what a plain product reads is asked for.
    bool one_sum =
        std::count_if(view.reduce.begin(), view.reduce.end(), [](const auto& l) { return l.extent > 1; }) == 1;
    if (rows && one_sum) row_buffer = rows->buffer;
    if (!columns || !columns->constant) packings.emplace_back();
    // What is packed at run time must be read several times to pay.
    const int64_t m = ExtentOf(view, m_index), n = ExtentOf(view, n_index);
    if (columns && (columns->constant || m >= kWorthPacking)) packings.push_back({.columns = columns});
    bool long_enough = !view.reduce.empty() && view.reduce.back().extent % kPiece == 0;
    if (columns && rows && long_enough && m >= kWorthPacking && n >= kWorthPackingRows) {
      packings.push_back({.columns = columns, .rows = rows});
    }
  }
  std::vector<Variant> variants;
  for (bool n_inside : {false, true}) {
    for (Variant variant : packings) {
      variant.n_inside = n_inside;
      variant.row_bytes = row_bytes;
      variant.unpacked_rows = row_buffer;
      variants.push_back(variant);
    }
  }
  return variants;
}

// How an operand splits m, the fused index of an image, into a row and a column.
struct Image {
  int64_t row = 0;  // length; 0: the address is linear in m
  // Rows and columns of the operand: from one row or column of the image to the next, and from the first to the last
  // that one window reads.
  int64_t row_step = 1, row_reach = 0, column_step = 1, column_reach = 0;
};

// (m // W, m % W) of a buffer whose rows are W long is linear: a plain product's.
Image ImageOf(const BlockView& view, const Name& m_iter) {
  auto is = [&](const Expr& e, BinaryOp op) {
    const Binary* b = e.As<Binary>();
    return b && b->op == op && IsVar(b->a, m_iter) ? AsInt(b->b) : nullptr;
  };
  auto divisor_in = [&](const Expr& e, BinaryOp op) {
    int64_t divisor = 0;
    Walk(e, [&](const Expr& part) {
      if (const int64_t* width = is(part, op)) divisor = *width;
      return true;
    });
    return divisor;
  };
  const Block& block = *view.node.As<Block>();
  // The subscript at pixel m of a window's first position, or of its last one.
  auto at = [&](const Expr& subscript, int64_t m, bool last) {
    VarMap values;
    for (const Iter& iter : block.iters) {
      const int64_t* extent = AsInt(iter.extent);
      values[iter.var] = Expr(iter.kind == IterKind::kReduce && last && extent ? *extent - 1 : 0);
    }
    values[m_iter] = Expr(m);
    Expr value = Analyzer().Simplify(Substitute(subscript, values));
    return AsInt(value) ? *AsInt(value) : 0;
  };
  Image image;
  Walk(block.body, nullptr, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load) return true;
    for (size_t d = 0; d < load->indices.size(); ++d) {
      const Expr& subscript = load->indices[d];
      const int64_t* whole = is(subscript, BinaryOp::kFloorMod);
      const int64_t* above = d > 0 ? is(load->indices[d - 1], BinaryOp::kFloorDiv) : nullptr;
      if (whole && above && *whole == *above && IsConst(load->buffer->shape[d], *whole)) continue;
      if (const int64_t width = divisor_in(subscript, BinaryOp::kFloorMod)) {
        image.row = width;
        image.column_step = at(subscript, 1, false) - at(subscript, 0, false);
        image.column_reach = at(subscript, 0, true) - at(subscript, 0, false);
      }
      if (const int64_t width = divisor_in(subscript, BinaryOp::kFloorDiv)) {
        image.row_step = at(subscript, width, false) - at(subscript, 0, false);
        image.row_reach = at(subscript, 0, true) - at(subscript, 0, false);
      }
    }
    return true;
  });
  return image;
}

// Does one operand move with both m and n (as in pooling), so that nothing is broadcast along n?
bool ReadsAlongBoth(const BlockView& view, const Name& m_iter, const Name& n_iter) {
  bool both = false;
  Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (!load || load->buffer->name == view.writes) return true;
    bool m = false, n = false;
    for (const Expr& index : load->indices) {
      m |= UsesVar(index, [&](const Name& v) { return v == m_iter; });
      n |= UsesVar(index, [&](const Name& v) { return v == n_iter; });
    }
    both |= m && n;
    return true;
  });
  return both;
}

// Makes the sketch of one variant.
class Tiler {
 public:
  Tiler(const SketchState& from, const BlockView& block, const Target& target, const Variant& variant)
      : s_(from),
        block_(block),
        variant_(variant),
        n_index_(NLoop(block)),
        m_index_(MLoop(block)),
        m_iter_(m_index_ < 0 ? Name() : IterOf(block, block.spatial[m_index_].var)),
        n_iter_(n_index_ < 0 ? Name() : IterOf(block, block.spatial[n_index_].var)),
        model_(ModelOf()),
        lanes_(LanesFor(model_.n, target)) {}

  Result<SketchState> Run(const std::vector<BlockView>& blocks) {
    TRY(FindWriteBack(blocks));
    TRY(SplitSpatial());
    if (variant_.columns) columns_ = TRY(PackColumns(s_, block_.name, *variant_.columns, RegisterTile(n_tile_)));
    TRY(SplitReduction());
    TRY(Order());
    TRY(PlaceOperands());
    TRY(s_.Do(PadBlock{.block = block_.name}));
    TRY(PlaceWriteBack());
    TRY(UnrollAndVectorize());
    TRY(AskAhead());
    s_.done.insert(block_.name);
    s_.stages.push_back(model_);
    s_.name += std::string(s_.name.empty() ? "" : " ") + block_.name.str() + (variant_.n_inside ? ":mn" : ":nm") +
               (variant_.columns && !variant_.columns->constant ? ":columns" : "") + (variant_.rows ? ":rows" : "");
    return std::move(s_);
  }

 private:
  bool Vectorized() const { return lanes_ > 0; }

  // Its knobs are registered as they are sampled.
  StageModel ModelOf() const {
    StageModel model;
    model.kind = StageModel::kTiled;
    model.n_inside = variant_.n_inside;
    model.element_bytes = block_.element_bytes;
    model.flops = block_.flops;
    for (const BlockView::Loop& loop : block_.reduce) model.k *= loop.extent;
    for (int i = 0; i < n_index_; ++i) {
      if (i != m_index_) model.outer *= block_.spatial[i].extent;
    }
    model.m = ExtentOf(block_, m_index_);
    model.n = ExtentOf(block_, n_index_);
    model.row_bytes = variant_.row_bytes;
    const Image image = ImageOf(block_, m_iter_);
    model.image_row = image.row;
    model.row_step = image.row_step;
    model.row_reach = image.row_reach;
    model.column_step = image.column_step;
    model.column_reach = image.column_reach;
    model.packed = variant_.columns.has_value();
    model.broadcast = variant_.columns || !ReadsAlongBoth(block_, m_iter_, n_iter_);
    return model;
  }

  // Where the tile is written back: through the one element-wise consumer, else by a copy.
  Status FindWriteBack(const std::vector<BlockView>& blocks) {
    registers_ = block_.writes;
    if (const BlockView* consumer = FusedConsumer(s_, blocks, block_)) {
      out_ = consumer->name;
      return {};
    }
    std::vector<Name> made = TRY(s_.Do(CacheWrite{.block = block_.name, .scope = Scope::kGlobal}));
    registers_ = made[0];
    out_ = made[1];
    return {};
  }

  // m and n into (outer, middle, register).
  Status SplitSpatial() {
    if (m_index_ >= 0) {
      const BlockView::Loop& m = block_.spatial[m_index_];
      m_tile_ =
          TRY(s_.Sample(SampleTile{.loop = m.var, .n = 3, .max_inner = std::min(kMaxRows, m.extent), .multiple_of = 1},
                        m.extent, {}, model_.m_knob));
      m_loops_ = TRY(s_.Do(Split{.loop = m.var, .factors = Factors(m_tile_)}));
    }
    if (n_index_ < 0) return {};
    const BlockView::Loop& n = block_.spatial[n_index_];
    if (!Vectorized()) {
      n_loops_ = {n.var};
      return {};
    }
    n_tile_ = TRY(s_.Sample(SampleTile{.loop = n.var,
                                       .n = 3,
                                       .max_inner = lanes_ * std::min(kMaxVectors, (n.extent + lanes_ - 1) / lanes_),
                                       .multiple_of = lanes_},
                            n.extent, {}, model_.n_knob));
    n_loops_ = TRY(s_.Do(Split{.loop = n.var, .factors = Factors(n_tile_)}));
    return {};
  }

  // Unrolls the last reduction loop by a divisor; packed rows come in pieces of it.
  Status SplitReduction() {
    for (const BlockView::Loop& loop : block_.reduce) k_loops_.push_back(loop.var);
    if (block_.reduce.empty()) return {};
    const BlockView::Loop& last = block_.reduce.back();
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= std::min(kMaxPiece, last.extent); ++d) {
      // Pieces of rows are whole vectors; otherwise all divisors will do.
      bool fits = variant_.rows ? d >= kPiece && std::has_single_bit(static_cast<uint64_t>(d)) : d <= kMaxUnroll;
      if (fits && last.extent % d == 0) divisors.push_back(d);
    }
    Name u = TRY(s_.Sample(SampleCategorical{.candidates = divisors, .results = {Name(last.var.str() + "_u")}},
                           last.extent, divisors, model_.k_knob));
    if (variant_.rows) rows_ = TRY(PackRows(s_, block_.name, *variant_.rows, m_tile_, u));
    std::vector<Name> made = TRY(s_.Do(Split{.loop = last.var, .factors = {Factors::kAuto, u}}));
    k_loops_.back() = made[0];
    k_unrolled_ = made[1];
    return {};
  }

  // The order of all loops, the outer ones fused into one parallel loop.
  Status Order() {
    std::vector<Name> order;
    for (int i = 0; i < n_index_; ++i) {
      if (i != m_index_) order.push_back(block_.spatial[i].var);
    }
    if (m_index_ >= 0) order.push_back(m_loops_[0]);
    if (Vectorized()) order.push_back(n_loops_[0]);
    const std::vector<Name> parallel = order;
    if (m_index_ >= 0) middle_.push_back(m_loops_[1]);
    if (Vectorized()) middle_.push_back(n_loops_[1]);
    if (!variant_.n_inside) std::reverse(middle_.begin(), middle_.end());
    if (!Vectorized() && n_index_ >= 0) middle_.push_back(n_loops_[0]);
    order.insert(order.end(), middle_.begin(), middle_.end());
    order.insert(order.end(), k_loops_.begin(), k_loops_.end());
    if (!k_unrolled_.empty()) order.push_back(k_unrolled_);
    if (m_index_ >= 0) order.push_back(m_loops_[2]);
    if (Vectorized()) {
      vectors_ = TRY(s_.Do(Split{.loop = n_loops_[2], .factors = {Factors::kAuto, lanes_}}));
      order.insert(order.end(), vectors_.begin(), vectors_.end());
    }
    TRY(s_.Do(Reorder{.loops = order}));
    if (!middle_.empty()) inner_ = middle_.back();
    if (parallel.empty()) return {};
    Name fused = parallel[0];
    if (parallel.size() > 1) fused = TRY(s_.Do(Fuse{.loops = parallel}))[0];
    TRY(s_.Do(Parallel{.loop = fused}));
    if (middle_.empty()) inner_ = fused;
    return {};
  }

  // The copies that are made at run time.
  Status PlaceOperands() {
    const int64_t deepest = static_cast<int64_t>(middle_.size()) - 1;  // 0: the parallel loop
    if (variant_.columns && !variant_.columns->constant) {
      TRY(PlacePacked(s_, columns_, deepest, Packing::kColumns, lanes_, model_.location_knob));
    }
    if (variant_.rows) TRY(PlacePacked(s_, rows_, deepest, Packing::kRows, lanes_, model_.rows_knob));
    return {};
  }

  Status PlaceWriteBack() {
    s_.done.insert(out_);
    if (inner_.empty()) return {};
    std::vector<Name> loops = TRY(s_.Do(ReverseComputeAt{.block = out_, .loop = inner_}));
    if (Vectorized() && !loops.empty()) {
      std::vector<Name> made = TRY(s_.Do(Split{.loop = loops.back(), .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Vectorize{.loop = made[1]}));
      TRY(s_.Do(Unroll{.loop = made[0]}));
      loops.pop_back();
    }
    for (const Name& loop : loops) TRY(s_.Do(Unroll{.loop = loop}));
    TRY(s_.Do(SetScope{.buffer = registers_, .scope = Scope::kRegister}));
    return {};
  }

  // What is below the last reduction loop, and the same loops around the zeros that it starts from.
  Status UnrollAndVectorize() {
    if (!k_loops_.empty()) {
      std::vector<Name> made = TRY(s_.Do(DecomposeReduction{.block = block_.name, .loop = k_loops_[0]}));
      s_.done.insert(made[0]);
      for (size_t i = 1; i < made.size(); ++i) {
        bool last = i + 1 == made.size();
        if (last && Vectorized()) {
          TRY(s_.Do(Vectorize{.loop = made[i]}));
        } else {
          TRY(s_.Do(Unroll{.loop = made[i]}));
        }
      }
      TRY(s_.Do(Unroll{.loop = k_unrolled_}));
    }
    if (m_index_ >= 0) TRY(s_.Do(Unroll{.loop = m_loops_[2]}));
    if (Vectorized()) {
      TRY(s_.Do(Unroll{.loop = vectors_[0]}));
      TRY(s_.Do(Vectorize{.loop = vectors_[1]}));
    }
    return {};
  }

  // What the next turn of a middle loop reads is asked for in the innermost loop that is not unrolled.
  Status AskAhead() {
    if (k_loops_.empty() || middle_.empty() || block_.reduce.back().extent < kWorthAsking) return {};
    auto prefetch = [&](const Name& buffer, const Name& loop, const char* suffix, int& knob) -> Status {
      std::vector<int64_t> ahead = {0, 1};
      Name n = TRY(s_.Sample(SampleCategorical{.candidates = ahead, .results = {Name(block_.name.str() + suffix)}}, 2,
                             ahead, knob));
      s_.prefetches.push_back(
          {.block = block_.name, .buffer = buffer, .loop = loop, .at = k_loops_.back(), .ahead = n});
      return {};
    };
    // With n inside m, panels stay in the cache, or are read too often to be asked for each time.
    if (variant_.columns && Vectorized() && !variant_.n_inside) {
      TRY(prefetch(columns_, n_loops_[1], "_panel_ahead", model_.panel_ahead_knob));
    }
    if (variant_.unpacked_rows && !variant_.rows && m_index_ >= 0) {
      TRY(prefetch(variant_.unpacked_rows->name, m_loops_[1], "_rows_ahead", model_.rows_ahead_knob));
    }
    return {};
  }

  SketchState s_;
  const BlockView& block_;
  const Variant& variant_;
  const int n_index_, m_index_;
  const Name m_iter_, n_iter_;
  StageModel model_;
  const int64_t lanes_;
  Name out_, registers_;  // the block that writes the tile back, the buffer that holds it
  Name columns_, rows_;   // packing blocks
  Name m_tile_, n_tile_;  // as sampled
  std::vector<Name> m_loops_, n_loops_, k_loops_, middle_, vectors_;
  Name k_unrolled_, inner_;  // inner_: the innermost loop around the whole register tile
};

// Multi-level tiling of a reduction, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008), as a space instead of one choice:
//
//   parallel over (outer loops, m_0, n_0)
//     m_1, n_1 (or n_1, m_1)
//       registers = 0
//       reduction loops; k_1 unrolled: m_2 unrolled: n_2 in vectors: registers += a * b
//       write the registers' tile back through the element-wise epilogue
//
// n is the contiguous dimension of the output, m the longest other one along which columns are used again. Operands may
// be repacked for the register tile (packing.h): a constant one that moves with n always, in prepare; others in some
// sketches.
class Tiling : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (!block.reduction || state.done.count(block.name)) continue;
      std::vector<SketchState> states;
      std::optional<Error> refused;
      bool both = ExtentOf(block, MLoop(block)) > 1 && ExtentOf(block, NLoop(block)) > target.VectorLanes(32);
      for (const Variant& variant : VariantsOf(state.schedule.func(), block, target)) {
        if (variant.n_inside && !both) continue;
        Result<SketchState> tiled = Tiler(state, block, target, variant).Run(blocks);
        if (tiled.ok()) {
          states.push_back(*std::move(tiled));
        } else if (!refused) {
          refused = std::move(tiled).error().Note("while tiling block " + block.name.str());
        }
      }
      // A variant that cannot be made costs itself, not the task.
      if (states.empty() && refused) return *std::move(refused);
      return states;
    }
    return std::vector<SketchState>{};
  }
};

}  // namespace

const SketchRule& TilingRule() {
  static const Tiling rule;
  return rule;
}

}  // namespace autotune
