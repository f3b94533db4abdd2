#include "compiler/network.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pass.h"
#include "graph/pipeline.h"
#include "graph/to_te.h"
#include "ir/arithmetic.h"
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "support/file.h"
#include "support/host_lock.h"
#include "te/reference.h"

namespace autotune {
namespace {

struct TaskList {
  std::vector<TuneTask> tasks;
  std::vector<int> task_of_node;
};

std::string LabelOf(const graph::Task& task) {
  std::string label = task.Label();
  for (graph::ValueId input : task.subgraph->inputs) label += " " + graph::ShapeText(task.subgraph->Spec(input).shape);
  for (const graph::Constant& constant : task.subgraph->constants) {
    const graph::Shape& shape = task.subgraph->Spec(constant.value).shape;
    if (shape.size() > 1) label += " x " + graph::ShapeText(shape);
  }
  return label;
}

Result<TaskList> MakeTasks(const graph::Graph& fused, const Target& target, const graph::LowerOptions& options) {
  TaskList list;
  list.task_of_node.assign(fused.nodes.size(), -1);
  std::vector<std::pair<TuneTask, std::vector<int>>> lowered;  // and the task's nodes
  for (const graph::Task& task : graph::ExtractTasks(fused)) {
    TuneTask tune{.hash = task.hash, .label = LabelOf(task), .weight = task.weight};
    for (graph::Alternative& alternative :
         TRY_NOTE(graph::LowerSubgraph(*task.subgraph, target, "kernel", options), "while expressing " + tune.label)) {
      tune.alternatives.push_back({std::move(alternative.name), std::move(alternative.func)});
    }
    tune.flops = ArithmeticOf(tune.alternatives[0].func.body).Flops();
    tune.reference = te::ToReference(tune.alternatives[0].func);
    lowered.emplace_back(std::move(tune), task.nodes);
  }
  std::stable_sort(lowered.begin(), lowered.end(), [](const auto& a, const auto& b) {
    return a.first.flops * a.first.weight > b.first.flops * b.first.weight;
  });
  for (auto& [tune, nodes] : lowered) {
    for (int node : nodes) list.task_of_node[node] = static_cast<int>(list.tasks.size());
    list.tasks.push_back(std::move(tune));
  }
  return list;
}

// Folds constants with kernels like everybody else's: default schedules, built by the workers, run here.
Result<std::vector<graph::TensorValue>> EvaluateConstants(const graph::Graph& graph, const Target& target,
                                                          Builder& builder) {
  graph::PassContext context;
  graph::Graph fused = TRY(graph::Fuse(graph, context));
  TaskList list = TRY(MakeTasks(fused, target, {.exact = true}));
  KernelSet kernels;
  Module library;  // none for a graph of reshapes only
  auto kernel_context = std::make_shared<KernelContext>(0);
  if (!list.tasks.empty()) {
    KernelCompiler compiler(builder);
    kernels = TRY(BuildKernels(list.tasks, target, {}, compiler));
    library = MakeLibraryModule(TRY(Artifact::FromBytes(kernels.library)), kernel_context);
  }
  std::vector<NodeCode> code(fused.nodes.size());
  for (size_t i = 0; i < code.size(); ++i) {
    if (list.task_of_node[i] >= 0) code[i].kernel = kernels.names[list.task_of_node[i]];
  }
  ExecutionPlan plan = TRY(MakePlan(fused, code));
  auto executor = TRY(GraphExecutor::Create(std::move(plan.graph), std::move(library), std::move(plan.params),
                                            {std::make_shared<CpuDevice>(kernel_context)}));
  {
    HostLock lock = TRY(HostLock::Acquire(HostLock::Mode::kShared));  // as a build does
    TRY(executor->Run());
  }
  std::vector<graph::TensorValue> values;
  for (size_t i = 0; i < fused.outputs.size(); ++i) {
    values.push_back(
        {fused.Spec(fused.outputs[i]), graph::SharedBytes::Copy(executor->Output(static_cast<int64_t>(i)).bytes())});
  }
  return values;
}

}  // namespace

std::string StructureHash(const Network& network) {
  std::ostringstream text;
  for (size_t i = 0; i < network.graph.nodes.size(); ++i) {
    const graph::Node& node = network.graph.nodes[i];
    int task = network.task_of_node[i];
    text << (task < 0 ? "reshape" : network.tasks[task].hash.Hex());
    // Include the alternatives, since a network that may use other algorithms needs its own choice.
    if (task >= 0) {
      for (const TaskAlternative& alternative : network.tasks[task].alternatives) text << ' ' << alternative.name;
    }
    for (graph::ValueId input : node.inputs) text << ' ' << input;
    text << " -> " << node.output << graph::ShapeText(network.graph.Spec(node.output).shape) << '\n';
  }
  return HashBytes128(text.str()).Hex();
}

int64_t WorkingSetBytes(const Network& network) {
  const graph::Graph& graph = network.graph;
  int64_t bytes = 0;
  for (graph::ValueId input : graph.inputs) bytes += graph.Spec(input).Bytes();
  for (const graph::Constant& constant : graph.constants) bytes += graph.Spec(constant.value).Bytes();
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (network.task_of_node[i] >= 0) bytes += graph.Spec(graph.nodes[i].output).Bytes();
  }
  return bytes;
}

Result<Network> MakeNetwork(const graph::Graph& graph, const NetworkOptions& options, const Target& target,
                            Builder& builder) {
  Network network;
  // Constants are folded where we are, whatever the target: by the host's own kernels.
  Target host = TRY(Target::Parse("cpu"));
  graph::PassContext context;
  context.evaluate = [&](const graph::Graph& constants) { return EvaluateConstants(constants, host, builder); };
  network.graph = TRY(graph::Optimize(graph, context));
  TaskList list = TRY(MakeTasks(network.graph, target, {.exact = !options.winograd}));
  network.tasks = std::move(list.tasks);
  network.task_of_node = std::move(list.task_of_node);
  for (const TuneTask& task : network.tasks) network.flops += task.flops * task.weight;
  return network;
}

Result<Network> LoadNetwork(const std::string& path, const NetworkOptions& options, const Target& target,
                            Builder& builder) {
  ImportedModel model =
      TRY(ImportOnnx(path, {.shapes = options.shapes, .extra_outputs = options.extra_outputs, .fixed = options.fixed}));
  Network network = TRY_NOTE(MakeNetwork(model.graph, options, target, builder), "while optimizing " + path);
  network.name = std::filesystem::path(path).stem().string();
  if (network.name == "model") {  // ONNX's own layout: the folder has the name
    std::string folder = std::filesystem::absolute(path).parent_path().filename().string();
    if (!folder.empty()) network.name = folder;
  }
  network.notes = std::move(model.notes);

  std::ostringstream text;  // what the model was told to be, beside its file
  for (const auto& [name, shape] : options.shapes) text << name << graph::ShapeText(shape);
  for (const std::string& name : options.extra_outputs) text << name;
  if (!options.winograd) text << "no winograd";
  for (const auto& [name, value] : options.fixed) text << name << value.spec.Text() << value.bytes.view();
  network.digest = HashBytes128(TRY(ReadFile(path)) + text.str());
  return network;
}

}  // namespace autotune
