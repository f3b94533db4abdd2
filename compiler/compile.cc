#include "compiler/compile.h"

#include <chrono>

#include "compiler/kernels.h"
#include "compiler/plan.h"

namespace autotune {
namespace {

TensorSpec PublicSpec(const graph::Graph& graph, graph::ValueId value, std::string name, ParamKind kind) {
  const graph::TensorSpec& spec = graph.Spec(value);
  return {std::move(name), spec.dtype.Text(), spec.shape, kind};
}

}  // namespace

Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder,
                              const CompileOptions& options) {
  auto begin = std::chrono::steady_clock::now();
  KernelSet kernels = TRY(BuildKernels(network.tasks, target, options.use_records ? store : nullptr, builder));
  std::vector<std::string> kernel_of_node;
  for (int task : network.task_of_node) kernel_of_node.push_back(task < 0 ? "" : kernels.names[task]);
  ExecutionPlan plan = TRY(MakePlan(network.graph, kernel_of_node));

  CompileResult result;
  Package& package = result.package;
  package.info.model_name = network.name;
  package.info.target = target.Text();
  for (graph::ValueId input : network.graph.inputs)
    package.info.inputs.push_back(
        PublicSpec(network.graph, input, network.graph.values[input].name, ParamKind::kInput));
  for (size_t i = 0; i < network.graph.outputs.size(); ++i) {
    package.info.outputs.push_back(
        PublicSpec(network.graph, network.graph.outputs[i], network.graph.output_names[i], ParamKind::kOutput));
  }
  package.info.workspace_bytes = plan.workspace_bytes;
  package.info.constants_bytes = plan.constants_bytes;
  package.info.io_bytes = plan.io_bytes;
  package.info.tasks = static_cast<int>(network.tasks.size());
  for (const KernelChoice& choice : kernels.choices) package.info.tuned_tasks += choice.tuned;
  package.graph_json = plan.graph.ToText();
  package.params = ParamsBytes(plan.params);
  package.library = std::move(kernels.library);
  package.graph_text = graph::GraphText(network.graph);
  for (const std::string& name : kernels.names) {
    Json device;
    device["device"] = 1;
    package.functions[name] = Json::Array{device};
  }
  result.choices = std::move(kernels.choices);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace autotune
