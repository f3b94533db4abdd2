#include <algorithm>
#include <bit>
#include <optional>

#include "ir/visit.h"
#include "tuner/rule/packing.h"

namespace autotune {
namespace {

constexpr int64_t kMaxRows = 14;   // rows of a register tile: AVX2 has room for 14 one-vector accumulators
constexpr int64_t kMaxUnroll = 8;  // steps of the reduction unrolled
constexpr int64_t kShortestVector = 4;
constexpr int64_t kMaxVectors = 4;         // vectors a row
constexpr int64_t kWorthPacking = 12;      // rows that read a column packed at run time, at least
constexpr int64_t kWorthPackingRows = 64;  // columns that read a packed row, at least
constexpr int64_t kWorthAsking = 64;       // steps of a sum whose operands are worth asking for early
constexpr int64_t kPiece = 4;              // elements in a row that are copied at once, at least
constexpr int64_t kMaxPiece = 16;          // a line of memory of 32-bit elements

// Multi-level tiling of a reduction, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008), as a space instead of one choice:
//
//   parallel over (outer loops, m_0, n_0)
//     m_1, n_1 (or n_1, m_1)
//       registers = 0
//       reduction loops; k_1 unrolled: m_2 unrolled: n_2 in vectors: registers += a * b
//       write the registers' tile back through the element-wise epilogue
//
// n is the contiguous dimension of the output, m the longest other one. Operands may be repacked for the register tile
// (packing.h): a constant one that moves with n always, in prepare; others in some sketches.
class Tiling : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (!block.reduction || state.done.count(block.name)) continue;
      std::vector<SketchState> states;
      bool both = ExtentOf(block, MLoop(block)) > 1 && ExtentOf(block, NLoop(block)) > target.VectorLanes(32);
      for (const Variant& variant : VariantsOf(state.schedule.func(), block, target)) {
        if (variant.n_inside && !both) continue;
        states.push_back(
            TRY_NOTE(Tile(state, block, blocks, target, variant), "while tiling block " + block.name.str()));
      }
      return states;
    }
    return std::vector<SketchState>{};
  }

 private:
  static int64_t ExtentOf(const BlockView& block, int loop) { return loop < 0 ? 1 : block.spatial[loop].extent; }
  static int NLoop(const BlockView& block) { return static_cast<int>(block.spatial.size()) - 1; }
  static int MLoop(const BlockView& block) {
    int best = -1;
    for (int i = 0; i < NLoop(block); ++i) {
      if (best < 0 || block.spatial[i].extent >= block.spatial[best].extent) best = i;
    }
    return best;
  }

  // One sketch.
  struct Variant {
    bool n_inside = false;  // the middle loop of n inside m's
    std::optional<ColumnOperand> columns;
    std::optional<RowOperand> rows;
    int64_t row_bytes = 0;  // of the rows' operand, packed or not
    Buffer unpacked_rows;   // what the rows are read from where they are not packed; null: unknown
  };

  static std::vector<Variant> VariantsOf(const PrimFunc& func, const BlockView& view, const Target& target) {
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

  // Elements of a vector along n; 0: none. Shorter ones where they fit exactly: what overshoots is clamped, which tears
  // an address that is linear otherwise into quotients and remainders.
  static int64_t LanesFor(int64_t n, const Target& target) {
    const int64_t full = target.VectorLanes(32);
    if (n >= full) return full;
    if (n >= kShortestVector && std::has_single_bit(static_cast<uint64_t>(n))) return n;
    return n >= full / 2 && n > 1 ? full : 0;
  }

  static Result<SketchState> Tile(const SketchState& from, const BlockView& block, const std::vector<BlockView>& blocks,
                                  const Target& target, const Variant& variant) {
    SketchState s = from;
    const int n_index = NLoop(block), m_index = MLoop(block);
    StageModel model;
    model.kind = StageModel::kTiled;
    model.n_inside = variant.n_inside;
    model.flops = block.flops;
    for (const BlockView::Loop& loop : block.reduce) model.k *= loop.extent;
    for (int i = 0; i < n_index; ++i) {
      if (i != m_index) model.outer *= block.spatial[i].extent;
    }
    model.m = ExtentOf(block, m_index);
    model.n = ExtentOf(block, n_index);
    const int64_t lanes = LanesFor(model.n, target);
    const bool vectorized = lanes > 0;

    // Where the tile is written back: through the one element-wise consumer, else by a copy.
    const BlockView* consumer = FusedConsumer(from, blocks, block);
    Name out;
    Name registers = block.writes;
    if (consumer) {
      out = consumer->name;
    } else {
      std::vector<Name> made = TRY(s.Do(CacheWrite{.block = block.name, .scope = Scope::kGlobal}));
      registers = made[0];
      out = made[1];
    }

    Name m_iter = m_index < 0 ? Name() : IterOf(block, block.spatial[m_index].var);
    Name n_iter = n_index < 0 ? Name() : IterOf(block, block.spatial[n_index].var);
    model.row_bytes = variant.row_bytes;
    model.image_row = ImageRow(block, m_iter);
    model.packed = variant.columns.has_value();
    model.broadcast = variant.columns || !ReadsAlongBoth(block, m_iter, n_iter);

    Name m_tile, n_tile;
    std::vector<Name> m_loops, n_loops;
    if (m_index >= 0) {
      const BlockView::Loop& m = block.spatial[m_index];
      m_tile =
          TRY(s.Sample(SampleTile{.loop = m.var, .n = 3, .max_inner = std::min(kMaxRows, m.extent), .multiple_of = 1},
                       m.extent, {}, model.m_knob));
      m_loops = TRY(s.Do(Split{.loop = m.var, .factors = Factors(m_tile)}));
    }
    if (n_index >= 0) {
      const BlockView::Loop& n = block.spatial[n_index];
      if (vectorized) {
        n_tile = TRY(s.Sample(SampleTile{.loop = n.var,
                                         .n = 3,
                                         .max_inner = lanes * std::min(kMaxVectors, (n.extent + lanes - 1) / lanes),
                                         .multiple_of = lanes},
                              n.extent, {}, model.n_knob));
        n_loops = TRY(s.Do(Split{.loop = n.var, .factors = Factors(n_tile)}));
      } else {
        n_loops = {n.var};
      }
    }
    Name columns, rows;  // packing blocks
    if (variant.columns) columns = TRY(PackColumns(s, block.name, *variant.columns, RegisterTile(n_tile)));

    // Unroll the last reduction loop by a divisor.
    std::vector<Name> k_loops;
    for (const BlockView::Loop& loop : block.reduce) k_loops.push_back(loop.var);
    Name k_unrolled;
    if (!block.reduce.empty()) {
      const BlockView::Loop& last = block.reduce.back();
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= std::min(kMaxPiece, last.extent); ++d) {
        // Pieces of rows are whole vectors; otherwise all divisors will do.
        bool fits = variant.rows ? d >= kPiece && std::has_single_bit(static_cast<uint64_t>(d)) : d <= kMaxUnroll;
        if (fits && last.extent % d == 0) divisors.push_back(d);
      }
      Name u = TRY(s.Sample(SampleCategorical{.candidates = divisors, .results = {Name(last.var.str() + "_u")}},
                            last.extent, divisors, model.k_knob));
      if (variant.rows) rows = TRY(PackRows(s, block.name, *variant.rows, m_tile, u));
      std::vector<Name> made = TRY(s.Do(Split{.loop = last.var, .factors = {Factors::kAuto, u}}));
      k_loops.back() = made[0];
      k_unrolled = made[1];
    }

    // Order, parallel loop, vectors.
    std::vector<Name> order, parallel;
    for (int i = 0; i < n_index; ++i) {
      if (i != m_index) order.push_back(block.spatial[i].var);
    }
    bool n_outer = vectorized;
    if (m_index >= 0) order.push_back(m_loops[0]);
    if (n_outer) order.push_back(n_loops[0]);
    parallel = order;
    std::vector<Name> middle;
    if (m_index >= 0) middle.push_back(m_loops[1]);
    if (n_outer) middle.push_back(n_loops[1]);
    if (!variant.n_inside) std::reverse(middle.begin(), middle.end());
    if (!n_outer && n_index >= 0) middle.push_back(n_loops[0]);
    order.insert(order.end(), middle.begin(), middle.end());
    order.insert(order.end(), k_loops.begin(), k_loops.end());
    if (!k_unrolled.empty()) order.push_back(k_unrolled);
    if (m_index >= 0) order.push_back(m_loops[2]);
    Name vector_loop;
    if (vectorized) {
      std::vector<Name> made = TRY(s.Do(Split{.loop = n_loops[2], .factors = {Factors::kAuto, lanes}}));
      order.push_back(made[0]);
      order.push_back(made[1]);
      vector_loop = made[1];
    }
    TRY(s.Do(Reorder{.loops = order}));
    Name inner = !middle.empty() ? middle.back() : !parallel.empty() ? parallel.back() : Name();
    if (!parallel.empty()) {
      Name fused_loop = parallel[0];
      if (parallel.size() > 1) fused_loop = TRY(s.Do(Fuse{.loops = parallel}))[0];
      TRY(s.Do(Parallel{.loop = fused_loop}));
      if (middle.empty()) inner = fused_loop;
    }
    const int64_t deepest = static_cast<int64_t>(middle.size()) - 1;  // 0: the parallel loop
    if (variant.columns && !variant.columns->constant) {
      TRY(PlacePacked(s, columns, deepest, Packing::kColumns, lanes, model.location_knob));
    }
    if (variant.rows) TRY(PlacePacked(s, rows, deepest, Packing::kRows, lanes, model.rows_knob));
    TRY(s.Do(PadBlock{.block = block.name}));

    if (!inner.empty()) {
      std::vector<Name> out_loops = TRY(s.Do(ReverseComputeAt{.block = out, .loop = inner}));
      if (vectorized && !out_loops.empty()) {
        std::vector<Name> made = TRY(s.Do(Split{.loop = out_loops.back(), .factors = {Factors::kAuto, lanes}}));
        TRY(s.Do(Vectorize{.loop = made[1]}));
        TRY(s.Do(Unroll{.loop = made[0]}));
        out_loops.pop_back();
      }
      for (const Name& loop : out_loops) TRY(s.Do(Unroll{.loop = loop}));
      TRY(s.Do(SetScope{.buffer = registers, .scope = Scope::kRegister}));
    }
    s.done.insert(out);

    if (!k_loops.empty()) {
      std::vector<Name> made = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = k_loops[0]}));
      s.done.insert(made[0]);
      for (size_t i = 1; i < made.size(); ++i) {
        bool last = i + 1 == made.size();
        if (last && vectorized) {
          TRY(s.Do(Vectorize{.loop = made[i]}));
        } else {
          TRY(s.Do(Unroll{.loop = made[i]}));
        }
      }
      TRY(s.Do(Unroll{.loop = k_unrolled}));
    }
    if (m_index >= 0) TRY(s.Do(Unroll{.loop = m_loops[2]}));
    if (vectorized) {
      TRY(s.Do(Unroll{.loop = order[order.size() - 2]}));
      TRY(s.Do(Vectorize{.loop = vector_loop}));
    }
    if (!k_loops.empty() && !middle.empty()) {
      // What the next turn of a middle loop reads, asked for in the innermost loop that is not unrolled.
      auto prefetch = [&](const Name& buffer, const Name& loop, const char* suffix, int& knob) -> Status {
        std::vector<int64_t> ahead = {0, 1};
        Name n = TRY(s.Sample(SampleCategorical{.candidates = ahead, .results = {Name(block.name.str() + suffix)}}, 2,
                              ahead, knob));
        s.prefetches.push_back({.block = block.name, .buffer = buffer, .loop = loop, .at = k_loops.back(), .ahead = n});
        return {};
      };
      bool long_sum = block.reduce.back().extent >= kWorthAsking;
      // With n inside m, panels stay in the cache, or are read too often to be asked for each time.
      if (variant.columns && vectorized && !variant.n_inside && long_sum) {
        TRY(prefetch(columns, n_loops[1], "_panel_ahead", model.panel_ahead_knob));
      }
      if (variant.unpacked_rows && !variant.rows && m_index >= 0 && long_sum) {
        TRY(prefetch(variant.unpacked_rows->name, m_loops[1], "_rows_ahead", model.rows_ahead_knob));
      }
    }
    s.done.insert(block.name);
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + (variant.n_inside ? ":mn" : ":nm") +
              (variant.columns && !variant.columns->constant ? ":columns" : "") + (variant.rows ? ":rows" : "");
    return s;
  }

  // The length of the rows into which operands split m, the fused index of an image, in such a way that the address is
  // not linear in it; 0: it is. (m // W, m % W) of a buffer whose rows are W long is linear: a plain product's.
  static int64_t ImageRow(const BlockView& view, const Name& m_iter) {
    auto is = [&](const Expr& e, BinaryOp op) {
      const Binary* b = e.As<Binary>();
      return b && b->op == op && IsVar(b->a, m_iter) ? AsInt(b->b) : nullptr;
    };
    int64_t length = 0;
    Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load) return true;
      for (size_t d = 0; d < load->indices.size(); ++d) {
        const int64_t* whole = is(load->indices[d], BinaryOp::kFloorMod);
        const int64_t* above = d > 0 ? is(load->indices[d - 1], BinaryOp::kFloorDiv) : nullptr;
        if (whole && above && *whole == *above && IsConst(load->buffer->shape[d], *whole)) continue;
        Walk(load->indices[d], [&](const Expr& part) {
          if (const int64_t* width = is(part, BinaryOp::kFloorMod)) length = *width;
          return true;
        });
      }
      return true;
    });
    return length;
  }

  // Does one operand move with both m and n (as in pooling), so that nothing is broadcast along n?
  static bool ReadsAlongBoth(const BlockView& view, const Name& m_iter, const Name& n_iter) {
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
};

}  // namespace

const SketchRule& TilingRule() {
  static const Tiling rule;
  return rule;
}

}  // namespace autotune
