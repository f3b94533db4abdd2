#include <algorithm>
#include <optional>

#include "graph/pass.h"
#include "graph/pass/rewriter.h"

namespace autotune::graph {
namespace {

// The product of integers and scales that a constant is, up to its shape, as dequantized weights are.
struct Scaled {
  ValueId integers = -1, scales = -1;  // both f32
};

std::optional<Scaled> ScaledOf(const Graph& graph, ValueId v) {
  while (const Node* reshape = ProducerOf(graph, v, Op::kReshape)) v = reshape->inputs[0];
  const Node* product = ProducerOf(graph, v, Op::kMul);
  if (!product || graph.Spec(v).dtype != DType::Float(32)) return std::nullopt;
  for (const bool swapped : {false, true}) {
    const ValueId integers = product->inputs[swapped ? 1 : 0], scales = product->inputs[swapped ? 0 : 1];
    const Node* cast = ProducerOf(graph, integers, Op::kCast);
    const Shape &whole = graph.Spec(integers).shape, &part = graph.Spec(scales).shape;
    const auto repeats = [](int64_t a, int64_t b) { return a == b || a == 1; };
    if (cast && graph.Spec(cast->inputs[0]).dtype.IsInt() && whole == graph.Spec(v).shape && whole != part &&
        std::ranges::equal(part, whole, repeats))
      return Scaled{integers, scales};
  }
  return std::nullopt;
}

// Returns integers and scales if the integers fit a byte.
std::shared_ptr<const ScaledIntegers> OriginOf(const TensorValue& integers, const TensorValue& scales) {
  char* bytes = nullptr;
  const int64_t count = integers.spec.NumElements();
  TensorValue small{{DType::Int(8), integers.spec.shape}, SharedBytes::Allocate(static_cast<size_t>(count), &bytes)};
  const auto* numbers = integers.As<float>();
  for (int64_t i = 0; i < count; ++i) {
    if (numbers[i] < INT8_MIN || numbers[i] > INT8_MAX) return nullptr;
    bytes[i] = static_cast<char>(numbers[i]);
  }
  return std::make_shared<ScaledIntegers>(ScaledIntegers{std::move(small), scales});
}

}  // namespace

Result<Graph> FoldConstants(const Graph& graph, const PassEnv& env) {
  const std::vector<bool> constant = ConstantValues(graph);
  std::vector<bool> wanted(graph.values.size(), false);
  // Builds a graph of all constant nodes. Its outputs are the constant results that other nodes read or that `graph`
  // returns.
  for (const Node& node : graph.nodes) {
    if (constant[node.output]) continue;
    for (ValueId v : node.inputs) wanted[v] = constant[v];
  }
  for (ValueId v : graph.outputs) wanted[v] = constant[v];
  Graph work = graph;
  work.inputs.clear();
  work.outputs.clear();
  work.output_names.clear();
  work.nodes.clear();
  std::vector<ValueId> results;
  std::vector<std::optional<Scaled>> scaled;  // by result
  for (const Node& node : graph.nodes) {
    if (!constant[node.output]) continue;
    work.values[node.output].index = static_cast<int32_t>(work.nodes.size());
    work.nodes.push_back(node);
    if (wanted[node.output]) {
      results.push_back(node.output);
      scaled.push_back(ScaledOf(graph, node.output));
      work.outputs.push_back(node.output);
      work.output_names.push_back(graph.values[node.output].name);
    }
  }
  if (results.empty() || !env.evaluate) return graph;
  for (const std::optional<Scaled>& of : scaled) {
    if (!of) continue;
    for (const ValueId part : {of->integers, of->scales}) {
      work.outputs.push_back(part);
      work.output_names.push_back(graph.values[part].name);
    }
  }
  work = TRY(DropDeadCode(work, env));
  std::vector<TensorValue> values = TRY_NOTE(env.evaluate(work), "while folding constants");
  CHECK(values.size() == work.outputs.size());
  size_t next = results.size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!scaled[i]) continue;
    values[i].bytes.set_origin(OriginOf(values[next], values[next + 1]));
    next += 2;
  }

  Rewriter rewriter(graph);
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(values[i].spec == graph.Spec(results[i]))
        << values[i].spec.Text() << ", expected " << graph.Spec(results[i]).Text();
    rewriter.Set(results[i], rewriter.builder.AddConstant(graph.values[results[i]].name, std::move(values[i])));
  }
  for (const Node& node : graph.nodes) {
    if (!constant[node.output]) rewriter.Copy(node);
  }
  return rewriter.Finish();
}

}  // namespace autotune::graph
