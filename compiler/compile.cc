#include "compiler/compile.h"

#include <chrono>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "schedule/trace.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

TensorSpec PublicSpec(const graph::Graph& graph, graph::ValueId value, std::string name, ParamKind kind) {
  const graph::TensorSpec& spec = graph.Spec(value);
  return {std::move(name), spec.dtype.Text(), spec.shape, kind};
}

}  // namespace

bool IsCurrent(const NetworkChoice& choice) {
  return choice.versions.step_language == kStepLanguageVersion &&
         choice.versions.code_generator == kCodeGeneratorVersion;
}

Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder) {
  if (!store) return CompileFrom(network, target, {}, builder);
  std::optional<NetworkChoice> choice = TRY(FindChoice(*store, StructureHash(network), target.Text()));
  std::string note;
  if (choice && !IsCurrent(*choice)) {
    choice.reset();
    note = "the schedules chosen for this network are of another version; `autotune tune` chooses anew";
  }
  if (choice) {
    int newer = 0;
    for (const TuneTask& task : network.tasks) {
      std::optional<Record> best = TRY(store->Best(task.hash.Hex(), target.Text()));
      newer += best && best->created_at > choice->created_at;
    }
    if (newer > 0) {
      note = "for " + std::to_string(newer) + (newer == 1 ? " task" : " tasks") +
             " the database has newer records than the schedules chosen for this network; `autotune tune` decides on "
             "them";
    }
  }
  CompileResult result =
      TRY(CompileFrom(network, target, {.store = store, .choice = choice ? &*choice : nullptr}, builder));
  result.followed_choice = choice.has_value();
  result.note = std::move(note);
  return result;
}

Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  Builder& builder) {
  KernelCompiler compiler(builder);
  return CompileFrom(network, target, sources, compiler);
}

Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  KernelCompiler& compiler) {
  auto begin = std::chrono::steady_clock::now();
  KernelSet kernels = TRY(BuildKernels(network.tasks, target, sources, compiler));
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
  for (size_t i = 0; i < network.tasks.size(); ++i) {
    const TuneTask& task = network.tasks[i];
    const KernelChoice& choice = kernels.choices[i];
    package.info.tuned_tasks += choice.tuned;
    package.info.kernels.push_back(
        {kernels.names[i], task.hash.Hex(), task.label, choice.alternative, choice.tuned, task.flops});
  }
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
