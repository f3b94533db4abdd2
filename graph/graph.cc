#include "graph/graph.h"

#include <algorithm>

namespace autotune::graph {

std::vector<int> Graph::UseCounts() const {
  std::vector<int> uses(values.size(), 0);
  for (const Node& node : nodes) {
    for (ValueId v : node.inputs) ++uses[v];
  }
  for (ValueId v : outputs) ++uses[v];
  return uses;
}

ValueId GraphBuilder::NewValue(TensorSpec spec, std::string name, Value::Def def, size_t index) {
  graph_.values.push_back({std::move(spec), std::move(name), def, static_cast<int32_t>(index)});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::Input(std::string name, TensorSpec spec) {
  ValueId v = NewValue(std::move(spec), std::move(name), Value::Def::kInput, graph_.inputs.size());
  graph_.inputs.push_back(v);
  return v;
}

ValueId GraphBuilder::AddConstant(std::string name, TensorValue value) {
  CHECK(value.spec.Bytes() == static_cast<int64_t>(value.bytes.size())) << name;
  ValueId v = NewValue(std::move(value.spec), std::move(name), Value::Def::kConstant, graph_.constants.size());
  graph_.constants.push_back({v, std::move(value.bytes)});
  return v;
}

ValueId GraphBuilder::ConstantParameter(std::string name, TensorSpec spec) {
  ValueId v = NewValue(std::move(spec), std::move(name), Value::Def::kConstant, graph_.constants.size());
  graph_.constants.push_back({v, {}});
  return v;
}

namespace {

// Returns the value of each element of the result if `op` gets a tensor without elements: the sum or product of
// nothing, or the value of a pad.
Result<double> ElementOfNothing(Op op, const Attrs& attrs) {
  switch (op) {
    case Op::kConv2d:
    case Op::kConv3d:
    case Op::kMatmul:
    case Op::kBatchMatmul:
    case Op::kBlockMatmul:
    case Op::kReduceSum:
      return 0.0;
    case Op::kReduceProd:
      return 1.0;
    case Op::kPad:
      if (const auto& pad = std::get<PadAttrs>(attrs); pad.mode == PadMode::kConstant) return pad.value;
      break;
    default:
      break;
  }
  return Err("reads a tensor without elements");
}

}  // namespace

Result<ValueId> GraphBuilder::Add(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  std::vector<TensorSpec> specs;
  for (ValueId v : inputs) specs.push_back(Spec(v));
  TensorSpec out = TRY(InferType(op, attrs, specs));
  auto is_empty = [&](ValueId v) { return Spec(v).NumElements() == 0; };
  if (out.NumElements() == 0) return AddConstant("", {std::move(out), SharedBytes::Copy("")});
  if (std::any_of(inputs.begin(), inputs.end(), is_empty)) {
    if (op != Op::kConcat) {
      double element = TRY_NOTE(ElementOfNothing(op, attrs), "in " + std::string(ToText(op)));
      ValueId scalar = AddConstant("", TensorValue::FromNumbers(out.dtype, {}, {element}));
      return Add(Op::kBroadcastTo, {scalar}, ReshapeAttrs{out.shape}, std::move(name));
    }
    std::erase_if(inputs, is_empty);
    if (inputs.size() == 1) return inputs[0];
  }
  ValueId v = NewValue(std::move(out), "", Value::Def::kNode, graph_.nodes.size());
  graph_.nodes.push_back({op, std::move(attrs), std::move(inputs), v, std::move(name), nullptr});
  return v;
}

ValueId GraphBuilder::Must(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string name) {
  Result<ValueId> v = Add(op, std::move(inputs), std::move(attrs), std::move(name));
  return *v;
}

ValueId GraphBuilder::Reshape(ValueId v, Shape shape, std::string name) {
  if (Spec(v).shape == shape) return v;
  if (const Constant* c = graph_.FindConstant(v); c && c->data) {
    TensorValue value = graph_.ConstantValue(*c).Reshaped(std::move(shape));
    return AddConstant(graph_.values[v].name, std::move(value));
  }
  return Must(Op::kReshape, {v}, ReshapeAttrs{std::move(shape)}, std::move(name));
}

ValueId GraphBuilder::Transpose(ValueId v, std::vector<int64_t> perm, std::string name) {
  const Shape& shape = Spec(v).shape;
  std::vector<int64_t> moving;
  Shape out;
  for (int64_t axis : perm) {
    out.push_back(shape[axis]);
    if (shape[axis] != 1) moving.push_back(axis);
  }
  if (std::is_sorted(moving.begin(), moving.end())) return Reshape(v, std::move(out), std::move(name));
  return Must(Op::kTranspose, {v}, TransposeAttrs{std::move(perm)}, std::move(name));
}

ValueId GraphBuilder::Call(std::shared_ptr<const Graph> body, std::vector<ValueId> inputs, std::string name) {
  TensorSpec spec = body->Spec(body->outputs[0]);
  ValueId v = NewValue(std::move(spec), "", Value::Def::kNode, graph_.nodes.size());
  graph_.nodes.push_back({Op::kFused, {}, std::move(inputs), v, std::move(name), std::move(body)});
  return v;
}

void GraphBuilder::Output(ValueId v, std::string name) {
  graph_.outputs.push_back(v);
  graph_.output_names.push_back(std::move(name));
}

ValueId GraphBuilder::CallNamed(std::string function, std::vector<ValueId> inputs, TensorSpec spec, std::string name) {
  ValueId v = NewValue(std::move(spec), "", Value::Def::kNode, graph_.nodes.size());
  graph_.nodes.push_back({Op::kCall, CallAttrs{std::move(function)}, std::move(inputs), v, std::move(name), nullptr});
  return v;
}

ValueId GraphBuilder::Again(const Node& node, TensorSpec spec, std::vector<ValueId> inputs) {
  if (node.body) return Call(node.body, std::move(inputs), node.name);
  if (const CallAttrs* call = std::get_if<CallAttrs>(&node.attrs))
    return CallNamed(call->function, std::move(inputs), std::move(spec), node.name);
  return Must(node.op, std::move(inputs), node.attrs, node.name);
}

namespace {

bool SameBody(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) {
  return a == b || (a && b && *a == *b);
}

}  // namespace

bool operator==(const Graph& a, const Graph& b) {
  auto same_constant = [](const Constant& x, const Constant& y) {
    return x.value == y.value && static_cast<bool>(x.data) == static_cast<bool>(y.data) &&
           (x.data.data() == y.data.data() || x.data.view() == y.data.view());
  };
  auto same_node = [](const Node& x, const Node& y) {
    return x.op == y.op && x.attrs == y.attrs && x.inputs == y.inputs && x.output == y.output && x.name == y.name &&
           SameBody(x.body, y.body);
  };
  return a.values == b.values && a.inputs == b.inputs && a.outputs == b.outputs && a.output_names == b.output_names &&
         std::equal(a.constants.begin(), a.constants.end(), b.constants.begin(), b.constants.end(), same_constant) &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), same_node);
}

Status CheckArguments(const Graph& caller, const Node& call, const Graph& callee) {
  std::vector<ValueId> parameters = callee.inputs;
  for (const Constant& c : callee.constants) {
    if (!c.data) parameters.push_back(c.value);
  }
  if (parameters.size() != call.inputs.size())
    return Err("passes ", call.inputs.size(), " values to ", parameters.size(), " parameters");
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (caller.Spec(call.inputs[i]) != callee.Spec(parameters[i])) return Err("parameter ", i, " has another type");
  }
  if (callee.outputs.size() != 1 || callee.Spec(callee.outputs[0]) != caller.Spec(call.output))
    return Err("result has another type");
  return {};
}

namespace {

Status CheckNode(const Graph& graph, const Node& node) {
  if (node.op == Op::kCall) return {};
  if (node.op == Op::kFused) {
    if (!node.body) return Err("has no body");
    TRY(CheckArguments(graph, node, *node.body));
    return CheckGraph(*node.body);
  }
  std::vector<TensorSpec> specs;
  for (ValueId v : node.inputs) specs.push_back(graph.Spec(v));
  TensorSpec spec = TRY(InferType(node.op, node.attrs, specs));
  for (const TensorSpec& in : specs) {
    if (in.NumElements() == 0) return Err("reads ", in.Text(), ", which has no elements");
  }
  if (spec.NumElements() == 0) return Err("makes ", spec.Text(), ", which has no elements");
  if (spec != graph.Spec(node.output))
    return Err("has type ", graph.Spec(node.output).Text(), ", inferred ", spec.Text());
  return {};
}

}  // namespace

Status CheckGraph(const Graph& graph) {
  auto defined_as = [&](ValueId v, Value::Def def, size_t index) {
    return v >= 0 && v < static_cast<ValueId>(graph.values.size()) && graph.values[v].def == def &&
           graph.values[v].index == static_cast<int32_t>(index);
  };
  std::vector<bool> known(graph.values.size(), false);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (!defined_as(graph.inputs[i], Value::Def::kInput, i)) return Err("input ", i, " does not define its value");
    known[graph.inputs[i]] = true;
  }
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    const Constant& c = graph.constants[i];
    if (!defined_as(c.value, Value::Def::kConstant, i)) return Err("constant ", i, " does not define its value");
    if (c.data && static_cast<int64_t>(c.data.size()) != graph.Spec(c.value).Bytes())
      return Err("constant ", i, " has ", c.data.size(), " bytes");
    known[c.value] = true;
  }
  auto is_known = [&](ValueId v) { return v >= 0 && v < static_cast<ValueId>(known.size()) && known[v]; };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::string where = "in node " + std::to_string(i) + " (" + std::string(ToText(node.op)) + " " + node.name + ")";
    if (!defined_as(node.output, Value::Def::kNode, i)) return Err("node ", i, " does not define its value");
    for (ValueId v : node.inputs) {
      if (!is_known(v)) return Err("value %", v, " is used before it is defined ", where);
    }
    TRY_NOTE(CheckNode(graph, node), where);
    known[node.output] = true;
  }
  if (graph.outputs.size() != graph.output_names.size()) return Err("every output needs a name");
  for (ValueId v : graph.outputs) {
    if (!is_known(v)) return Err("output %", v, " is not defined");
  }
  return {};
}

}  // namespace autotune::graph
