#include "graph/extract.h"

#include <cstdio>
#include <unordered_map>

namespace autotune::graph {
namespace {

std::string LiteralText(const TensorValue& value) {
  // The bytes, so that -0, NaNs and every last digit count.
  std::string text = "0x";
  for (size_t i = value.bytes.size(); i-- > 0;) {
    char digits[4];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(value.bytes.data()[i]));
    text += digits;
  }
  return text;
}

}  // namespace

std::string CanonicalText(const Graph& subgraph) {
  std::string text = "subgraph v1\n";
  auto ref = [](ValueId v) { return "%" + std::to_string(v); };
  // Values are numbered in the order of the text, since their ids depend on the order of construction.
  std::vector<int> number(subgraph.values.size(), -1);
  int next = 0;
  auto define = [&](ValueId v) { return ref(number[v] = next++); };
  for (ValueId v : subgraph.inputs) text += define(v) + " = input " + subgraph.Spec(v).Text() + "\n";
  for (const Constant& c : subgraph.constants) {
    text += define(c.value) + " = constant " + subgraph.Spec(c.value).Text();
    if (c.data) text += " " + LiteralText(subgraph.ConstantValue(c));
    text += "\n";
  }
  for (const Node& node : subgraph.nodes) {
    std::string arguments;
    for (ValueId v : node.inputs) arguments += (arguments.empty() ? "" : ", ") + ref(number[v]);
    text += define(node.output) + " = " + std::string(ToText(node.op)) + "(" + arguments + ")";
    if (std::string attrs = AttrsText(node.attrs); !attrs.empty()) text += " {" + attrs + "}";
    text += " : " + subgraph.Spec(node.output).Text() + "\n";
  }
  for (ValueId v : subgraph.outputs) text += "output " + ref(number[v]) + "\n";
  return text;
}

std::string SubgraphLabel(const Graph& subgraph) {
  std::string label;
  for (const Node& node : subgraph.nodes) label += (label.empty() ? "" : "_") + std::string(ToText(node.op));
  return label;
}

std::string Task::Label() const { return SubgraphLabel(*subgraph); }

std::vector<Task> ExtractTasks(const Graph& fused) {
  std::vector<Task> tasks;
  std::unordered_map<std::string, size_t> by_text;
  for (size_t i = 0; i < fused.nodes.size(); ++i) {
    const Node& node = fused.nodes[i];
    if (node.op != Op::kFused) continue;
    std::string text = CanonicalText(*node.body);
    auto [it, is_new] = by_text.try_emplace(text, tasks.size());
    if (is_new) tasks.push_back({node.body, text, HashBytes128(text), 0, {}, {}});
    Task& task = tasks[it->second];
    ++task.weight;
    task.nodes.push_back(static_cast<int>(i));
    task.names.push_back(node.name);
  }
  return tasks;
}

}  // namespace autotune::graph
