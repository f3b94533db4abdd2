#include <algorithm>

#include "ir/visit.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kMaxRows = 14;    // rows of a register tile: AVX2 has room for 14 one-vector accumulators
constexpr int64_t kMaxUnroll = 8;   // steps of the reduction unrolled
constexpr int64_t kMaxVectors = 4;  // vectors a row

// Multi-level tiling of a reduction, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication"
// (2008), as a space instead of one choice:
//
//   parallel over (outer loops, m_0, n_0)
//     m_1, n_1 (or n_1, m_1)
//       registers = 0
//       reduction loops; k_1 unrolled: m_2 unrolled: n_2 in vectors: registers += a * b
//       write the registers' tile back through the element-wise epilogue
//
// n is the contiguous dimension of the output, m the longest other one. A constant operand that moves with n but not
// with m is repacked, once, into panels as wide as the register tile.
class Tiling : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (!block.reduction || state.done.count(block.name)) continue;
      std::vector<SketchState> states;
      bool both = ExtentOf(block, MLoop(block)) > 1 && ExtentOf(block, NLoop(block)) > target.VectorLanes(32);
      for (bool n_inside : {false, true}) {
        if (n_inside && !both) continue;
        states.push_back(
            TRY_NOTE(Tile(state, block, blocks, target, n_inside), "while tiling block " + block.name.str()));
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

  // The constant operand that moves with n but not with m, if any: its buffer and the dimension that n indexes.
  static bool PackedOperand(const PrimFunc& func, const BlockView& view, const Name& m_iter, const Name& n_iter,
                            Buffer& buffer, int& dim) {
    const Block& block = *view.node.As<Block>();
    bool found = false, unfit = false;
    Walk(block.body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load) return true;
      auto param = std::find_if(func.params.begin(), func.params.end(),
                                [&](const Param& p) { return p.buffer->name == load->buffer->name; });
      if (param == func.params.end() || param->role != ParamRole::kConstant) return true;
      int n_dim = -1;
      bool moves_with_m = false;
      for (size_t i = 0; i < load->indices.size(); ++i) {
        const Var* var = load->indices[i].As<Var>();
        if (var && var->name == n_iter) {
          if (n_dim >= 0) unfit = true;
          n_dim = static_cast<int>(i);
        } else if (UsesVar(load->indices[i], [&](const Name& v) { return v == n_iter; })) {
          unfit = true;
        }
        moves_with_m |= !m_iter.empty() && UsesVar(load->indices[i], [&](const Name& v) { return v == m_iter; });
      }
      if (n_dim < 0 || moves_with_m) return true;
      if (found && buffer->name != load->buffer->name) unfit = true;
      found = true;
      buffer = load->buffer;
      dim = n_dim;
      return true;
    });
    return found && !unfit;
  }

  static Result<SketchState> Tile(const SketchState& from, const BlockView& block, const std::vector<BlockView>& blocks,
                                  const Target& target, bool n_inside) {
    SketchState s = from;
    const int64_t lanes = target.VectorLanes(32);
    const int n_index = NLoop(block), m_index = MLoop(block);
    StageModel model;
    model.kind = StageModel::kTiled;
    model.n_inside = n_inside;
    model.flops = block.flops;
    for (const BlockView::Loop& loop : block.reduce) model.k *= loop.extent;
    for (int i = 0; i < n_index; ++i) {
      if (i != m_index) model.outer *= block.spatial[i].extent;
    }
    model.m = ExtentOf(block, m_index);
    model.n = ExtentOf(block, n_index);
    bool vectorized = n_index >= 0 && model.n >= lanes / 2 && model.n > 1;

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

    // A constant operand becomes panels of the register tile's width.
    Name m_iter = m_index < 0 ? Name() : IterOf(block, block.spatial[m_index].var);
    Name n_iter = n_index < 0 ? Name() : IterOf(block, block.spatial[n_index].var);
    Buffer operand;
    int n_dim = 0;
    bool packed = vectorized && PackedOperand(s.schedule.func(), block, m_iter, n_iter, operand, n_dim);
    model.packed = packed;
    model.broadcast = packed || !ReadsAlongBoth(block, m_iter, n_iter);

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
    if (packed) {
      std::vector<Name> made =
          TRY(s.Do(CacheRead{.block = block.name, .buffer = operand->name, .scope = Scope::kGlobal}));
      IndexMap map;
      map.dims.push_back({n_dim, IntArg(Name(n_tile.str() + ".2")), 0});
      for (int64_t d = 0; d < static_cast<int64_t>(operand->shape.size()); ++d) {
        if (d != n_dim) map.dims.push_back({d, 1, 0});
      }
      map.dims.push_back({n_dim, 1, IntArg(Name(n_tile.str() + ".2"))});
      TRY(s.Do(TransformLayout{.buffer = made[0], .map = map}));
      s.done.insert(made[0]);  // runs in prepare
    }

    // Unroll the last reduction loop by a divisor.
    std::vector<Name> k_loops;
    for (const BlockView::Loop& loop : block.reduce) k_loops.push_back(loop.var);
    Name k_unrolled;
    if (!block.reduce.empty()) {
      const BlockView::Loop& last = block.reduce.back();
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= std::min(kMaxUnroll, last.extent); ++d) {
        if (last.extent % d == 0) divisors.push_back(d);
      }
      Name u = TRY(s.Sample(SampleCategorical{.candidates = divisors, .results = {Name(last.var.str() + "_u")}},
                            last.extent, divisors, model.k_knob));
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
    if (n_inside) std::reverse(middle.begin(), middle.end());
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
    s.done.insert(block.name);
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + (n_inside ? ":mn" : ":nm");
    return s;
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
