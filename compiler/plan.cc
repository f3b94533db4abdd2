#include "compiler/plan.h"

#include <set>

#include "compiler/storage.h"
#include "support/hash.h"

namespace autotune {
namespace {

class PlanMaker {
 public:
  PlanMaker(const graph::Graph& fused, const std::vector<NodeCode>& code)
      : fused_(fused), code_(code), where_(fused.values.size()), home_(fused.values.size(), kDLCPU) {
    FindHomes();
  }

  Result<ExecutionPlan> Run() {
    for (graph::ValueId input : fused_.inputs) {
      AddValue(input, {.name = Unique(fused_.values[input].name, "input")});
      plan_.memory[home_[input]].io += fused_.Spec(input).Bytes();
    }
    for (const graph::Constant& constant : fused_.constants) TRY(AddConstant(constant));
    for (size_t i = 0; i < fused_.nodes.size(); ++i) AddNode(fused_.nodes[i], code_[i]);
    std::set<graph::ValueId> counted;  // outputs that are counted already
    for (graph::ValueId output : fused_.outputs) {
      plan_.graph.heads.push_back(where_[output].at(home_[output]));
      const bool computed = fused_.values[output].def == graph::Value::Def::kNode;
      if (computed && counted.insert(output).second) plan_.memory[home_[output]].io += fused_.Spec(output).Bytes();
    }
    for (const auto& [device, bytes] : AssignStorage(plan_.graph).workspace_bytes)
      plan_.memory[device].workspace = bytes;
    return std::move(plan_);
  }

 private:
  // Sets home_. A variable's home is the device of its first reader.
  void FindHomes() {
    std::vector<bool> found(fused_.values.size(), false);
    for (size_t i = 0; i < fused_.nodes.size(); ++i) {
      const graph::Node& node = fused_.nodes[i];
      const bool reshape = node.op == graph::Op::kReshape;
      const int64_t device = reshape && found[node.inputs[0]] ? home_[node.inputs[0]] : code_[i].device;
      for (graph::ValueId input : node.inputs) {
        if (!found[input]) home_[input] = device;
        found[input] = true;
      }
      home_[node.output] = device;
      found[node.output] = true;
    }
  }

  std::string Unique(std::string name, const std::string& fallback) {
    if (name.empty()) name = fallback;
    std::string candidate = name;
    for (int i = 1; !names_.insert(candidate).second; ++i) candidate = name + "_" + std::to_string(i);
    return candidate;
  }

  // Adds a node whose output is `value` on `device`.
  void AddValue(graph::ValueId value, GraphNode node, int64_t device) {
    const graph::TensorSpec& spec = fused_.Spec(value);
    node.outputs = {{.dtype = spec.dtype.Text(), .shape = spec.shape, .device = device}};
    where_[value][device] = {static_cast<int64_t>(plan_.graph.nodes.size()), 0};
    plan_.graph.nodes.push_back(std::move(node));
  }
  void AddValue(graph::ValueId value, GraphNode node) { AddValue(value, std::move(node), home_[value]); }

  Status AddConstant(const graph::Constant& constant) {
    std::string name = Unique("p" + std::to_string(plan_.params.size()), "");
    AddValue(constant.value, {.name = name});
    graph::TensorValue value = fused_.ConstantValue(constant);
    DLDataType type = TRY(DataTypeFromText(value.spec.dtype.Text()));
    plan_.params.emplace(name, TRY(Tensor::FromBytes(value.spec.shape, type, value.bytes.view())));
    if (const graph::ScaledIntegers* origin = value.bytes.origin()) TRY(AddOrigin(name, *origin));
    plan_.memory[home_[constant.value]].constants += value.spec.Bytes();
    return {};
  }

  Status AddOrigin(const std::string& name, const graph::ScaledIntegers& origin) {
    for (const std::string& part : StoredParts(name))
      if (!names_.insert(part).second) return {};  // a tensor of the model has this name
    const graph::TensorValue &numbers = origin.numbers, &scales = origin.scales;
    ScaledIntegers parts;
    parts.numbers = TRY(Tensor::FromBytes(numbers.spec.shape, {kDLInt, 8, 1}, numbers.bytes.view()));
    parts.scales = TRY(Tensor::FromBytes(scales.spec.shape, {kDLFloat, 32, 1}, scales.bytes.view()));
    plan_.scaled.emplace(name, std::move(parts));
    return {};
  }

  // Returns a reference to the value on `device`. Adds a node that copies it if the value is not on that device yet.
  GraphRef ValueOn(graph::ValueId value, int64_t device) {
    if (!where_[value].contains(device)) {
      GraphNode copy{.name = Unique(fused_.values[value].name + "_copy", ""), .func_name = std::string(kCopyFunction)};
      copy.inputs = {where_[value].at(home_[value])};
      copy.hash = HashBytes128(copy.func_name + " " + fused_.Spec(value).Text()).Hex();
      AddValue(value, std::move(copy), device);
    }
    return where_[value].at(device);
  }

  void AddNode(const graph::Node& node, const NodeCode& code) {
    const bool reshape = node.op == graph::Op::kReshape;
    GraphNode out{.name = Unique(node.name, code.kernel.empty() ? "reshape" : code.kernel)};
    out.func_name = reshape ? std::string(kNopFunction) : code.kernel;
    for (graph::ValueId input : node.inputs) out.inputs.push_back(ValueOn(input, home_[node.output]));
    out.hash = code.hash.empty() ? HashOf(out.func_name, node) : code.hash;
    plan_.place.push_back(static_cast<int64_t>(plan_.graph.nodes.size()));
    AddValue(node.output, std::move(out));
  }

  // Returns the hash of a node without a task. It covers the function and the types of the operands and the result.
  std::string HashOf(const std::string& function, const graph::Node& node) const {
    std::string text = function;
    for (graph::ValueId input : node.inputs) text += " " + fused_.Spec(input).Text();
    return HashBytes128(text + " -> " + fused_.Spec(node.output).Text()).Hex();
  }

  const graph::Graph& fused_;
  const std::vector<NodeCode>& code_;
  std::vector<std::map<int64_t, GraphRef>> where_;  // by value: its place in the plan, on each device
  std::vector<int64_t> home_;  // by value: the device that computes it or, for a variable, first reads it
  std::set<std::string> names_;
  ExecutionPlan plan_;
};

}  // namespace

Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<NodeCode>& code) {
  CHECK(code.size() == fused.nodes.size());
  return PlanMaker(fused, code).Run();
}

}  // namespace autotune
