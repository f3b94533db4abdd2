#include "compiler/plan.h"

#include <set>

#include "graph/memory_plan.h"

namespace autotune {

Result<ExecutionPlan> MakePlan(const graph::Graph& fused, const std::vector<std::string>& kernel_of_node) {
  CHECK(kernel_of_node.size() == fused.nodes.size());
  ExecutionPlan plan;
  graph::MemoryPlan memory = graph::PlanMemory(fused);
  std::vector<GraphRef> where(fused.values.size());
  std::set<std::string> names;
  auto unique = [&](std::string name, const std::string& fallback) {
    if (name.empty()) name = fallback;
    std::string candidate = name;
    for (int i = 1; !names.insert(candidate).second; ++i) candidate = name + "_" + std::to_string(i);
    return candidate;
  };
  auto add = [&](graph::ValueId value, GraphNode node) {
    const graph::TensorSpec& spec = fused.Spec(value);
    node.outputs = {{spec.dtype.Text(), spec.shape, memory.storage_id[value]}};
    where[value] = {static_cast<int64_t>(plan.graph.nodes.size()), 0};
    plan.graph.nodes.push_back(std::move(node));
  };
  for (graph::ValueId input : fused.inputs) {
    add(input, {.name = unique(fused.values[input].name, "input")});
    plan.io_bytes += fused.Spec(input).Bytes();
  }
  for (const graph::Constant& constant : fused.constants) {
    std::string name = unique("p" + std::to_string(plan.params.size()), "");
    add(constant.value, {.name = name});
    graph::TensorValue value = fused.ConstantValue(constant);
    DLDataType type = TRY(DataTypeFromText(value.spec.dtype.Text()));
    plan.params.emplace(name, TRY(Tensor::FromBytes(value.spec.shape, type, value.bytes.view())));
    plan.constants_bytes += value.spec.Bytes();
  }
  for (size_t i = 0; i < fused.nodes.size(); ++i) {
    const graph::Node& node = fused.nodes[i];
    GraphNode out{.name = unique(node.name, kernel_of_node[i].empty() ? "reshape" : kernel_of_node[i])};
    out.func_name = node.op == graph::Op::kReshape ? std::string(kNopFunction) : kernel_of_node[i];
    for (graph::ValueId input : node.inputs) out.inputs.push_back(where[input]);
    add(node.output, std::move(out));
  }
  for (graph::ValueId output : fused.outputs) {
    plan.graph.heads.push_back(where[output]);
    plan.io_bytes += fused.Spec(output).Bytes();
  }
  plan.workspace_bytes = memory.workspace_bytes;
  return plan;
}

}  // namespace autotune
