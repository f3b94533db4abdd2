#include "compiler/compile.h"

#include <algorithm>
#include <chrono>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "package/module_file.h"
#include "runtime/module_blob.h"
#include "schedule/trace.h"
#include "support/file.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

TensorSpec PublicSpec(const graph::Graph& graph, graph::ValueId value, std::string name, ParamKind kind) {
  const graph::TensorSpec& spec = graph.Spec(value);
  return {std::move(name), spec.dtype.Text(), spec.shape, kind};
}

// States the memory of the network and of its kernels. Kernels run one at a time, so the network needs the scratch
// memory of the one that needs most.
void AddMemory(const ExecutionPlan& plan, const std::vector<KernelMetadata>& kernels, const Target& target,
               Package& package) {
  int64_t scratch = 0;
  for (const KernelMetadata& kernel : kernels) {
    const int64_t bytes = kernel.WorkspaceOf(target.num_cores);
    package.functions[kernel.name] = {{.device = kDLCPU, .workspace_size_bytes = bytes}};
    scratch = std::max(scratch, bytes);
  }
  for (const auto& [device, memory] : plan.memory) {
    package.memory.push_back({.device = device,
                              .workspace_size_bytes = memory.workspace + (device == kDLCPU ? scratch : 0),
                              .constants_size_bytes = memory.constants,
                              .io_size_bytes = memory.io});
  }
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

Status WriteCompiled(const Package& package, const std::string& path, Builder& builder) {
  if (!path.ends_with(".so")) return WritePackage(package, path);
  std::vector<Json::Bytes> objects;
  for (const std::string& object : package.objects) objects.push_back({object});
  Json::Bytes symbol;
  symbol.data = TRY(ModuleSymbolOf(package));
  Json::Bytes library =
      TRY_NOTE(builder.LinkWithData(objects, kModuleBlobSymbol, symbol, package.info.target), "while writing " + path);
  return ReplaceFile(path, library.data);
}

Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  KernelCompiler& compiler) {
  auto begin = std::chrono::steady_clock::now();
  KernelSet kernels = TRY(BuildKernels(network.tasks, target, sources, compiler));
  std::vector<NodeCode> code(network.graph.nodes.size());
  for (size_t i = 0; i < code.size(); ++i) {
    const int task = network.task_of_node[i];
    if (task >= 0) code[i] = {.kernel = kernels.names[task], .hash = network.tasks[task].hash.Hex()};
  }
  ExecutionPlan plan = TRY(MakePlan(network.graph, code));

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
  package.objects = std::move(kernels.objects);
  package.graph_text = graph::GraphText(network.graph);
  AddMemory(plan, kernels.kernels, target, package);
  result.choices = std::move(kernels.choices);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace autotune
