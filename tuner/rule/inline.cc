#include <algorithm>

#include "ir/visit.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

double Instances(const BlockView& block) {
  double n = 1;
  for (const auto* loops : {&block.spatial, &block.reduce}) {
    for (const BlockView::Loop& loop : *loops) n *= static_cast<double>(loop.extent);
  }
  return n;
}

// Divisions and roots: an order of magnitude dearer than sums and products.
bool HasSlowArithmetic(const BlockView& block) {
  bool found = false;
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Binary* binary = e.As<Binary>();
    const Call* call = e.As<Call>();
    found |= e.dtype().IsFloat() && ((binary && binary->op == BinaryOp::kDiv) || (call && call->op == Op::kSqrt));
    return true;
  });
  return found;
}

// An element-wise block is computed where it is used, unless that repeats costly work: a transcendental function used
// more than once, a quotient or root of a row computed for each element of it, or a guard (padding) inside a reduction
// or a transform that reads every element many times. Of a Winograd convolution, the last stage is computed in the one
// element-wise block that reads it; the others have a rule.
class Inline : public SketchRule {
 public:
  Result<std::vector<SketchState>> Apply(const SketchState& state, const Target&) const override {
    std::vector<BlockView> blocks = ViewBlocks(state.schedule.func());
    for (const BlockView& block : blocks) {
      if (block.reduction || block.writes_output || state.done.count(block.name)) continue;
      std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
      if (consumers.empty()) continue;
      auto writers =
          std::count_if(blocks.begin(), blocks.end(), [&](const BlockView& b) { return b.writes == block.writes; });
      if (writers > 1) continue;
      bool reduced = std::any_of(consumers.begin(), consumers.end(), [](const BlockView* c) { return c->reduction; });
      auto is_stage = [](const BlockView* b) { return b->winograd && *b->winograd != topi::WinogradStage::kOutput; };
      bool transformed = std::any_of(consumers.begin(), consumers.end(), is_stage);
      if (is_stage(&block) || ((reduced || transformed) && block.guarded)) continue;
      if (consumers.size() > 1 && ReadsStage(blocks, block)) continue;
      if (block.transcendental && (reduced || consumers.size() > 1)) continue;
      bool repeated = std::any_of(consumers.begin(), consumers.end(),
                                  [&](const BlockView* c) { return Instances(*c) > Instances(block); });
      if (repeated && (block.transcendental || HasSlowArithmetic(block))) continue;
      SketchState next = state;
      if (!next.Do(ComputeInline{.block = block.name}).ok()) continue;  // not invertible or not alone: stays a stage
      return std::vector<SketchState>{std::move(next)};
    }
    return std::vector<SketchState>{};
  }

 private:
  static bool ReadsStage(const std::vector<BlockView>& blocks, const BlockView& block) {
    return std::any_of(blocks.begin(), blocks.end(),
                       [&](const BlockView& b) { return b.winograd && block.reads.count(b.writes); });
  }
};

}  // namespace

const SketchRule& InlineRule() {
  static const Inline rule;
  return rule;
}

}  // namespace autotune
