#include <algorithm>
#include <map>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

// Greatest share of the concatenation's traffic that the partial sums may have. Products of fewer channels are a little
// slower per multiply-add, and Winograd's algorithm transforms the results of each. At a share of 0.12, SqueezeNet
// became 17 % faster on one thread; at 0.5, a UNet became 6 % slower on two. Shares in between were not tried.
constexpr double kWorthSplitting = 0.25;

// Traffic that takes the time of one more kernel: 0.7 us (fork_cycles of target/machine.cc) at 47 GB/s. The pass does
// not know the target.
constexpr double kKernelBytes = 32 << 10;

class ConcatSplitter {
 public:
  explicit ConcatSplitter(const Graph& graph)
      : graph_(graph), rewriter_(graph), users_(graph.values.size()), constant_(graph.values.size()) {
    for (const Constant& c : graph.constants) constant_[c.value] = true;
    for (const Node& node : graph.nodes) {
      for (ValueId v : node.inputs) users_[v].push_back(&node);
      constant_[node.output] = std::ranges::all_of(node.inputs, [&](ValueId v) { return constant_[v]; });
    }
    for (ValueId v : graph.outputs) users_[v].push_back(nullptr);
  }

  Graph Run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::kConcat && IsWorthSplitting(node)) {
        parts_[node.output] = rewriter_.MapAll(node.inputs);
      } else if (const std::vector<ValueId>* parts = PartsOfOperand(node); !parts) {
        rewriter_.Copy(node);
      } else if (IsProduct(node)) {
        rewriter_.Set(node.output, SumOfProducts(node, *parts));
      } else {
        std::vector<ValueId> results;
        for (ValueId part : *parts) results.push_back(builder().Must(node.op, {part}, node.attrs, node.name));
        parts_[node.output] = std::move(results);
      }
    }
    return rewriter_.Finish();
  }

 private:
  GraphBuilder& builder() { return rewriter_.builder; }
  const std::vector<ValueId>* PartsOfOperand(const Node& node) const {
    auto parts = node.inputs.empty() ? parts_.end() : parts_.find(node.inputs[0]);
    return parts == parts_.end() ? nullptr : &parts->second;
  }
  double Bytes(ValueId v) const { return static_cast<double>(graph_.Spec(v).Bytes()); }

  // Returns true for a convolution or product that sums over the last dimension of its operand and has constant
  // weights.
  bool IsProduct(const Node& node) const {
    const auto* conv = std::get_if<ConvAttrs>(&node.attrs);
    const bool sums = conv ? conv->groups == 1 && conv->layout == Layout::kNHWC : node.op == Op::kMatmul;
    return sums && constant_[node.inputs[1]];
  }

  // Returns true if each element of the last dimension of the result depends only on the same one of the operand.
  static bool KeepsChannelsApart(const Node& node) {
    if (node.inputs.size() != 1) return false;
    if (const auto* pool = std::get_if<PoolAttrs>(&node.attrs))
      return node.op != Op::kArgMaxPool && pool->layout == Layout::kNHWC;
    return KindOf(node.op) == OpKind::kElementwise;
  }

  // Returns the bytes that partial sums would write and read if `v` came in `parts` parts, and kKernelBytes for each
  // further kernel. Returns nothing if a reader of `v` needs all parts at once.
  std::optional<double> TrafficOfSums(ValueId v, size_t parts) const {
    double traffic = 0;
    for (const Node* user : users_[v]) {
      if (!user || user->inputs[0] != v) return std::nullopt;
      traffic += static_cast<double>(parts - 1) * kKernelBytes;
      if (IsProduct(*user)) {
        traffic += 2 * static_cast<double>(parts - 1) * Bytes(user->output);
      } else if (KeepsChannelsApart(*user)) {
        const std::optional<double> later = TrafficOfSums(user->output, parts);
        if (!later) return std::nullopt;
        traffic += *later;
      } else {
        return std::nullopt;
      }
    }
    return traffic;
  }

  bool IsWorthSplitting(const Node& concat) const {
    const TensorSpec& spec = graph_.Spec(concat.output);
    if (std::get<AxisAttrs>(concat.attrs).axis + 1 != static_cast<int64_t>(spec.shape.size())) return false;
    const std::optional<double> traffic = TrafficOfSums(concat.output, concat.inputs.size());
    return traffic && *traffic - kKernelBytes <= kWorthSplitting * 2 * Bytes(concat.output);  // one kernel disappears
  }

  // Returns the sum of the products of the parts, each with its rows of the weights.
  ValueId SumOfProducts(const Node& node, const std::vector<ValueId>& parts) {
    const ValueId weights = rewriter_.Map(node.inputs[1]);
    const Shape shape = builder().Spec(weights).shape;
    const size_t summed = shape.size() - 2;
    SliceAttrs rows{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
    std::optional<ValueId> sum;
    for (ValueId part : parts) {
      rows.extent[summed] = builder().Spec(part).shape.back();
      const ValueId own = builder().Must(Op::kSlice, {weights}, rows, node.name);
      const ValueId product = builder().Must(node.op, {part, own}, node.attrs, node.name);
      sum = sum ? builder().Must(Op::kAdd, {product, *sum}, {}, node.name) : product;
      rows.begin[summed] += rows.extent[summed];
    }
    return *sum;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<const Node*>> users_;    // by value; null stands for an output of the graph
  std::vector<bool> constant_;                     // by value: depends only on constants
  std::map<ValueId, std::vector<ValueId>> parts_;  // values of the old graph that the new one has in parts
};

}  // namespace

Result<Graph> SplitConcats(const Graph& graph, const PassEnv& env) {
  return DropDeadCode(ConcatSplitter(graph).Run(), env);
}

}  // namespace autotune::graph
