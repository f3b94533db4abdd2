// Products of few rows with weights in blocks, as DequantizeLinear and MatMulNBits have them:
//
//   sum over all terms k of x[k] (s[block of k] w[k])  ->  sum over the blocks b of s[b] (sum over k in b of x[k] w[k])
//
// w are constants that fit a byte, and stay bytes, or two a byte if they fit 4 bits: a product of one row takes as long
// as its weights need from memory. Numbers from -15 to 15, as unsigned ones of 4 bits minus
// their zero points are, are stored as w + z from -8 to 7:
//
//   sum over k in b of x[k] w[k]  =  sum over k in b of x[k] (w[k] + z)  -  z (sum over k in b of x[k])
#include <algorithm>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
// Each sum of a block is written and read again as an f32. This pays while the block has so many times as many weights,
// of one byte, as the product has rows [chosen].
constexpr int64_t kFewestTerms = 8;

// Weights [blocks, block, n] and their scales [blocks, 1, n].
struct Blocks {
  ValueId numbers = -1, scales = -1;
};

class BlockProductsPass {
 public:
  explicit BlockProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (!Rewrite(node)) rewriter_.Copy(node);
    return rewriter_.Finish();
  }

 private:
  std::optional<Blocks> BlocksOf(const Node& product) const {
    const Node* reshape = ProducerOf(graph_, product.inputs[1], Op::kReshape);
    const Node* scaled = reshape ? ProducerOf(graph_, reshape->inputs[0], Op::kMul) : nullptr;
    const Node* cast = scaled ? ProducerOf(graph_, scaled->inputs[0], Op::kCast) : nullptr;
    if (!cast || graph_.Spec(scaled->output).rank() != 3) return std::nullopt;
    const Shape &shape = graph_.Spec(cast->output).shape, &scales = graph_.Spec(scaled->inputs[1]).shape;
    const bool fits = scales == Shape{shape[0], 1, shape[2]} && shape[2] == graph_.Spec(product.inputs[1]).shape[1];
    return fits ? std::optional(Blocks{cast->inputs[0], scaled->inputs[1]}) : std::nullopt;
  }

  // Returns the numbers of constant weights, minus their zero points, if they fit a byte with a sign.
  std::optional<TensorValue> SmallNumbers(ValueId v) const {
    Centered w{v, -1, {}};
    if (!IsByte(graph_.Spec(v).dtype)) {
      const std::optional<Centered> centered = CenteredOf(graph_, v);
      if (!centered || !centered->views.empty()) return std::nullopt;
      w = *centered;
    }
    const Constant* numbers = ConstantBehind(graph_, w.bytes);
    const Constant* zeros = w.zero >= 0 ? ConstantBehind(graph_, w.zero) : nullptr;
    if (!numbers || (w.zero >= 0 && !zeros)) return std::nullopt;
    const TensorValue from = graph_.ConstantValue(*numbers);
    const Shape& shape = graph_.Spec(v).shape;
    std::optional<TensorValue> zero;
    if (zeros) zero = graph_.ConstantValue(*zeros);
    if (zero && graph_.Spec(w.zero).shape != Shape{shape[0], 1, shape[2]}) return std::nullopt;
    char* bytes = nullptr;
    const int64_t count = from.spec.NumElements();
    TensorValue small{{DType::Int(8), shape}, SharedBytes::Allocate(static_cast<size_t>(count), &bytes)};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t of_block = i / (shape[1] * shape[2]) * shape[2] + i % shape[2];
      const double number = from.Number(i) - (zero ? zero->Number(of_block) : 0);
      if (number < -128 || number > 127) return std::nullopt;
      bytes[i] = static_cast<char>(number);
    }
    return small;
  }

  // Numbers of 4 bits, two a byte, and what was added to them for each block and column; empty: nothing.
  struct Nibbles {
    TensorValue both;
    std::optional<TensorValue> zeros;
  };

  // Returns `numbers` [blocks, block, n] as such; nothing if a column of a block has a range of more than 4 bits.
  static std::optional<Nibbles> NibblesOf(const TensorValue& numbers) {
    constexpr int kLeast = -8, kLargest = 7;
    const Shape& shape = numbers.spec.shape;
    const int64_t blocks = shape[0], block = shape[1], n = shape[2];
    if (block % 2 != 0) return std::nullopt;
    const auto* w = numbers.As<int8_t>();
    const auto at = [&](int64_t b, int64_t k, int64_t column) { return w[(b * block + k) * n + column]; };
    const auto [least, largest] = std::minmax_element(w, w + numbers.spec.NumElements());
    const bool fits = *least >= kLeast && *largest <= kLargest;
    std::vector<double> zeros(fits ? 0 : static_cast<size_t>(blocks * n), 0);
    for (int64_t b = 0; b < blocks && !fits; ++b) {
      for (int64_t column = 0; column < n; ++column) {
        int low = 0, high = 0;
        for (int64_t k = 0; k < block; ++k) {
          low = std::min<int>(low, at(b, k, column));
          high = std::max<int>(high, at(b, k, column));
        }
        if (high - low > kLargest - kLeast) return std::nullopt;
        zeros[static_cast<size_t>(b * n + column)] = low < kLeast      ? kLeast - low
                                                     : high > kLargest ? kLargest - high
                                                                       : 0;
      }
    }
    char* bytes = nullptr;
    const DType byte = DType::Int(8);
    const auto size = static_cast<size_t>(blocks * block / 2 * n);
    Nibbles nibbles{{{byte, {blocks, block / 2, n}}, SharedBytes::Allocate(size, &bytes)}, std::nullopt};
    if (!fits) nibbles.zeros = TensorValue::FromNumbers(byte, {blocks, 1, n}, zeros);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t h = 0; h < block / 2; ++h) {
        for (int64_t column = 0; column < n; ++column) {
          const auto zero = fits ? 0 : static_cast<int>(zeros[static_cast<size_t>(b * n + column)]);
          const int low = at(b, 2 * h, column) + zero, high = at(b, 2 * h + 1, column) + zero;
          *bytes++ = static_cast<char>((low & 0xf) | high << 4);
        }
      }
    }
    return nibbles;
  }

  // Returns the sums of x [blocks, rows, block] times the numbers of each block.
  ValueId SumsOf(ValueId x, const TensorValue& numbers, const std::string& name) {
    GraphBuilder& b = rewriter_.builder;
    const std::optional<Nibbles> nibbles = NibblesOf(numbers);
    if (!nibbles) return b.Must(Op::kBatchMatmul, {x, b.AddConstant("", numbers)}, {}, name);
    const ValueId sums = b.Must(Op::kNibbleMatmul, {x, b.AddConstant("", nibbles->both)}, {}, name);
    if (!nibbles->zeros) return sums;
    const ValueId of_x = b.Must(Op::kReduceSum, {x}, AxesAttrs{{2}});
    const ValueId zeros = b.Must(Op::kCast, {b.AddConstant("", *nibbles->zeros)}, CastAttrs{kFloats});
    return b.Must(Op::kSub, {sums, b.Must(Op::kMul, {of_x, zeros})}, {}, name);
  }

  bool Rewrite(const Node& node) {
    if (node.op != Op::kMatmul || graph_.Spec(node.output).dtype != kFloats) return false;
    const std::optional<Blocks> w = BlocksOf(node);
    if (!w || graph_.Spec(node.inputs[0]).dtype != kFloats) return false;
    const Shape shape = graph_.Spec(w->numbers).shape;
    const int64_t rows = graph_.Spec(node.output).shape[0], blocks = shape[0], block = shape[1], n = shape[2];
    if (rows * kFewestTerms > block) return false;
    const std::optional<TensorValue> numbers = SmallNumbers(w->numbers);
    if (!numbers) return false;
    GraphBuilder& b = rewriter_.builder;
    ValueId x = b.Must(Op::kReshape, {rewriter_.Map(node.inputs[0])}, ReshapeAttrs{{rows, blocks, block}});
    x = b.Must(Op::kTranspose, {x}, TransposeAttrs{{1, 0, 2}});
    const ValueId sums = SumsOf(x, *numbers, node.name);
    ValueId y = b.Must(Op::kMul, {sums, rewriter_.Map(w->scales)}, {}, node.name);
    y = b.Must(Op::kReduceSum, {y}, AxesAttrs{{0}}, node.name);
    rewriter_.Set(node.output, b.Must(Op::kReshape, {y}, ReshapeAttrs{{rows, n}}));
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
};

}  // namespace

Result<Graph> BlockProducts(const Graph& graph, const PassEnv& env) {
  if (!env.converts_factors) return graph;
  return DropDeadCode(BlockProductsPass(graph).Run(), env);
}

}  // namespace autotune::graph
