#include <cstdio>

#include "graph/graph.h"
#include "support/hash.h"

namespace autotune::graph {
namespace {

std::string Hash64Hex(std::string_view bytes) {
  char buffer[20];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(Hash64(bytes)));
  return buffer;
}

std::string ElementText(const TensorValue& value) {
  char buffer[40];
  if (value.spec.dtype == DType::Float(32)) {
    std::snprintf(buffer, sizeof buffer, "%.9g", static_cast<double>(*value.As<float>()));
    return buffer;
  }
  return "0x" + Hash64Hex(value.bytes.view());
}

void Append(std::string& text, const Graph& graph, const std::string& indent) {
  auto ref = [](ValueId v) { return "%" + std::to_string(v); };
  auto named = [](const std::string& name) { return name.empty() ? std::string() : "  # " + name; };
  for (ValueId v : graph.inputs)
    text += indent + ref(v) + " = input " + graph.Spec(v).Text() + named(graph.values[v].name) + "\n";
  for (const Constant& c : graph.constants) {
    text += indent + ref(c.value) + " = constant " + graph.Spec(c.value).Text();
    if (c.data) {
      TensorValue value = graph.ConstantValue(c);
      text += value.spec.NumElements() == 1 ? " " + ElementText(value) : " digest " + Hash64Hex(c.data.view());
    }
    text += named(graph.values[c.value].name) + "\n";
  }
  for (const Node& node : graph.nodes) {
    const auto* call = std::get_if<CallAttrs>(&node.attrs);
    text +=
        indent + ref(node.output) + " = " + std::string(ToText(node.op)) + (call ? " @" + call->function : "") + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + ref(node.inputs[i]);
    text += ")";
    if (std::string attrs = AttrsText(node.attrs); !call && !attrs.empty()) text += " {" + attrs + "}";
    text += " : " + graph.Spec(node.output).Text() + named(node.name) + "\n";
    if (node.body) Append(text, *node.body, indent + "    ");
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    text += indent + "output " + ref(graph.outputs[i]) + named(graph.output_names[i]) + "\n";
}

}  // namespace

std::string GraphText(const Graph& graph) {
  std::string text;
  Append(text, graph, "");
  return text;
}

}  // namespace autotune::graph
