// Rewriter: copies a graph front to back while a pass decides what becomes of each node. Internal to graph passes; not
// thread-safe. Constants are copied when first used, so unused ones disappear; those without data are parameters, which
// stay.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace autotune::graph {

// Returns the node that makes a value, if it is of this operator; else null.
inline const Node* ProducerOf(const Graph& graph, ValueId v, Op op) {
  const Node* node = graph.Producer(v);
  return node && node->op == op ? node : nullptr;
}

// Returns the number of a constant of one element, or nothing if the value is something else.
inline std::optional<double> NumberOf(const Graph& graph, ValueId v) {
  const Constant* c = graph.FindConstant(v);
  if (!c || !c->data || graph.Spec(v).NumElements() != 1) return std::nullopt;
  return graph.ConstantValue(*c).Number(0);
}

// Returns whether a value depends on constants only.
inline bool IsOfConstants(const Graph& graph, ValueId v) {
  std::vector<ValueId> pending = {v};
  std::set<ValueId> seen = {v};  // a value may be used many times
  while (!pending.empty()) {
    const ValueId next = pending.back();
    pending.pop_back();
    if (graph.FindConstant(next)) continue;
    const Node* node = graph.Producer(next);
    if (!node || node->inputs.empty()) return false;
    for (const ValueId input : node->inputs)
      if (seen.insert(input).second) pending.push_back(input);
  }
  return true;
}

// Returns, by value, whether it can be computed from constants with data.
inline std::vector<bool> ConstantValues(const Graph& graph) {
  std::vector<bool> constant(graph.values.size(), false);
  for (const Constant& c : graph.constants) constant[c.value] = static_cast<bool>(c.data);
  for (const Node& node : graph.nodes) {
    bool all = node.op != Op::kCall;  // which needs the module
    for (const ValueId v : node.inputs) all = all && constant[v];
    constant[node.output] = all;
  }
  return constant;
}

class Rewriter {
 public:
  explicit Rewriter(const Graph& from) : from_(from), map_(from.values.size(), -1) {
    for (ValueId v : from.inputs) map_[v] = builder.Input(from.values[v].name, from.Spec(v));
    for (const Constant& c : from.constants)
      if (!c.data) map_[c.value] = builder.ConstantParameter(from.values[c.value].name, from.Spec(c.value));
  }

  GraphBuilder builder;

  // Returns the new value for a value of the old graph.
  ValueId Map(ValueId old) {
    if (const Constant* c = from_.FindConstant(old); c && map_[old] < 0)
      map_[old] = builder.AddConstant(from_.values[old].name, from_.ConstantValue(*c));
    CHECK(map_[old] >= 0) << "value %" << old << " has not been rewritten";
    return map_[old];
  }
  std::vector<ValueId> MapAll(const std::vector<ValueId>& old) {
    std::vector<ValueId> now;
    for (ValueId v : old) now.push_back(Map(v));
    return now;
  }
  // Adds a constant of f32 with the numbers of a constant of the old graph that has data.
  ValueId AddFloats(const Constant& old) {
    const TensorValue value = from_.ConstantValue(old);
    char* bytes = nullptr;
    const int64_t count = value.spec.NumElements();
    const SharedBytes data = SharedBytes::Allocate(static_cast<size_t>(count) * sizeof(float), &bytes);
    auto* numbers = reinterpret_cast<float*>(bytes);
    for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(value.Number(i));
    return builder.AddConstant(from_.values[old.value].name, {{DType::Float(32), value.spec.shape}, data});
  }
  void Set(ValueId old, ValueId now) {
    map_[old] = now;
    if (builder.graph().values[now].name.empty()) builder.SetName(now, from_.values[old].name);
  }
  void Copy(const Node& node) { Set(node.output, builder.Again(node, from_.Spec(node.output), MapAll(node.inputs))); }
  Graph Finish() {
    for (size_t i = 0; i < from_.outputs.size(); ++i) builder.Output(Map(from_.outputs[i]), from_.output_names[i]);
    return builder.Finish();
  }

 private:
  const Graph& from_;
  std::vector<ValueId> map_;
};

}  // namespace autotune::graph
