#include "graph/extract.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "ir/dot.h"

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

std::string Ref(int number) { return "%" + std::to_string(number); }

// Returns whether a node of this operator computes in the same way for every number that it takes.
bool TakesAnyNumber(Op op) {
  constexpr Op kAnyNumber[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kFma, Op::kMax, Op::kMin};
  return std::ranges::find(kAnyNumber, op) != std::end(kAnyNumber);
}

// Writes a subgraph as text.
class Writer {
 public:
  // `family`: leaves out the numbers that FamilyOf leaves out. One-element constants then stand where they are used,
  // since two uses may share a constant whose number both need.
  Writer(const Graph& subgraph, bool family)
      : subgraph_(subgraph),
        family_(family),
        number_(subgraph.values.size(), -1),
        needs_sign_(subgraph.values.size(), !family) {
    for (const Node& node : subgraph.nodes)
      for (const ValueId v : node.inputs)
        if (KindOf(node.op) == OpKind::kAnchor) needs_sign_[v] = true;
  }

  std::string Text() {
    std::string text = family_ ? "family v1\n" : "subgraph v1\n";
    for (ValueId v : subgraph_.inputs) text += Define(v) + " = input " + SpecText(v) + "\n";
    for (const Constant& c : subgraph_.constants) {
      if (IsInPlace(c)) continue;
      text += Define(c.value) + " = constant " + SpecText(c.value);
      if (c.data) text += " " + LiteralText(subgraph_.ConstantValue(c));
      text += "\n";
    }
    for (const Node& node : subgraph_.nodes) {
      std::string arguments;
      for (ValueId v : node.inputs) arguments += (arguments.empty() ? "" : ", ") + Operand(node, v);
      text += Define(node.output) + " = " + std::string(ToText(node.op)) + "(" + arguments + ")";
      if (std::string attrs = AttributesOf(node); !attrs.empty()) text += " {" + attrs + "}";
      text += " : " + SpecText(node.output) + "\n";
    }
    for (ValueId v : subgraph_.outputs) text += "output " + Ref(number_[v]) + "\n";
    return text;
  }

 private:
  // Values are numbered in the order of the text, since their ids depend on the order of construction.
  std::string Define(ValueId v) { return Ref(number_[v] = next_++); }

  DType TypeOf(ValueId v) const {
    const DType type = subgraph_.Spec(v).dtype;
    return IsByte(type) && !needs_sign_[v] ? DType::UInt(8) : type;
  }
  std::string SpecText(ValueId v) const { return TensorSpec{TypeOf(v), subgraph_.Spec(v).shape}.Text(); }

  bool IsInPlace(const Constant& c) const { return family_ && c.data && subgraph_.Spec(c.value).NumElements() == 1; }

  std::string Operand(const Node& node, ValueId v) const {
    const Constant* c = subgraph_.FindConstant(v);
    if (!c || !IsInPlace(*c)) return Ref(number_[v]);
    return SpecText(v) + (TakesAnyNumber(node.op) ? "" : " " + LiteralText(subgraph_.ConstantValue(*c)));
  }

  std::string AttributesOf(const Node& node) const {
    Attrs attrs = node.attrs;
    auto* conv = std::get_if<ConvAttrs>(&attrs);
    if (family_ && conv && conv->pad_value != 0) conv->pad_value = 1;
    if (auto* cast = std::get_if<CastAttrs>(&attrs)) cast->to = TypeOf(node.output);
    if (auto* clip = std::get_if<ClipAttrs>(&attrs); family_ && clip) {
      for (float* bound : {&clip->min, &clip->max})
        if (std::isfinite(*bound)) *bound = 0;
    }
    return AttrsText(attrs);
  }

  const Graph& subgraph_;
  const bool family_;
  std::vector<int> number_;
  std::vector<bool> needs_sign_;  // by value: the text says whether its bytes have a sign
  int next_ = 0;
};

}  // namespace

std::string CanonicalText(const Graph& subgraph) { return Writer(subgraph, /*family=*/false).Text(); }

Hash128 FamilyOf(const Graph& subgraph) { return HashBytes128(Writer(subgraph, /*family=*/true).Text()); }

std::string SubgraphLabel(const Graph& subgraph) {
  std::string label, all;
  std::vector<bool> is_number;  // by value: it follows from single numbers alone
  for (const Value& value : subgraph.values) is_number.push_back(value.spec.NumElements() == 1);
  for (const Node& node : subgraph.nodes) {
    if (node.op != Op::kSlice)
      for (const ValueId v : node.inputs) is_number[node.output] = is_number[node.output] && is_number[v];
    all += (all.empty() ? "" : "_") + std::string(ToText(node.op));
    if (!is_number[node.output]) label += (label.empty() ? "" : "_") + std::string(ToText(node.op));
  }
  return label.empty() ? all : label;
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
