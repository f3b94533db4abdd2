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

// Most nodes of expressions that inlining a block may repeat [chosen]. Each load of the block but one repeats its
// expression. Without a limit, each link of a chain doubles its readers, as repeated squaring does. Inlining repeated
// 30 nodes at most in ResNet-50, MobileNet-V2, BERT and LLaMA.
constexpr int64_t kMostRepeated = 1024;

// Returns how many nodes inlining the block would repeat.
int64_t RepeatedNodes(const BlockView& block, const std::vector<const BlockView*>& readers) {
  int64_t nodes = 0, loads = 0;
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr&) { return ++nodes > 0; });
  for (const BlockView* reader : readers)
    ForEachLoad(reader->node, [&](const Load& load) { loads += load.buffer->name == block.writes; });
  return nodes * (loads - 1);
}

// Returns true if different instances of the reader may need the same element of the block. Padding has more instances
// than the block that it pads, but reads each element once.
bool Repeats(const BlockView& block, const BlockView& reader) {
  if (Instances(reader) <= Instances(block)) return false;
  bool once = true;
  ForEachOperand(reader, [&](const Load& load) {
    if (load.buffer->name == block.writes)
      once = once && ReadsOnce(reader, FlatIndex(reader, load.buffer, load.indices));
  });
  return !once;
}

bool IsTransform(const BlockView& block) { return block.winograd && *block.winograd != topi::WinogradStage::kOutput; }

}  // namespace

// Inlines an element-wise block into its readers, unless that repeats costly work. Costly work is a transcendental
// function that is used more than once, much arithmetic that passes over rows would repeat on a CPU, a quotient or root
// per row that would be computed per element, or a guard (padding) inside a reduction or a transform that reads every
// element many times. Nor does it inline what would make a reader's expression too long. The last stage of a Winograd
// convolution is inlined into the element-wise block that reads it. WinogradRule places the other stages.
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
  const bool repeated = any([&](const BlockView& c) { return Repeats(block, c); });
  if (block.transcendental && (reduced || several || repeated))
    return Err("a transcendental function would be repeated");
  const double work = ArithmeticOf(block.node.As<Block>()->body).Cost();
  if (reduced && several && work >= kWorthKeeping && !s.target().IsGpu())
    return Err("much arithmetic would be repeated");
  if (RepeatedNodes(block, consumers) > kMostRepeated) return Err("a long expression would be repeated");
  if (repeated && HasSlowArithmetic(block)) return Err("a quotient or root would be repeated");
  TRY(s.Do(ComputeInline{.block = block.name}));
  return {};
}

}  // namespace autotune
