#include "topi/winograd.h"

#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using topi::WinogradStage;

// The stages of a Winograd convolution around its product. With many groups of tiles,
//
//   parallel over groups: { data, transformed; products; outputs, transformed back }
//
// so that what passes between the stages stays in the core's cache; with one, three parallel loops behind each other.
// A product of one point (y, x) is a matrix product with a register tile; the weights are transformed and packed into
// panels in `prepare`. Both one-dimensional transforms of a tile are unrolled, over a few vectors of channels, their
// intermediate in a buffer of that size.
class Winograd : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    const BlockView* product = Find(blocks, WinogradStage::kProduct);
    if (!product || state.done.count(product->name)) return std::vector<SketchState>{};
    Placer placer(state, blocks, *product, target);
    if (!placer.Fits()) return std::vector<SketchState>{};
    SketchState next = TRY_NOTE(placer.Place(), "while placing block " + product->name.str());
    return std::vector<SketchState>{std::move(next)};
  }

 private:
  static const BlockView* Find(const std::vector<BlockView>& blocks, WinogradStage stage) {
    for (const BlockView& block : blocks) {
      if (block.winograd == stage) return &block;
    }
    return nullptr;
  }

  class Placer {
   public:
    Placer(const SketchState& state, const std::vector<BlockView>& blocks, const BlockView& product,
           const Target& target)
        : s_(state),
          blocks_(blocks),
          product_(product),
          weight_rows_(*Find(blocks, WinogradStage::kWeightRows)),
          weight_(*Find(blocks, WinogradStage::kWeight)),
          rows_(*Find(blocks, WinogradStage::kRows)),
          data_(*Find(blocks, WinogradStage::kData)),
          back_(*Find(blocks, WinogradStage::kBack)),
          target_(target),
          lanes_(target.VectorLanes(32)) {
      std::vector<const BlockView*> consumers = ConsumersOf(blocks, back_);
      if (consumers.size() == 1) out_ = consumers[0];
      for (const BlockView& block : blocks) {
        if (rows_.reads.count(block.writes)) pad_ = &block;
      }
      groups_ = Extent(0) * Extent(1) * Extent(2);
      tile_ = back_.spatial[3].extent;
    }

    // Whether the output is one element-wise block over (n, h, w, c).
    bool Fits() const { return out_ && !out_->reduction && out_->spatial.size() == 4; }

    Result<SketchState> Place() {
      std::vector<Name> copied =
          TRY(s_.Do(CacheWrite{.block = product_.name, .scope = Scope::kGlobal}));  // buffer, block, loops
      TRY(Output());
      TRY(Product(copied[0], copied[1], {copied.begin() + 2, copied.end()}));
      TRY(Weight());
      TRY(Data());
      for (const BlockView* block : {&product_, &weight_rows_, &weight_, &rows_, &data_, &back_, out_})
        s_.done.insert(block->name);
      s_.done.insert(copied[1]);
      s_.name += std::string(s_.name.empty() ? "" : " ") + product_.name.str() + (InGroups() ? ":groups" : ":whole");
      return std::move(s_);
    }

   private:
    bool InGroups() const { return groups_ > 1; }
    // Of a loop of the product: n, gh, gw, y, x, t, oc.
    int64_t Extent(size_t loop) const { return product_.spatial[loop].extent; }
    int64_t Channels() const { return product_.reduce[0].extent; }

    // A choice of how many vectors of `extent` elements are worked on together.
    Result<Name> SampleVectors(const Name& name, int64_t extent, int& knob) {
      std::vector<int64_t> counts = {1, 2};
      std::erase_if(counts, [&](int64_t u) { return u > 1 && u * lanes_ > extent; });
      return s_.Sample(SampleCategorical{.candidates = counts, .results = {name}}, extent, counts, knob);
    }

    Result<Name> FusedParallel(const std::vector<Name>& loops) {
      Name fused = loops[0];
      if (loops.size() > 1) fused = TRY(s_.Do(Fuse{.loops = loops}))[0];
      TRY(s_.Do(Parallel{.loop = fused}));
      return fused;
    }

    // Loops (outermost first) unrolled, but for the last: in vectors.
    Status Straighten(const std::vector<Name>& loops) {
      for (size_t i = 0; i + 1 < loops.size(); ++i) TRY(s_.Do(Unroll{.loop = loops[i]}));
      TRY(s_.Do(Vectorize{.loop = loops.back()}));
      return {};
    }

    Status Output() {
      std::vector<Name> loop;
      for (const BlockView::Loop& l : out_->spatial) loop.push_back(l.var);
      int64_t groups_h = Extent(1), groups_w = Extent(2);
      auto tiles = [&](int dim, int64_t groups) { return CeilDiv(CeilDiv(out_->spatial[dim].extent, tile_), groups); };
      std::vector<Name> h = TRY(s_.Do(Split{.loop = loop[1], .factors = {Factors::kAuto, tiles(1, groups_h), tile_}}));
      std::vector<Name> w = TRY(s_.Do(Split{.loop = loop[2], .factors = {Factors::kAuto, tiles(2, groups_w), tile_}}));
      StageModel model = Transform(out_->spatial[3].extent, tile_);
      Name u = TRY(SampleVectors(Name(out_->name.str() + "_u"), out_->spatial[3].extent, model.k_knob));
      std::vector<Name> c = TRY(s_.Do(Split{.loop = loop[3], .factors = {Factors::kAuto, u, lanes_}}));
      std::vector<Name> tile = {loop[0], h[0], w[0]}, inner = {h[1], w[1]};
      if (!InGroups()) tile = {loop[0], h[0], h[1], w[0], w[1]}, inner.clear();
      std::vector<Name> order = tile;
      order.insert(order.end(), inner.begin(), inner.end());
      order.insert(order.end(), {c[0], c[1], h[2], w[2], c[2]});
      TRY(s_.Do(Reorder{.loops = order}));
      Name parallel = TRY(FusedParallel(tile));
      if (InGroups()) group_ = parallel;
      std::vector<Name> back = TRY(s_.Do(ComputeAt{.block = back_.name, .loop = c[0]}));
      TRY(Straighten({c[1], h[2], w[2], c[2]}));
      std::vector<Name> v = TRY(s_.Do(Split{.loop = back[6], .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Reorder{.loops = {back[4], v[0], back[3], v[1]}}));
      TRY(Straighten({back[4], v[0], back[3], v[1]}));
      s_.stages.push_back(model);
      return {};
    }

    Status Product(const Name& registers, const Name& copy, std::vector<Name> loop) {
      if (InGroups()) loop = TRY(s_.Do(ComputeAt{.block = copy, .loop = group_}));
      StageModel model{.kind = StageModel::kBatched, .element_bytes = product_.element_bytes};
      model.tasks = InGroups() ? groups_ : 0;
      model.outer = Extent(3) * Extent(4) * (InGroups() ? groups_ : 1);
      model.m = Extent(5);
      model.n = Extent(6);
      model.k = Channels();
      model.packed = true;
      Name t_tile =
          TRY(s_.Sample(SampleTile{.loop = loop[5], .n = 2, .max_inner = std::min(kMaxRows, model.m), .multiple_of = 1},
                        model.m, {}, model.m_knob));
      int64_t most = lanes_ * std::min(kMaxVectors, CeilDiv(model.n, lanes_));
      oc_tile_ = TRY(s_.Sample(SampleTile{.loop = loop[6], .n = 2, .max_inner = most, .multiple_of = lanes_}, model.n,
                               {}, model.n_knob));
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= std::min(kMaxUnroll, model.k); ++d) {
        if (model.k % d == 0) divisors.push_back(d);
      }
      Name k_unroll = TRY(
          s_.Sample(SampleCategorical{.candidates = divisors, .results = {Name(product_.reduce[0].var.str() + "_u")}},
                    model.k, divisors, model.k_knob));
      std::vector<Name> t = TRY(s_.Do(Split{.loop = loop[5], .factors = Factors(t_tile)}));
      std::vector<Name> oc = TRY(s_.Do(Split{.loop = loop[6], .factors = Factors(oc_tile_)}));
      TRY(s_.Do(Reorder{.loops = {loop[3], loop[4], oc[0], t[0], t[1], oc[1]}}));
      Name panels = oc[0];
      if (!InGroups()) panels = TRY(FusedParallel({loop[3], loop[4], oc[0]}));
      std::vector<Name> p = TRY(s_.Do(ComputeAt{.block = product_.name, .loop = t[0]}));
      std::vector<Name> v = TRY(s_.Do(Split{.loop = oc[1], .factors = {Factors::kAuto, lanes_}}));
      TRY(Straighten({t[1], v[0], v[1]}));

      std::vector<Name> c = TRY(s_.Do(Split{.loop = p[7], .factors = {Factors::kAuto, k_unroll}}));
      v = TRY(s_.Do(Split{.loop = p[6], .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Reorder{.loops = {c[0], c[1], p[5], v[0], v[1]}}));
      TRY(s_.Do(PadBlock{.block = product_.name}));
      TRY(s_.Do(SetScope{.buffer = registers, .scope = Scope::kRegister}));
      std::vector<Name> init = TRY(s_.Do(DecomposeReduction{.block = product_.name, .loop = c[0]}));
      s_.done.insert(init[0]);
      TRY(Straighten({init.begin() + 1, init.end()}));
      TRY(Straighten({c[1], p[5], v[0], v[1]}));
      // Transformed weights are several times the original ones, and come from far: the next panel is asked for early.
      std::vector<int64_t> ahead = {0, 1};
      Name n =
          TRY(s_.Sample(SampleCategorical{.candidates = ahead, .results = {Name(product_.name.str() + "_panel_ahead")}},
                        2, ahead, model.panel_ahead_knob));
      s_.prefetches.push_back(
          {.block = product_.name, .buffer = weight_.writes, .loop = panels, .at = c[0], .ahead = n});
      s_.stages.push_back(model);
      return {};
    }

    // [y, x, panel, c, oc within the panel]
    Status Weight() {
      IndexMap map;
      IntArg width = Name(oc_tile_.str() + ".1");
      map.dims = {{0, 1, 0}, {1, 1, 0}, {3, width, 0}, {2, 1, 0}, {3, 1, width}};
      std::vector<Name> loop = TRY(s_.Do(TransformLayout{.buffer = weight_.writes, .map = map}));
      std::vector<Name> v = TRY(s_.Do(Split{.loop = loop[4], .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Reorder{.loops = {loop[2], loop[3], v[0], loop[0], loop[1], v[1]}}));
      TRY(s_.Do(Parallel{.loop = loop[2]}));
      TRY(Straighten({loop[0], loop[1], v[1]}));
      loop = TRY(s_.Do(ComputeAt{.block = weight_rows_.name, .loop = v[0]}));
      TRY(s_.Do(Reorder{.loops = {loop[1], loop[0], loop[2], loop[3]}}));
      TRY(Straighten({loop[1], loop[0], loop[3]}));
      return {};
    }

    Status Data() {
      std::vector<Name> loop;
      for (const BlockView::Loop& l : data_.spatial) loop.push_back(l.var);
      if (InGroups()) loop = TRY(s_.Do(ComputeAt{.block = data_.name, .loop = group_}));
      StageModel model = Transform(Channels(), tile_ + 2);
      Name u = TRY(SampleVectors(Name(data_.name.str() + "_u"), Channels(), model.k_knob));
      std::vector<Name> c = TRY(s_.Do(Split{.loop = loop[6], .factors = {Factors::kAuto, u, lanes_}}));
      TRY(s_.Do(Reorder{.loops = {loop[5], c[0], loop[3], c[1], loop[4], c[2]}}));
      Name inner = c[0];
      if (!InGroups()) inner = TRY(FusedParallel({loop[5], c[0]}));
      TRY(Straighten({loop[3], c[1], loop[4], c[2]}));
      std::vector<Name> r = TRY(s_.Do(ComputeAt{.block = rows_.name, .loop = inner}));
      std::vector<Name> v = TRY(s_.Do(Split{.loop = r[6], .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Reorder{.loops = {r[5], v[0], r[3], v[1]}}));
      TRY(Straighten({r[5], v[0], r[3], v[1]}));
      if (pad_) TRY(Pad(model));
      s_.stages.push_back(model);
      return {};
    }

    // The padded copy: of a whole group, of one tile, of the channels of a tile at a time; or at the root.
    Status Pad(StageModel& model) {
      int64_t depth = 0;
      for (const BlockView& block : ViewBlocks(s_.schedule.func())) {
        if (block.name == rows_.name) depth = static_cast<int64_t>(block.spatial.size());
      }
      // Around the rows' seven iterators (one of them in vectors): [group, n, gh, gw,] t, c; or the two fused.
      std::vector<int64_t> depths = {0, depth - 10, depth - 9};
      if (!InGroups()) depths = {-1, depth - 9};
      Name at = TRY(s_.Sample(SampleComputeLocation{.block = pad_->name}, 0, depths, model.location_knob));
      std::vector<Name> loop = TRY(s_.Do(ComputeAt{.block = pad_->name, .loop = at}));
      std::vector<Name> c = TRY(s_.Do(Split{.loop = loop[3], .factors = {Factors::kAuto, lanes_}}));
      TRY(s_.Do(Vectorize{.loop = c[1]}));
      TRY(s_.Do(Parallel{.loop = loop[1]}));
      s_.done.insert(pad_->name);
      return {};
    }

    // One of the two transforms: `width` x (tile + 2) elements for each tile and channel.
    StageModel Transform(int64_t channels, int64_t width) const {
      StageModel model{.kind = StageModel::kTransform, .element_bytes = product_.element_bytes};
      model.tasks = InGroups() ? groups_ : 0;
      model.outer = groups_;
      model.m = Extent(5);
      model.n = channels;
      model.k = width * (tile_ + 2);
      model.read_bytes = model.write_bytes =
          static_cast<double>(model.element_bytes * model.m * channels * Extent(3) * Extent(4));
      return model;
    }

    SketchState s_;
    const std::vector<BlockView>& blocks_;
    const BlockView &product_, &weight_rows_, &weight_, &rows_, &data_, &back_;
    const BlockView *out_ = nullptr, *pad_ = nullptr;
    const Target& target_;
    int64_t lanes_, groups_ = 1, tile_ = 4;
    Name group_;    // the parallel loop over groups
    Name oc_tile_;  // the product's tile of output channels
  };
};

}  // namespace

const SketchRule& WinogradRule() {
  static const Winograd rule;
  return rule;
}

}  // namespace autotune
