#include <algorithm>

#include "arith/analyzer.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kMaxWindowRows = 3;    // rows of a register tile
constexpr int64_t kMaxPixels = 14;       // pixels of a row in a register tile
constexpr int64_t kMaxUnrolledRows = 5;  // taller windows keep their loop over rows, deeper ones over channels

// Returns the number of elements of a vector of channels: the shortest vectors among those that need the fewest, since
// lanes beyond the last channel are masked.
int64_t LanesOf(int64_t channels, const Target& target) {
  int64_t lanes = target.VectorLanes(32);
  while (lanes > kShortestVector && CeilDiv(channels, lanes / 2) == CeilDiv(channels, lanes)) lanes /= 2;
  return lanes;
}

// Sliding windows that take every channel for itself (depthwise convolution, pooling), or a few near it (a convolution
// across groups), whole vectors of them: nothing is broadcast, each input is used by a few neighbouring outputs only,
// and a copy of the input with its padding would cost as much as the work.
//
//   parallel over (outer loops, c_0, h_0)
//     w_0, c_1 (or c_1, w_0)
//       registers = 0
//       window rows; channels of a group; window columns unrolled: h_1 unrolled: w_1 unrolled: c_2 in vectors:
//         registers += x * w
//       write the registers' tile back through the element-wise epilogue
//
// Padding is a condition of the update, not a copy: lowering turns it into guards, peels the few tiles at the ends of a
// row in which it matters, and tests rows once each.
class Window : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      Axes axes;
      if (!block.reduction || state.done.count(block.name) || !FindAxes(block, target, axes)) continue;
      std::vector<SketchState> states;
      for (bool channels_inside : {true, false}) {
        if (!channels_inside && block.spatial[axes.c].extent <= axes.lanes) continue;
        states.push_back(TRY_NOTE(Place(state, block, blocks, axes, channels_inside, target),
                                  "while placing the windows of block " + block.name.str()));
      }
      return states;
    }
    return std::vector<SketchState>{};
  }

 private:
  struct Axes {  // indices into the block's spatial loops
    int h = -1, w = -1, c = -1;
    int64_t stride = 1;  // along w
    int64_t lanes = 0;   // of vectors along c
  };

  static bool FindAxes(const BlockView& view, const Target& target, Axes& axes) {
    axes.c = static_cast<int>(view.spatial.size()) - 1;
    if (axes.c < 1 || view.reduce.empty()) return false;
    axes.lanes = LanesOf(view.spatial[axes.c].extent, target);
    std::vector<Name> reduce;
    for (const Iter& iter : view.node.As<Block>()->iters) {
      if (iter.kind == IterKind::kReduce) reduce.push_back(iter.var);
    }
    const size_t window = reduce.size() - std::min<size_t>(2, reduce.size());  // from there on: its rows and columns
    std::vector<Name> spatial;
    for (const BlockView::Loop& loop : view.spatial) spatial.push_back(IterOf(view, loop.var));
    auto uses = [](const Expr& e, const Name& var) { return UsesVar(e, [&](const Name& v) { return v == var; }); };
    bool fits = true;
    std::set<int> sliding;
    Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load || load->buffer->name == view.writes) return true;
      for (size_t d = 0; d < load->indices.size(); ++d) {
        const Expr& index = load->indices[d];
        bool last = d + 1 == load->indices.size();
        auto reduced = [&](size_t from) {
          return std::any_of(reduce.begin() + static_cast<std::ptrdiff_t>(from), reduce.end(),
                             [&](const Name& v) { return uses(index, v); });
        };
        if (last) {
          fits = fits && !reduced(window) && uses(index, spatial[axes.c]);
          continue;
        }
        bool reduces = reduced(0);
        fits = fits && !uses(index, spatial[axes.c]);
        for (int i = 0; i < axes.c; ++i) {
          if (reduces && uses(index, spatial[i])) sliding.insert(i);
        }
      }
      return true;
    });
    if (!fits || sliding.empty() || sliding.size() > 2) return false;
    axes.w = *sliding.rbegin();
    if (sliding.size() == 2) axes.h = *sliding.begin();
    axes.stride = StrideOf(view, spatial[axes.w]);
    return true;
  }

  // By how much the window moves with the iterator.
  static int64_t StrideOf(const BlockView& view, const Name& iter) {
    int64_t stride = 1;
    Walk(view.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load || load->buffer->name == view.writes) return true;
      for (const Expr& index : load->indices) stride = std::max(stride, ToLinear(index).Coefficient(iter));
      return true;
    });
    return stride;
  }

  // A copy of the data with zeros around it disappears into the update, whose product makes its zeros neutral. Tells
  // whether the update has a condition then.
  static Result<bool> InlinePadding(SketchState& s, const BlockView& block, const std::vector<BlockView>& blocks) {
    const Store* update = block.node.As<Block>()->body.As<Store>();
    const Call* call = update ? update->value.As<Call>() : nullptr;
    const Binary* sum = update ? update->value.As<Binary>() : nullptr;
    bool padded = update && HasNode<Select>(update->value);
    bool product = (call && call->op == Op::kFma) || (sum && sum->op == BinaryOp::kAdd);
    for (const BlockView& other : blocks) {
      if (!product || !block.reads.count(other.writes) || other.reduction || s.done.count(other.name)) continue;
      const Store* store = other.node.As<Block>()->body.As<Store>();
      const Select* select = store ? store->value.As<Select>() : nullptr;
      const FloatImm* fill = select ? select->b.As<FloatImm>() : nullptr;
      if (!fill || fill->value != 0 || ConsumersOf(blocks, other).size() != 1) continue;
      TRY(s.Do(ComputeInline{.block = other.name}));
      padded = true;
    }
    return padded;
  }

  static std::vector<int64_t> Divisors(int64_t n, int64_t limit) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= std::min(n, limit); ++d) {
      if (n % d == 0) divisors.push_back(d);
    }
    return divisors;
  }

  // Whether what the windows slide over is more than a core's share of the last cache.
  static bool FromMemory(const BlockView& block, const Axes& axes, const Target& target) {
    int64_t elements = 1;
    for (const BlockView::Loop& loop : block.spatial) elements *= loop.extent;
    return 4 * elements * axes.stride * axes.stride > target.l3_bytes;
  }

  // What the block reads at rows that follow `h`.
  static Status AskForNextRows(SketchState& s, const BlockView& block, const Name& h, const Name& loop, const Name& at,
                               StageModel& model) {
    std::vector<BlockView> blocks = ViewBlocks(s.schedule.func());
    const BlockView& now = *FindBlock(blocks, block.name);
    std::set<Name> sliding;
    Walk(now.node.As<Block>()->body, nullptr, [&](const Expr& e) {
      const Load* load = e.As<Load>();
      if (!load || load->buffer->name == now.writes) return true;
      for (const Expr& index : load->indices) {
        if (UsesVar(index, [&](const Name& v) { return v == h; })) sliding.insert(load->buffer->name);
      }
      return true;
    });
    std::vector<Prefetch> wanted;
    for (const Name& buffer : sliding)
      wanted.push_back({.block = block.name, .buffer = buffer, .loop = loop, .at = at, .ahead = 1});
    return s.SampleAhead(wanted, block.name.str() + "_rows_ahead", {0, 1}, model.rows_ahead_knob);
  }

  static Result<SketchState> Place(const SketchState& from, const BlockView& block,
                                   const std::vector<BlockView>& blocks, const Axes& axes, bool channels_inside,
                                   const Target& target) {
    SketchState s = from;
    const int64_t lanes = axes.lanes;
    StageModel model{.kind = StageModel::kWindow, .element_bytes = block.element_bytes, .flops = block.flops};
    model.n_inside = channels_inside;
    model.stride = axes.stride;
    model.lanes = lanes;
    model.operands = static_cast<int>(block.reads.size());
    bool padded = TRY(InlinePadding(s, block, blocks));

    const BlockView* consumer = FusedConsumer(from, blocks, block);
    Name out, registers = block.writes;
    if (consumer) {
      out = consumer->name;
      model.epilogue_flops = consumer->flops;
    } else {
      std::vector<Name> made = TRY(s.Do(CacheWrite{.block = block.name, .scope = Scope::kGlobal}));
      registers = made[0];
      out = made[1];
    }

    // Tiles. Channels are padded to whole vectors before other loops are split, whose guards stay.
    std::vector<Name> h_loops, w_loops, c_loops;
    const BlockView::Loop &w = block.spatial[axes.w], &c = block.spatial[axes.c];
    Name h_tile;
    if (axes.h >= 0) {
      const BlockView::Loop& h = block.spatial[axes.h];
      model.rows = h.extent;
      h_tile = TRY(s.Sample(SampleTile{.loop = h.var, .n = 2, .max_inner = std::min(kMaxWindowRows, h.extent)},
                            h.extent, {}, model.h_knob));
    }
    model.m = w.extent;
    model.n = c.extent;
    Name w_tile = TRY(s.Sample(SampleTile{.loop = w.var, .n = 2, .max_inner = std::min(kMaxPixels, w.extent)}, w.extent,
                               {}, model.m_knob));
    Name c_tile = TRY(s.Sample(SampleTile{.loop = c.var,
                                          .n = 3,
                                          .max_inner = lanes * std::min(kMaxVectors, CeilDiv(c.extent, lanes)),
                                          .multiple_of = lanes},
                               c.extent, {}, model.n_knob));
    c_loops = TRY(s.Do(Split{.loop = c.var, .factors = Factors(c_tile)}));
    TRY(s.Do(PadBlock{.block = block.name}));
    if (axes.h >= 0) h_loops = TRY(s.Do(Split{.loop = block.spatial[axes.h].var, .factors = Factors(h_tile)}));
    w_loops = TRY(s.Do(Split{.loop = w.var, .factors = Factors(w_tile)}));

    // The window: columns unrolled as far as they go; rows, and channels of a group, all or not at all.
    std::vector<Name> serial, unrolled;
    for (size_t i = 0; i < block.reduce.size(); ++i) {
      const BlockView::Loop& loop = block.reduce[i];
      const size_t inside = block.reduce.size() - 1 - i;  // loops inside this one
      bool column = inside == 0, row = inside == 1;
      (column ? model.k : row ? model.window_rows : model.depth) *= loop.extent;
      if (inside > 2) {
        serial.push_back(loop.var);
        continue;
      }
      std::vector<int64_t> steps = {1};
      if (column) {
        steps = Divisors(loop.extent, kMaxPixels);
      } else if (loop.extent > 1 && loop.extent <= kMaxUnrolledRows) {
        steps.push_back(loop.extent);
      }
      int& knob = column ? model.k_knob : row ? model.row_knob : model.depth_knob;
      Name u = TRY(s.Sample(SampleCategorical{.candidates = steps, .results = {Name(loop.var.str() + "_u")}},
                            loop.extent, steps, knob));
      std::vector<Name> made = TRY(s.Do(Split{.loop = loop.var, .factors = {Factors::kAuto, u}}));
      serial.push_back(made[0]);
      unrolled.push_back(made[1]);
    }

    // Order, parallel loop, vectors.
    std::vector<Name> order;
    for (int i = 0; i < axes.c; ++i) {
      if (i == axes.h || i == axes.w) continue;
      order.push_back(block.spatial[i].var);
      model.outer *= block.spatial[i].extent;
    }
    order.push_back(c_loops[0]);
    if (!h_loops.empty()) order.push_back(h_loops[0]);
    std::vector<Name> parallel = order;
    // Many images from memory: the tiles of one follow one another, and each asks for the next one's rows, which no
    // prefetcher does in time.
    const bool in_order =
        !h_loops.empty() && model.outer >= kTasksPerCore * target.num_cores && FromMemory(block, axes, target);
    if (in_order) parallel.pop_back();
    order.push_back(channels_inside ? w_loops[0] : c_loops[1]);
    order.push_back(channels_inside ? c_loops[1] : w_loops[0]);
    Name inner = order.back();
    order.insert(order.end(), serial.begin(), serial.end());
    order.insert(order.end(), unrolled.begin(), unrolled.end());
    std::vector<Name> tile;
    if (!h_loops.empty()) tile.push_back(h_loops[1]);
    tile.push_back(w_loops[1]);
    std::vector<Name> vectors = TRY(s.Do(Split{.loop = c_loops[2], .factors = {Factors::kAuto, lanes}}));
    tile.push_back(vectors[0]);
    order.insert(order.end(), tile.begin(), tile.end());
    order.push_back(vectors[1]);
    TRY(s.Do(Reorder{.loops = order}));
    Name fused = parallel[0];
    if (parallel.size() > 1) fused = TRY(s.Do(Fuse{.loops = parallel}))[0];
    TRY(s.Do(Parallel{.loop = fused}));
    TRY(s.Do(Annotate{.target = w_loops[0], .key = kPeel, .value = 1}));

    std::vector<Name> out_loops = TRY(s.Do(ReverseComputeAt{.block = out, .loop = inner}));
    std::vector<Name> halves = TRY(s.Do(Split{.loop = out_loops.back(), .factors = {Factors::kAuto, lanes}}));
    TRY(s.Do(Vectorize{.loop = halves[1]}));
    out_loops.back() = halves[0];
    for (const Name& loop : out_loops) TRY(s.Do(Unroll{.loop = loop}));
    TRY(s.Do(SetScope{.buffer = registers, .scope = Scope::kRegister}));
    s.done.insert(out);

    std::vector<Name> init = TRY(s.Do(DecomposeReduction{.block = block.name, .loop = serial[0]}));
    s.done.insert(init[0]);
    for (size_t i = 1; i + 1 < init.size(); ++i) TRY(s.Do(Unroll{.loop = init[i]}));
    TRY(s.Do(Vectorize{.loop = init.back()}));
    for (const Name& loop : unrolled) TRY(s.Do(Unroll{.loop = loop}));
    for (const Name& loop : tile) TRY(s.Do(Unroll{.loop = loop}));
    TRY(s.Do(Vectorize{.loop = vectors[1]}));
    if (padded) (void)s.Do(SkipPadding{.block = block.name});  // a condition of another kind stays one
    if (in_order) TRY(AskForNextRows(s, block, IterOf(block, block.spatial[axes.h].var), h_loops[0], inner, model));
    s.done.insert(block.name);
    s.stages.push_back(model);
    s.name += std::string(s.name.empty() ? "" : " ") + block.name.str() + (channels_inside ? ":wc" : ":cw");
    return s;
  }
};

}  // namespace

const SketchRule& WindowRule() {
  static const Window rule;
  return rule;
}

}  // namespace autotune
