#include <algorithm>

#include "ir/visit.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

constexpr int64_t kWorthForking = 16384;  // elements below which a fork costs more than it saves
constexpr int64_t kTasksPerCore = 8;      // enough to balance, few enough to be cheap

// Blocks without data reuse: outer loops fused and run in parallel; the last one in vectors. The
// producer of a tiled reduction (a padded copy of its input) may also be computed inside the reduction's loops.
class Streaming : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target& target) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (block.reduction || state.done.count(block.name)) continue;
      SketchState next = TRY_NOTE(Place(state, block, blocks, target), "while placing block " + block.name.str());
      return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  static Result<SketchState> Place(const SketchState& from, const BlockView& block,
                                   const std::vector<BlockView>& blocks, const Target& target) {
    SketchState s = from;
    const int64_t lanes = target.VectorLanes(32);
    StageModel model;
    model.flops = std::max(1.0, block.flops);
    std::vector<Name> loops;
    int64_t total = 1;
    for (const BlockView::Loop& loop : block.spatial) {
      loops.push_back(loop.var);
      total *= loop.extent;
    }
    model.m = total;
    model.read_bytes =
        4.0 * static_cast<double>(total * std::max<int64_t>(1, static_cast<int64_t>(block.reads.size())));
    model.write_bytes = 4.0 * static_cast<double>(total);
    int64_t last = block.spatial.empty() ? 1 : block.spatial.back().extent;

    // A producer of exactly one tiled reduction may move into it.
    std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
    bool movable =
        !block.writes_output && consumers.size() == 1 && consumers[0]->reduction && from.done.count(consumers[0]->name);
    if (movable) {
      const BlockView& reduction = *consumers[0];
      std::vector<int64_t> depths = {-1};
      for (int64_t d = 0; d < std::min<int64_t>(2, static_cast<int64_t>(reduction.spatial.size())); ++d)
        depths.push_back(d);
      Name at = TRY(s.Sample(SampleComputeLocation{.block = block.name}, 0, depths, model.location_knob));
      loops = TRY(s.Do(ComputeAt{.block = block.name, .loop = at}));
      for (size_t i = 0; i < s.stages.size(); ++i) {
        if (s.stages[i].kind == StageModel::kTiled) model.consumer = static_cast<int>(i);
      }
    }

    Name vector_loop;
    if (!loops.empty() && last >= lanes) {
      std::vector<int64_t> unrolls = {1, 2, 4};
      std::erase_if(unrolls, [&](int64_t u) { return u > 1 && u * lanes > last; });
      Name u = TRY(s.Sample(SampleCategorical{.candidates = unrolls, .results = {Name(block.name.str() + "_u")}}, last,
                            unrolls, model.k_knob));
      std::vector<Name> made = TRY(s.Do(Split{.loop = loops.back(), .factors = {Factors::kAuto, u, lanes}}));
      loops.back() = made[0];
      vector_loop = made[2];
      TRY(s.Do(Vectorize{.loop = vector_loop}));
      TRY(s.Do(Unroll{.loop = made[1]}));
    }
    // The fewest outer loops that give every core several tasks are shared out; inside a reduction's parallel loop they
    // stay serial.
    if (total >= kWorthForking && !loops.empty()) {
      std::vector<Name> outer;
      int64_t tasks = 1;
      size_t usable = std::max<size_t>(1, loops.size() - (vector_loop.empty() || loops.size() == 1 ? 0 : 1));
      for (size_t i = 0; i < usable && tasks < kTasksPerCore * target.num_cores; ++i) {
        outer.push_back(loops[i]);
        tasks *= block.spatial[i].extent;
      }
      Name fused = outer[0];
      if (outer.size() > 1) fused = TRY(s.Do(Fuse{.loops = outer}))[0];
      TRY(s.Do(Parallel{.loop = fused}));
      model.outer = tasks;
      model.m = std::max<int64_t>(1, total / tasks);
    }
    s.done.insert(block.name);
    s.stages.push_back(model);
    return s;
  }
};

}  // namespace

const SketchRule& StreamingRule() {
  static const Streaming rule;
  return rule;
}

}  // namespace autotune
