#include "frontend/onnx/evaluate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "graph/to_te.h"
#include "ir/interp.h"

namespace autotune::onnx_import {

using namespace graph;
using graph::Op;

namespace {

constexpr double kMostExact = 0x1p53;  // limit of exact integers in doubles, which the interpreter's arrays hold

bool HoldsNumbers(DType type) { return type.IsInt() || type.IsBool() || (type.IsFloat() && type.bits >= 32); }

std::optional<InterpArray> ToArray(const TensorValue& value) {
  if (!HoldsNumbers(value.spec.dtype)) return std::nullopt;
  InterpArray array{value.spec.dtype, value.spec.shape, std::vector<double>(value.spec.NumElements())};
  for (size_t i = 0; i < array.data.size(); ++i) {
    array.data[i] = value.Number(static_cast<int64_t>(i));
    if (value.spec.dtype.IsInt() && std::abs(array.data[i]) >= kMostExact) return std::nullopt;
  }
  return array;
}

// Returns a graph of one node with its operands, for LowerSubgraph.
std::optional<Graph> SingleNode(Op op, const Attrs& attrs, const std::vector<TensorValue>& operands) {
  GraphBuilder builder;
  std::vector<ValueId> inputs;
  for (const TensorValue& value : operands) inputs.push_back(builder.Input("", value.spec));
  Result<ValueId> out = builder.Add(op, std::move(inputs), attrs);
  if (!out.ok() || builder.graph().nodes.size() != 1) return std::nullopt;
  builder.Output(*out, "");
  return builder.Finish();
}

}  // namespace

std::optional<TensorValue> ConstantValues::Evaluate(Op op, const Attrs& attrs,
                                                    const std::vector<TensorValue>& operands) {
  if (op == Op::kReshape) return operands[0].Reshaped(std::get<ReshapeAttrs>(attrs).shape);
  std::vector<InterpArray> arrays;
  for (const TensorValue& value : operands) {
    if ((stores_left_ -= value.spec.NumElements()) < 0) return std::nullopt;
    std::optional<InterpArray> array = value.spec.NumElements() > 0 ? ToArray(value) : std::nullopt;
    if (!array) return std::nullopt;
    arrays.push_back(std::move(*array));
  }
  std::optional<Graph> graph = SingleNode(op, attrs, operands);
  if (!graph) return std::nullopt;
  const TensorSpec& spec = graph->Spec(graph->outputs[0]);
  if (!HoldsNumbers(spec.dtype) || spec.NumElements() > stores_left_) return std::nullopt;
  // The values do not depend on the target, since the interpreter computes them. A fixed target makes import
  // repeatable.
  static const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3 -num-cores=1").value();
  auto programs = LowerSubgraph(*graph, target, "constant", {.exact = true});
  if (!programs.ok()) return std::nullopt;
  arrays.push_back({spec.dtype, spec.shape, std::vector<double>(spec.NumElements())});
  if (!Interpret(programs->front().func, arrays, {.detect_races = false, .stores_left = &stores_left_}).ok())
    return std::nullopt;
  const std::vector<double>& out = arrays.back().data;
  // The interpreter returns unsigned integers beyond 2^63 as negative numbers.
  const double least = spec.dtype.code == TypeCode::kUInt ? -1 : -kMostExact;
  auto is_inexact = [&](double x) { return x <= least || x >= kMostExact; };
  if (spec.dtype.IsInt() && std::any_of(out.begin(), out.end(), is_inexact)) return std::nullopt;
  return TensorValue::FromNumbers(spec.dtype, spec.shape, out);
}

std::optional<std::vector<int32_t>> ConstantValues::NodesBehind(ValueId v) const {
  std::set<int32_t> nodes;
  std::vector<ValueId> open = {v};
  int64_t elements = 0;
  while (!open.empty()) {
    ValueId at = open.back();
    open.pop_back();
    if (known_.count(at) || graph_.FindConstant(at)) continue;
    const Node* node = graph_.Producer(at);
    if (!node) return std::nullopt;  // the value is an input of the graph
    if (!nodes.insert(graph_.values[at].index).second) continue;
    elements += graph_.Spec(at).NumElements();
    for (ValueId input : node->inputs) {
      elements += graph_.Spec(input).NumElements();
      open.push_back(input);
    }
    if (elements > stores_left_) return std::nullopt;
  }
  return std::vector<int32_t>(nodes.begin(), nodes.end());
}

const TensorValue* ConstantValues::Find(ValueId v) {
  if (auto it = known_.find(v); it != known_.end()) return it->second ? &*it->second : nullptr;
  if (const Constant* c = graph_.FindConstant(v)) return &*(known_[v] = graph_.ConstantValue(*c));
  std::optional<std::vector<int32_t>> nodes = NodesBehind(v);
  if (!nodes) return nullptr;
  for (int32_t index : *nodes) {
    const Node& node = graph_.nodes[index];
    std::vector<TensorValue> operands;
    for (ValueId input : node.inputs) {
      const TensorValue* operand = Find(input);  // known: a constant, or the result of an earlier node of the list
      if (!operand) return nullptr;
      operands.push_back(*operand);
    }
    known_[node.output] = Evaluate(node.op, node.attrs, operands);
    if (!known_[node.output]) return nullptr;
  }
  return Find(v);
}

}  // namespace autotune::onnx_import
