#include "graph/pass/unsigned_bytes.h"

#include <map>
#include <vector>

#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

constexpr DType kIntegers = DType::Int(32), kSigned = DType::Int(8), kUnsigned = DType::UInt(8);
constexpr int64_t kOffset = 128;

class ReadUnsignedPass {
 public:
  explicit ReadUnsignedPass(const Graph& graph) : graph_(graph), rewriter_(graph) { FindMoved(); }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      const auto made = moved_.find(node.output);
      if (const auto now = unsigned_.find(node.output); now != unsigned_.end()) {
        rewriter_.Set(node.output, now->second);
      } else if (const Node* widened = MovedOf(node.output)) {
        rewriter_.Set(node.output, Less(widened->inputs[0], Offset()));
      } else if (const Node* minuend = node.op == Op::kSub ? MovedOf(node.inputs[0]) : nullptr;
                 minuend && graph_.FindConstant(node.inputs[1])) {  // a zero point
        const ValueId zero = Must(Op::kAdd, {rewriter_.Map(node.inputs[1]), Offset()});
        rewriter_.Set(node.output, Less(minuend->inputs[0], zero));
      } else {
        rewriter_.Copy(node);
      }
      if (made == moved_.end()) continue;
      // The bytes without a sign follow at once, so that all readers of the bytes come behind them.
      const ValueId sum =
          Must(Op::kAdd, {Must(Op::kCast, {rewriter_.Map(made->first)}, CastAttrs{kIntegers}), Offset()});
      unsigned_[made->second] = bytes_[made->first] = Must(Op::kCast, {sum}, CastAttrs{kUnsigned});
    }
    return rewriter_.Finish();
  }

 private:
  // Returns the node that widens bytes with a sign to i32, if it makes `v`; else null.
  const Node* WidenedOf(ValueId v) const {
    const Node* cast = ProducerOf(graph_, v, Op::kCast);
    const bool widens = cast && graph_.Spec(v).dtype == kIntegers && graph_.Spec(cast->inputs[0]).dtype == kSigned;
    return widens && graph_.Producer(cast->inputs[0]) ? cast : nullptr;
  }

  // Finds the bytes x with u8(i32(x) + 128), whose other readers only widen them.
  void FindMoved() {
    std::vector<bool> only_widened(graph_.values.size(), true);
    for (const ValueId v : graph_.outputs) only_widened[v] = false;
    for (const Node& node : graph_.nodes)
      for (const ValueId v : node.inputs) only_widened[v] = only_widened[v] && WidenedOf(node.output);
    const std::vector<int> uses = graph_.UseCounts();
    for (const Node& node : graph_.nodes) {
      if (node.op != Op::kCast || graph_.Spec(node.output).dtype != kUnsigned) continue;
      const Node* sum = ProducerOf(graph_, node.inputs[0], Op::kAdd);
      const Node* widened = sum ? WidenedOf(sum->inputs[0]) : nullptr;
      const Constant* offset = sum ? graph_.FindConstant(sum->inputs[1]) : nullptr;
      if (!widened || !offset || !offset->data || graph_.Spec(offset->value).NumElements() != 1) continue;
      const ValueId bytes = widened->inputs[0];
      if (graph_.Spec(node.output).shape != graph_.Spec(bytes).shape) continue;  // an offset of a higher rank
      const bool has_others = uses[bytes] > 1 || uses[widened->output] > 1;
      if (graph_.ConstantValue(*offset).Number(0) == kOffset && only_widened[bytes] && has_others)
        moved_[bytes] = node.output;
    }
  }

  const Node* MovedOf(ValueId v) const {
    const Node* widened = WidenedOf(v);
    return widened && moved_.contains(widened->inputs[0]) ? widened : nullptr;
  }
  ValueId Less(ValueId bytes, ValueId offset) {
    return Must(Op::kSub, {Must(Op::kCast, {bytes_.at(bytes)}, CastAttrs{kIntegers}), offset});
  }
  ValueId Offset() {
    return rewriter_.builder.AddConstant("", TensorValue::FromNumbers(kIntegers, {}, {static_cast<double>(kOffset)}));
  }
  ValueId Must(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return rewriter_.builder.Must(op, std::move(inputs), std::move(attrs));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> moved_;     // bytes with a sign -> the same without, in graph_
  std::map<ValueId, ValueId> unsigned_;  // the latter -> its new value
  std::map<ValueId, ValueId> bytes_;     // bytes with a sign -> the new value without
};

}  // namespace

Graph ReadUnsigned(const Graph& graph) { return ReadUnsignedPass(graph).Run(); }

}  // namespace autotune::graph
