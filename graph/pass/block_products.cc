// Products of few rows with weights in blocks, as DequantizeLinear and MatMulNBits have them:
//
//   sum over all terms k of x[k] (s[block of k] w[k])  ->  sum over the blocks b of s[b] (sum over k in b of x[k] w[k])
//
// w are constants that fit a byte, and stay bytes, or eight a word if they fit 4 bits: a product of one row takes as
// long as its weights need from memory. Numbers from -15 to 15, as unsigned ones of 4 bits minus their zero points are,
// are stored as w + z from -8 to 7:
//
//   sum over k in b of x[k] w[k]  =  sum over k in b of x[k] (w[k] + z)  -  z (sum over k in b of x[k])
//
// Weights with a scale for each column, or one for all, are one block, in products of a few rows.
//
// Data in blocks of integers (graph/rounded_rows.h) meet the integers of the weights, without signs:
//
//   sum over the blocks b of s[b] t[b] (sum over k in b of x[k] (w[k] + z)  -  z (sum over k in b of x[k]))
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/few_rows.h"
#include "graph/pass/rewriter.h"
#include "graph/rounded_rows.h"
#include "ir/nibble.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);
// Each tile of rows converts the weights again, and scales the sum of each block. Weights in floats are neither
// converted nor scaled by the product. So weights stay small while the block has kFewestTerms times as many terms as
// the product has rows [chosen], and for kMostRows at most: as many take as long as with floats, twice as many 1.3
// times as long [measured on Zen 4, whose caches hold the floats].
constexpr int64_t kFewestTerms = 8, kMostRows = 32;
// Fewest columns of a product of one block: a vector of every target. Fewer are sums of rows.
constexpr int64_t kFewestColumns = 16;
// What makes numbers of 4 and 8 bits with a sign numbers without one.
constexpr int kNibbleOffset = 8, kByteOffset = 128;
// Most terms of a block: its sum of products of 255 and 127 is an i32.
constexpr int64_t kLargestBlock = int64_t{1} << 15;

// Weights [blocks, block, n] and their scales [blocks, 1, n].
struct Blocks {
  ValueId numbers = -1, scales = -1;
};

class BlockProductsPass {
 public:
  BlockProductsPass(const Graph& graph, const PassEnv& env) : graph_(graph), env_(env), rewriter_(graph) {}

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

  // Returns the numbers of constant weights [k, n] minus their zero points, as one block, if they fit a byte with a
  // sign. Their node may transpose them.
  std::optional<TensorValue> ColumnNumbers(ValueId integers, bool transposed) const {
    const std::optional<Centered> w = CenteredOf(graph_, integers);
    const Constant* numbers = w && w->views.empty() ? ConstantBehind(graph_, w->bytes) : nullptr;
    const Constant* zeros = numbers && w->zero >= 0 ? ConstantBehind(graph_, w->zero) : nullptr;
    const Shape& shape = graph_.Spec(integers).shape;
    if (!numbers || (w->zero >= 0 && !zeros) || shape.size() != 2) return std::nullopt;
    const int64_t columns = shape[transposed ? 0 : 1], terms = shape[transposed ? 1 : 0];
    const TensorValue from = graph_.ConstantValue(*numbers);
    std::optional<TensorValue> zero;
    if (zeros) zero = graph_.ConstantValue(*zeros);
    if (zero && !IsOfColumns(graph_.Spec(w->zero).shape, columns, transposed)) return std::nullopt;
    const bool one_zero = zero && zero->spec.NumElements() == 1;
    char* bytes = nullptr;
    TensorValue small{{DType::Int(8), {1, terms, columns}},
                      SharedBytes::Allocate(static_cast<size_t>(terms * columns), &bytes)};
    for (int64_t i = 0; i < terms * columns; ++i) {
      const int64_t k = i / columns, column = i % columns;
      const double number =
          from.Number(transposed ? column * terms + k : i) - (zero ? zero->Number(one_zero ? 0 : column) : 0);
      if (number < -128 || number > 127) return std::nullopt;
      bytes[i] = static_cast<char>(number);
    }
    return small;
  }

  // Returns whether a tensor of this shape has one number, or one for each column of a matrix.
  static bool IsOfColumns(const Shape& shape, int64_t columns, bool transposed) {
    if (TensorSpec{kFloats, shape}.NumElements() == 1) return true;
    if (transposed) return shape == Shape{columns, 1};
    return shape == Shape{1, columns} || shape == Shape{columns};
  }

  // Rewrites a product of a few rows of floats with weights whose scale belongs to a column, or to all of them.
  bool RewriteColumns(const Node& node) {
    const TensorSpec& rows = graph_.Spec(node.inputs[0]);
    if (!IsOfFewRows(graph_, node) || rows.dtype != kFloats || rows.rank() != 2) return false;
    // The importer transposes the weights of Gemm behind their scale.
    const Node* transpose = ProducerOf(graph_, node.inputs[1], Op::kTranspose);
    const Node* scaled = ProducerOf(graph_, transpose ? transpose->inputs[0] : node.inputs[1], Op::kMul);
    const Node* cast = scaled ? ProducerOf(graph_, scaled->inputs[0], Op::kCast) : nullptr;
    if (!cast || graph_.Spec(cast->output).shape != graph_.Spec(scaled->output).shape) return false;
    const int64_t columns = graph_.Spec(node.output).shape[1];
    const ValueId scales = scaled->inputs[1];
    if (columns < kFewestColumns || graph_.Spec(scales).dtype != kFloats || !IsOfConstants(graph_, scales))
      return false;
    if (!IsOfColumns(graph_.Spec(scales).shape, columns, transpose != nullptr)) return false;
    const std::optional<TensorValue> numbers = ColumnNumbers(cast->inputs[0], transpose != nullptr);
    if (!numbers) return false;
    GraphBuilder& b = rewriter_.builder;
    const ValueId ones = b.AddConstant(
        "", TensorValue::FromNumbers(kFloats, {1, columns}, std::vector<double>(static_cast<size_t>(columns), 1)));
    const int64_t count = graph_.Spec(scales).NumElements();
    const ValueId of_columns =
        b.Must(Op::kMul, {ones, b.Must(Op::kReshape, {rewriter_.Map(scales)}, ReshapeAttrs{{1, count}})});
    rewriter_.Set(node.output, FloatProduct(rewriter_.Map(node.inputs[0]), *numbers, of_columns, node.name));
    return true;
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

  // Numbers of 4 bits as kBlockMatmul has them, and what was added to them for each block and column; empty: nothing.
  struct Nibbles {
    TensorValue numbers;
    std::optional<std::vector<double>> zeros;
  };

  // Words of eight numbers with their signs, for rows of floats; or bytes of two numbers plus 8, so that they have no
  // sign, for rows of integers.
  enum class Form { kWords, kBytes };

  // Returns `numbers` [blocks, block, n] as such; nothing if a column of a block has a range of more than 4 bits.
  static std::optional<Nibbles> NibblesOf(const TensorValue& numbers, Form form) {
    const Shape& shape = numbers.spec.shape;
    const int64_t blocks = shape[0], block = shape[1], n = shape[2];
    if (block % kNibblesOfWord != 0) return std::nullopt;
    std::optional<std::vector<double>> zeros = ZerosOf(numbers);
    if (!zeros) return std::nullopt;
    const auto* w = numbers.As<int8_t>();
    const auto nibble = [&](int64_t b, int64_t k, int64_t column, int offset) {
      const int zero = zeros->empty() ? 0 : static_cast<int>((*zeros)[static_cast<size_t>(b * n + column)]);
      return static_cast<uint32_t>(w[(b * block + k) * n + column] + zero + offset) & 0xf;
    };
    const DType type = form == Form::kWords ? kWordOfNibbles : DType::UInt(8);
    const int64_t held = block * kNibbleBits / type.bits;
    char* bytes = nullptr;
    Nibbles nibbles{
        {{type, {blocks, held, n}}, SharedBytes::Allocate(static_cast<size_t>(blocks * block / 2 * n), &bytes)},
        std::nullopt};
    for (int64_t i = 0; i < blocks * held * n; ++i) {
      const int64_t b = i / (held * n), at = i / n % held, column = i % n;
      if (form == Form::kWords) {
        uint32_t word = 0;
        for (int k = 0; k < kNibblesOfWord; ++k)
          word |= nibble(b, at * kNibblesOfWord + k, column, 0) << (k * kNibbleBits);
        std::memcpy(bytes + i * static_cast<int64_t>(sizeof(word)), &word, sizeof(word));
      } else {
        const int64_t k = at / kByteGroup * 2 * kByteGroup + at % kByteGroup;
        bytes[i] = static_cast<char>(nibble(b, k, column, kNibbleOffset) |
                                     nibble(b, k + kByteGroup, column, kNibbleOffset) << kNibbleBits);
      }
    }
    if (!zeros->empty()) nibbles.zeros = std::move(zeros);
    return nibbles;
  }

  // Returns what makes the numbers of each block and column fit -8 to 7 if it is added to them; empty if they fit
  // already; nothing if a column of a block has a range of more than 4 bits.
  static std::optional<std::vector<double>> ZerosOf(const TensorValue& numbers) {
    constexpr int kLeast = -kNibbleOffset, kLargest = kNibbleOffset - 1;
    const Shape& shape = numbers.spec.shape;
    const int64_t blocks = shape[0], block = shape[1], n = shape[2];
    const auto* w = numbers.As<int8_t>();
    const auto [least, largest] = std::minmax_element(w, w + numbers.spec.NumElements());
    if (*least >= kLeast && *largest <= kLargest) return std::vector<double>();
    std::vector<double> zeros(static_cast<size_t>(blocks * n), 0);
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t column = 0; column < n; ++column) {
        int low = 0, high = 0;
        for (int64_t k = 0; k < block; ++k) {
          const int number = w[(b * block + k) * n + column];
          low = std::min(low, number);
          high = std::max(high, number);
        }
        if (high - low > kLargest - kLeast) return std::nullopt;
        zeros[static_cast<size_t>(b * n + column)] = low < kLeast      ? kLeast - low
                                                     : high > kLargest ? kLargest - high
                                                                       : 0;
      }
    }
    return zeros;
  }

  // Returns the product of rows of floats with the numbers, times their scales.
  ValueId FloatProduct(ValueId x, const TensorValue& numbers, ValueId scales, const std::string& name) {
    GraphBuilder& b = rewriter_.builder;
    const Shape shape = numbers.spec.shape, of_w = {shape[0], shape[2]};
    const int64_t rows = b.Spec(x).shape[0];
    const std::optional<Nibbles> nibbles = NibblesOf(numbers, Form::kWords);
    std::vector<ValueId> operands = {x, b.AddConstant("", nibbles ? nibbles->numbers : numbers),
                                     b.Must(Op::kReshape, {scales}, ReshapeAttrs{of_w})};
    if (nibbles && nibbles->zeros) {
      const ValueId blocks = b.Must(Op::kReshape, {x}, ReshapeAttrs{{rows, shape[0], shape[1]}});
      const ValueId sums = b.Must(Op::kReduceSum, {blocks}, AxesAttrs{{2}});
      operands.push_back(b.Must(Op::kReshape, {sums}, ReshapeAttrs{{rows, shape[0]}}));
      operands.push_back(b.AddConstant("", TensorValue::FromNumbers(DType::Int(8), of_w, *nibbles->zeros)));
    }
    return b.Must(Op::kBlockMatmul, operands, {}, name);
  }

  // Returns the product of rows in blocks with the numbers, times the scales of both.
  ValueId IntegerProduct(const RowsInBlocks& x, const TensorValue& numbers, ValueId scales, const std::string& name) {
    GraphBuilder& b = rewriter_.builder;
    const Shape shape = numbers.spec.shape, rows = b.Spec(x.numbers).shape;
    const Shape of_x = {rows[0], shape[0]}, of_w = {shape[0], shape[2]};
    const auto reshaped = [&](ValueId v, Shape to) { return b.Must(Op::kReshape, {v}, ReshapeAttrs{std::move(to)}); };
    const DType sum = DType::Int(32);
    // The scale of a block of x is a fixed part of its largest magnitude. This part becomes one of the weights' scales.
    scales = b.Must(Op::kMul, {scales, b.AddConstant("", TensorValue::FromNumbers(kFloats, {}, {kScaleOfMost}))});
    ValueId offsets = b.Must(Op::kCast, {x.numbers}, CastAttrs{sum});
    offsets = reshaped(b.Must(Op::kReduceSum, {offsets}, AxesAttrs{{2}}), of_x);
    const std::optional<Nibbles> nibbles = NibblesOf(numbers, Form::kBytes);
    const bool same_zeros = !nibbles || !nibbles->zeros;
    if (same_zeros) {
      const double zero = nibbles ? kNibbleOffset : kByteOffset;
      offsets = b.Must(Op::kMul, {offsets, b.AddConstant("", TensorValue::FromNumbers(sum, {}, {zero}))});
    }
    std::vector<ValueId> operands = {reshaped(x.numbers, {rows[0], rows[1] * rows[2]}),
                                     b.AddConstant("", nibbles ? nibbles->numbers : WithoutSign(numbers)),
                                     reshaped(scales, of_w), reshaped(x.most, of_x), offsets};
    if (!same_zeros) {
      std::vector<double> zeros = *nibbles->zeros;
      for (double& zero : zeros) zero += kNibbleOffset;
      operands.push_back(b.AddConstant("", TensorValue::FromNumbers(DType::UInt(8), of_w, zeros)));
    }
    return b.Must(Op::kBlockMatmul, operands, {}, name);
  }

  // Returns numbers of i8 plus 128.
  static TensorValue WithoutSign(const TensorValue& numbers) {
    char* bytes = nullptr;
    const int64_t count = numbers.spec.NumElements();
    TensorValue made{{DType::UInt(8), numbers.spec.shape}, SharedBytes::Allocate(static_cast<size_t>(count), &bytes)};
    for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(numbers.As<int8_t>()[i] + kByteOffset);
    return made;
  }

  // Returns the rows of a product as integers, if they are rounded to these or may be; else nothing.
  std::optional<RowsInBlocks> IntegerRows(const Node& node, int64_t block) {
    const Shape& shape = graph_.Spec(node.inputs[0]).shape;
    const std::optional<RowsInBlocks> rows = RowsInBlocksOf(graph_, node.inputs[0]);
    if (rows && graph_.Spec(rows->numbers).shape == Shape{shape[0], shape[1] / block, block})
      return RowsInBlocks{rewriter_.Map(rows->numbers), rewriter_.Map(rows->most)};
    if (!env_.rounds_to_int8) return std::nullopt;
    const auto [it, is_new] = rounded_.try_emplace({node.inputs[0], block});
    if (is_new) it->second = AddRowsInBlocks(rewriter_.builder, rewriter_.Map(node.inputs[0]), block);
    return it->second;
  }

  bool Rewrite(const Node& node) {
    if (node.op != Op::kMatmul || graph_.Spec(node.output).dtype != kFloats) return false;
    const std::optional<Blocks> w = BlocksOf(node);
    if (!w) return RewriteColumns(node);
    if (graph_.Spec(node.inputs[0]).dtype != kFloats) return false;
    const Shape shape = graph_.Spec(w->numbers).shape;
    const int64_t rows = graph_.Spec(node.output).shape[0], block = shape[1];
    const bool few_terms = rows * kFewestTerms > block || rows > kMostRows, may_be_integers = IsOfFewRows(graph_, node);
    if (few_terms && !may_be_integers) return false;
    const std::optional<TensorValue> numbers = SmallNumbers(w->numbers);
    if (!numbers) return false;
    if (may_be_integers && block % kByteGroup == 0 && block <= kLargestBlock) {
      if (const std::optional<RowsInBlocks> x = IntegerRows(node, block)) {
        rewriter_.Set(node.output, IntegerProduct(*x, *numbers, rewriter_.Map(w->scales), node.name));
        return true;
      }
    }
    if (few_terms) return false;
    const ValueId x = rewriter_.Map(node.inputs[0]);
    rewriter_.Set(node.output, FloatProduct(x, *numbers, rewriter_.Map(w->scales), node.name));
    return true;
  }

  const Graph& graph_;
  const PassEnv& env_;
  Rewriter rewriter_;
  std::map<std::pair<ValueId, int64_t>, RowsInBlocks> rounded_;  // by rows in graph_ and terms of a block
};

}  // namespace

Result<Graph> BlockProducts(const Graph& graph, const PassEnv& env) {
  if (!env.converts_factors) return graph;
  return DropDeadCode(BlockProductsPass(graph, env).Run(), env);
}

}  // namespace autotune::graph
