#include "compiler/compile.h"

#include <algorithm>
#include <chrono>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "graph/to_te.h"
#include "ir/text.h"
#include "package/module_file.h"
#include "schedule/trace.h"
#include "support/file.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// Callers may give arrays of any alignment that their elements allow: what a kernel cannot use in place is copied.
TensorSpec PublicSpec(const graph::Graph& graph, graph::ValueId value, std::string name, ParamKind kind) {
  const graph::TensorSpec& spec = graph.Spec(value);
  return {std::move(name), spec.dtype.Text(), spec.shape, kind, spec.dtype.Bytes()};
}

// Returns PackagedKernel::winograd of a task.
std::string WinogradOf(const Network& network, const NetworkTask& task, const Target& target) {
  const graph::Graph* subgraph = network.module.FindGraph(task.function);
  const std::optional<std::string> obstacle = subgraph ? graph::WinogradObstacle(*subgraph, target) : std::nullopt;
  if (!obstacle) return "";
  return obstacle->empty() ? kWinogradApplies : *obstacle;
}

// Sets the memory of the network and of its kernels in `package`. Kernels run one at a time, so the network needs as
// much scratch memory as its most demanding kernel.
void AddMemory(const ExecutionPlan& plan, const std::vector<KernelMetadata>& kernels, const Target& target,
               Package& package) {
  int64_t scratch = 0;
  for (const KernelMetadata& kernel : kernels) {
    const int64_t bytes = kernel.WorkspaceOf(target.num_cores);
    package.functions[kernel.name] = {{.device = DeviceTypeOf(target), .workspace_size_bytes = bytes}};
    scratch = std::max(scratch, bytes);
  }
  for (const auto& [device, memory] : plan.memory) {
    package.memory.push_back({.device = device,
                              .workspace_size_bytes = memory.workspace + (device == DeviceTypeOf(target) ? scratch : 0),
                              .constants_size_bytes = memory.constants,
                              .io_size_bytes = memory.io});
  }
}

}  // namespace

bool IsCurrent(const NetworkChoice& choice) {
  return choice.versions.step_language == kStepLanguageVersion &&
         choice.versions.code_generator == kCodeGeneratorVersion;
}

Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder,
                              const PassContext& passes) {
  if (!store) return CompileFrom(network, target, {}, builder, passes);
  std::optional<NetworkChoice> choice = TRY(FindChoice(*store, StructureHash(network), target.Text()));
  std::string note;
  if (choice && !IsCurrent(*choice)) {
    choice.reset();
    note =
        "the schedules chosen for this network are from another version of this program; `autotune tune` chooses anew";
  }
  if (choice) {
    int newer = 0;
    for (const NetworkTask& task : network.tasks) {
      std::optional<Record> best = TRY(store->Best(task.hash.Hex(), target.Text()));
      newer += best && best->created_at > choice->created_at;
    }
    if (newer > 0) {
      note =
          "for " + std::to_string(newer) + (newer == 1 ? " task" : " tasks") +
          " the database has newer records than the schedules chosen for this network; `autotune tune` compares them";
    }
  }
  CompileResult result =
      TRY(CompileFrom(network, target, {.store = store, .choice = choice ? &*choice : nullptr}, builder, passes));
  result.followed_choice = choice.has_value();
  result.note = std::move(note);
  return result;
}

Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  Builder& builder, const PassContext& passes) {
  KernelCompiler compiler(builder, passes);
  return CompileFrom(network, target, sources, compiler);
}

Status WriteCompiled(const Package& package, const std::string& path, Builder& builder) {
  if (!path.ends_with(".so")) return WritePackage(package, path);
  std::vector<Json::Bytes> objects;
  for (const std::string& object : package.objects) objects.push_back({object});
  // Pass the parameters in a file, since memory may not suffice for a second copy.
  return ReplaceFile(path, [&](int output) -> Status {
    const std::string note = "while writing " + path;
    UniqueFd data = TRY(OpenUnnamedFile(FolderOf(path)));
    TRY_NOTE(WriteModuleObject(package, data.get()), note);
    TRY_NOTE(builder.LinkWithData(objects, PathOfDescriptor(data.get()), PathOfDescriptor(output)), note);
    return {};
  });
}

Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  KernelCompiler& compiler) {
  auto begin = std::chrono::steady_clock::now();
  KernelSet kernels = TRY(BuildKernels(network, target, sources, compiler));
  const graph::Graph& main = network.main();
  ExecutionPlan plan = TRY(MakePlan(main, CodeOfNodes(network, target)));

  CompileResult result;
  Package& package = result.package;
  package.info.model_name = network.name;
  package.info.target = target.Text();
  for (graph::ValueId input : main.inputs)
    package.info.inputs.push_back(PublicSpec(main, input, main.values[input].name, ParamKind::kInput));
  for (size_t i = 0; i < main.outputs.size(); ++i)
    package.info.outputs.push_back(PublicSpec(main, main.outputs[i], main.output_names[i], ParamKind::kOutput));
  package.info.tasks = static_cast<int>(network.tasks.size());
  for (size_t i = 0; i < network.tasks.size(); ++i) {
    const NetworkTask& task = network.tasks[i];
    const KernelChoice& choice = kernels.choices[i];
    package.info.tuned_tasks += choice.tuned;
    package.info.kernels.push_back({.name = kernels.names[i],
                                    .task = task.hash.Hex(),
                                    .label = task.label,
                                    .alternative = choice.alternative,
                                    .tuned = choice.tuned,
                                    .flops = task.flops,
                                    .alternatives = task.alternatives,
                                    .winograd = WinogradOf(network, task, target),
                                    .program = ToText(ProgramOf(network, task, choice.alternative)),
                                    .trace = choice.trace});
  }
  package.graph_json = plan.graph.ToText();
  package.params = ParamsBytes(TRY(Narrowed(plan.params, plan.scaled)));
  package.library = std::move(kernels.library);
  package.objects = std::move(kernels.objects);
  package.sources = std::move(kernels.sources);
  package.device_blob = std::move(kernels.device_blob);
  package.device_sources = std::move(kernels.device_sources);
  package.graph_text = GraphText(network.module);
  AddMemory(plan, kernels.kernels, target, package);
  result.kernels = std::move(kernels.kernels);
  result.uses_tiles = kernels.uses_tiles;
  result.choices = std::move(kernels.choices);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace autotune
