#include <algorithm>

#include "ir/arithmetic.h"
#include "ir/visit.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

// Returns true if the block has divisions or square roots, which are ten times slower than sums and products.
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

// Work of one element from which storing it costs less than computing it for a reduction and once more, as the two
// roundings in front of a quantized layer normalization.
constexpr double kWorthKeeping = 8;

bool IsTransform(const BlockView& block) { return block.winograd && *block.winograd != topi::WinogradStage::kOutput; }

}  // namespace

// Inlines an element-wise block into its readers, unless that repeats costly work. Costly work is a transcendental
// function that is used more than once, much arithmetic that passes over rows would repeat on a CPU, a quotient or root
// per row that would be computed per element, or a guard (padding) inside a reduction or a transform that reads every
// element many times. The last stage of a Winograd convolution is inlined into the element-wise block that reads it.
// WinogradRule places the other stages.
Status InlineRule(SketchBuilder& s, const BlockView& block, int) {
  if (block.reduction || block.writes_output || IsTransform(block))
    return Err("the block is a reduction, an output or a transform");
  const std::vector<BlockView> blocks = s.Blocks();
  const std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  auto any = [&](auto holds) {
    return std::any_of(consumers.begin(), consumers.end(), [&](const BlockView* c) { return holds(*c); });
  };
  auto writers =
      std::count_if(blocks.begin(), blocks.end(), [&](const BlockView& b) { return b.writes == block.writes; });
  if (consumers.empty() || writers > 1) return Err("the block has no consumer, or other blocks write its buffer, too");
  const bool reduced = any([](const BlockView&c) { return c.reduction; }), several = consumers.size() > 1;
  if (block.guarded && (reduced || any(IsTransform))) return Err("the block's guard would be repeated");
  const bool reads_stage = std::any_of(
      blocks.begin(), blocks.end(), [&](const BlockView& b) { return b.winograd && block.reads.contains(b.writes); });
  if (several && reads_stage) return Err("a transform would be repeated");
  const bool repeated = any([&](const BlockView& c) { return Instances(c) > Instances(block); });
  if (block.transcendental && (reduced || several || repeated))
    return Err("a transcendental function would be repeated");
  const double work = ArithmeticOf(block.node.As<Block>()->body).Cost();
  if (reduced && several && work >= kWorthKeeping && !s.target().IsGpu())
    return Err("much arithmetic would be repeated");
  if (repeated && HasSlowArithmetic(block)) return Err("a quotient or root would be repeated");
  TRY(s.Do(ComputeInline{.block = block.name}));
  return {};
}

}  // namespace autotune
