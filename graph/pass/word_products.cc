// Products of small integers become products of words (i16), for targets that add products of words in groups, but none
// of bytes (ir/dot.h):
//
//   (x - z) (w - u)  ->  i16(x - z) i16(w - u), with sums of i32
//
// Unlike a byte, an i16 holds a byte minus its zero point. So nothing is corrected afterwards, and the padding of a
// convolution stays 0. Odd numbers of neighbouring terms get a zero behind them. Results stay equal, bit for bit, also
// those of sums that wrap around. Products of few rows stay as they are: they take as long as their weights need from
// memory.
#include <map>
#include <set>

#include "graph/pass.h"
#include "graph/pass/centered.h"
#include "graph/pass/range.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kWords = DType::Int(16), kIntegers = DType::Int(32);

class WordProductsPass {
 public:
  explicit WordProductsPass(const Graph& graph) : graph_(graph), rewriter_(graph) {}

  Graph Run() {
    for (const Node& node : graph_.nodes)
      if (IsRewritten(node)) rewritten_.insert(node.output), factors_.insert(Viewed(node.inputs[0]));
    for (const Node& node : graph_.nodes) {
      if (rewritten_.contains(node.output)) {
        Rewrite(node);
      } else {
        rewriter_.Copy(node);
        if (factors_.contains(node.output)) Narrow(node.output);
      }
    }
    return rewriter_.Finish();
  }

 private:
  bool FitsWords(ValueId v) const {
    const std::optional<Range> range = RangeOf(graph_, v);
    return range && range->low >= INT16_MIN && range->high <= INT16_MAX;
  }

  bool IsRewritten(const Node& node) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    if ((node.op != Op::kMatmul && !conv) || graph_.Spec(node.output).dtype != kIntegers) return false;
    if (conv && (conv->layout == Layout::kNCHW || conv->pad_value != 0)) return false;
    if (!SuitsWords(graph_, node)) return false;
    const Constant* weights = graph_.FindConstant(node.inputs[1]);
    return weights && weights->data && FitsWords(node.inputs[0]) && FitsWords(node.inputs[1]);
  }

  // Returns the value behind reshapes and transposes.
  ValueId Viewed(ValueId v) const {
    const Node* node = graph_.Producer(v);
    return node && (node->op == Op::kReshape || node->op == Op::kTranspose) ? Viewed(node->inputs[0]) : v;
  }

  // Lets everything read the words of a value that a product reads, so that the kernel that makes it stores them alone.
  void Narrow(ValueId v) {
    const DType type = graph_.Spec(v).dtype;
    const ValueId words = words_[v] = Must(Op::kCast, {rewriter_.Map(v)}, CastAttrs{kWords});
    if (type == kIntegers) rewriter_.Set(v, Must(Op::kCast, {words}, CastAttrs{type}));
  }

  // Returns a computed operand as words, with zeros that make the last dimension a whole number of groups.
  ValueId Words(ValueId v) {
    const auto [it, is_new] = words_.try_emplace(v, -1);
    if (!is_new) return it->second;
    if (const ValueId viewed = Viewed(v); viewed != v) {
      const Node& view = *graph_.Producer(v);
      return words_[v] = Must(view.op, {Words(view.inputs[0])}, view.attrs);
    }
    return words_[v] = Must(Op::kCast, {rewriter_.Map(v)}, CastAttrs{kWords});
  }
  ValueId Padded(ValueId v) {
    const auto [it, is_new] = padded_.try_emplace(v, -1);
    if (!is_new) return it->second;
    const Shape& shape = graph_.Spec(v).shape;
    ValueId words = Words(v);
    if (const int64_t zeros = ZerosBehind(shape.back(), kWordGroup); zeros > 0) {
      PadAttrs pad{Shape(shape.size(), 0), Shape(shape.size(), 0), Shape(shape.size(), 0), PadMode::kConstant, 0};
      pad.after.back() = zeros;
      words = Must(Op::kPad, {words}, pad);
    }
    return padded_[v] = words;
  }

  ValueId Weights(ValueId v) {
    const auto [it, is_new] = weights_.try_emplace(v, -1);
    if (!is_new) return it->second;
    const TensorValue value = graph_.ConstantValue(*graph_.FindConstant(v));
    std::vector<double> numbers(static_cast<size_t>(value.spec.NumElements()));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = value.Number(static_cast<int64_t>(i));
    return it->second = rewriter_.builder.AddConstant(
               graph_.values[v].name, WithZerosBehindTerms(kWords, value.spec.shape, numbers, kWordGroup));
  }

  void Rewrite(const Node& node) {
    const std::vector<ValueId> operands = {Padded(node.inputs[0]), Weights(node.inputs[1])};
    rewriter_.Set(node.output, Must(node.op, operands, node.attrs, node.name));
  }

  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, const std::string& name = "") {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs), name);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::set<ValueId> rewritten_;                          // results of products that become products of words
  std::set<ValueId> factors_;                            // values that these read, perhaps reshaped and transposed
  std::map<ValueId, ValueId> words_, padded_, weights_;  // by the value in graph_
};

}  // namespace

Result<Graph> WordProducts(const Graph& graph, const PassEnv& env) {
  if (!env.multiplies_words) return graph;
  return DropDeadCode(WordProductsPass(graph).Run(), env);
}

}  // namespace autotune::graph
