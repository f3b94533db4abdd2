#include "compiler/network.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "graph/step_moves.h"
#include "graph/to_te.h"
#include "ir/added_product.h"
#include "ir/arithmetic.h"
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "support/file.h"
#include "support/host_lock.h"
#include "te/error_bound.h"
#include "te/reference.h"

namespace autotune {
namespace {

constexpr const char* kProgramName = "kernel";        // name of every task's programs in records
constexpr const char* kMakeKernels = "make_kernels";  // the pass that makes the tasks' functions

std::string LabelOf(const graph::Task& task) {
  std::string label = task.Label();
  for (graph::ValueId input : task.subgraph->inputs) label += " " + graph::ShapeText(task.subgraph->Spec(input).shape);
  for (const graph::Constant& constant : task.subgraph->constants) {
    const graph::Shape& shape = task.subgraph->Spec(constant.value).shape;
    if (shape.size() > 1) label += " x " + graph::ShapeText(shape);
  }
  return label;
}

std::string FunctionName(const std::string& label, size_t index) {
  constexpr size_t kMostLength = 80;
  std::string name = "k" + std::to_string(index) + "_";
  for (char c : label.substr(0, label.find(' '))) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.substr(0, kMostLength);
}

std::string ProgramName(const NetworkTask& task, const std::string& alternative) {
  return task.function + "_" + alternative;
}

// A task with its graph function and its programs, which become functions of the module.
struct ExpressedTask {
  NetworkTask task;
  graph::Task fused;
  std::vector<graph::Alternative> programs;
};

// Returns all tasks of a fused graph, ordered by decreasing work.
Result<std::vector<ExpressedTask>> ExpressTasks(const graph::Graph& fused, const Target& target,
                                                const graph::LowerOptions& options) {
  std::vector<ExpressedTask> expressed;
  for (graph::Task& fused_task : graph::ExtractTasks(fused)) {
    ExpressedTask task;
    task.task = {.hash = fused_task.hash,
                 .family = graph::FamilyOf(*fused_task.subgraph),
                 .label = LabelOf(fused_task),
                 .weight = fused_task.weight};
    task.programs = TRY_NOTE(graph::LowerSubgraph(*fused_task.subgraph, target, kProgramName, options),
                             "while expressing " + task.task.label);
    for (const graph::Alternative& program : task.programs) task.task.alternatives.push_back(program.name);
    task.task.flops = ArithmeticOf(task.programs[0].func.body).Flops();
    task.fused = std::move(fused_task);
    expressed.push_back(std::move(task));
  }
  std::stable_sort(expressed.begin(), expressed.end(), [](const ExpressedTask& a, const ExpressedTask& b) {
    return a.task.flops * a.task.weight > b.task.flops * b.task.weight;
  });
  for (size_t i = 0; i < expressed.size(); ++i) {
    expressed[i].task.function = FunctionName(expressed[i].task.label, i);
  }
  return expressed;
}

// Returns the graph with calls of named functions in place of calls of fused bodies. `function_of_node` is the name for
// each node; empty for nodes that are not changed.
graph::Graph WithNamedCalls(const graph::Graph& fused, const std::vector<std::string>& function_of_node) {
  graph::Graph named = fused;
  for (size_t i = 0; i < named.nodes.size(); ++i) {
    if (function_of_node[i].empty()) continue;
    named.nodes[i].op = graph::Op::kCall;
    named.nodes[i].attrs = graph::CallAttrs{function_of_node[i]};
    named.nodes[i].body = nullptr;
  }
  return named;
}

// Makes the network of a fused module: names the fused bodies, and adds their graph functions and programs.
Result<Network> MakeKernels(const IRModule& fused, const Target& target, const graph::LowerOptions& options) {
  std::vector<ExpressedTask> expressed = TRY(ExpressTasks(fused.main(), target, options));
  std::vector<std::string> function_of_node(fused.main().nodes.size());
  for (const ExpressedTask& task : expressed) {
    for (int node : task.fused.nodes) function_of_node[node] = task.task.function;
  }
  Network network;
  network.module = fused;
  network.module.Set(std::string(IRModule::kMain), WithNamedCalls(fused.main(), function_of_node));
  for (ExpressedTask& task : expressed) {
    network.module.Set(task.task.function, *task.fused.subgraph);
    for (graph::Alternative& program : task.programs)
      network.module.Set(ProgramName(task.task, program.name), std::move(program.func));
    network.flops += task.task.flops * task.task.weight;
    network.tasks.push_back(std::move(task.task));
  }
  return network;
}

// Runs MakeKernels as a pass, with the instruments of `passes`.
Result<Network> RunMakeKernels(const IRModule& fused, const Target& target, const graph::LowerOptions& options,
                               const PassContext& passes) {
  const std::string where = std::string("in pass ") + kMakeKernels;
  TRY_NOTE(passes.Before(kMakeKernels, IRModuleView(fused)), where);
  Network network = TRY(MakeKernels(fused, target, options));
  TRY_NOTE(passes.After(kMakeKernels, IRModuleView(network.module)), where);
  return network;
}

// Computes the outputs of a graph of constants. The build workers compile its kernels, with default schedules, and this
// process runs them.
Result<std::vector<graph::TensorValue>> EvaluateConstants(const graph::Graph& graph, const Target& target,
                                                          Builder& builder, const PassContext& passes) {
  const IRModule fused(TRY(graph::Fuse(graph, {.context = passes})));
  const Network network = TRY(RunMakeKernels(fused, target, {.exact = true}, passes));
  const graph::Graph& main = network.main();
  Module library;  // null if the graph has only reshapes
  auto kernel_context = std::make_shared<KernelContext>(0);
  if (!network.tasks.empty()) {
    KernelCompiler compiler(builder, passes);
    KernelSet kernels = TRY(BuildKernels(network, target, {}, compiler));
    library = MakeLibraryModule(TRY(Artifact::FromBytes(kernels.library)), kernel_context);
  }
  ExecutionPlan plan = TRY(MakePlan(main, CodeOfNodes(network, target)));
  auto executor = TRY(GraphExecutor::Create(std::move(plan.graph), std::move(library), std::move(plan.params),
                                            {std::make_shared<CpuDevice>(kernel_context)}));
  {
    HostLock lock = TRY(HostLock::Acquire(HostLock::Mode::kShared));  // do not disturb a measurement
    TRY(executor->Run());
  }
  std::vector<graph::TensorValue> values;
  for (size_t i = 0; i < main.outputs.size(); ++i) {
    values.push_back(
        {main.Spec(main.outputs[i]), graph::SharedBytes::Copy(executor->Output(static_cast<int64_t>(i)).bytes())});
  }
  return values;
}

}  // namespace

const PassTable& NetworkPassTable() {
  static const PassTable table{"network", {{kMakeKernels, "kernels are built from the programs that it makes"}}, {}};
  return table;
}

std::vector<int> TaskOfNodes(const Network& network) {
  std::unordered_map<std::string_view, int> task_of;
  for (size_t i = 0; i < network.tasks.size(); ++i) task_of.emplace(network.tasks[i].function, static_cast<int>(i));
  std::vector<int> tasks;
  for (const graph::Node& node : network.main().nodes) {
    const auto* call = std::get_if<graph::CallAttrs>(&node.attrs);
    tasks.push_back(call ? task_of.at(call->function) : -1);
  }
  return tasks;
}

PrimFunc ProgramOf(const Network& network, const NetworkTask& task, const std::string& alternative) {
  const PrimFunc* program = network.module.FindPrimFunc(ProgramName(task, alternative));
  CHECK(program) << "no alternative " << alternative << " of " << task.function;
  PrimFunc named = *program;
  named.name = Name(kProgramName);
  return named;
}

TuneTask MakeTuneTask(const Network& network, const NetworkTask& task) {
  TuneTask tune{.hash = task.hash, .label = task.label, .weight = task.weight, .flops = task.flops};
  for (const std::string& name : task.alternatives) tune.alternatives.push_back({name, ProgramOf(network, task, name)});
  tune.reference = te::ToReference(tune.alternatives[0].func);
  tune.bounded = te::ToBoundedReference(tune.alternatives[0].func);
  tune.takes_steps = te::TakesSteps(tune.alternatives[0].func);
  tune.small_products = SmallProductsOf(tune.alternatives[0].func.body).has_value();
  tune.full_range = te::FullRangeInputs(tune.alternatives[0].func);
  return tune;
}

std::vector<NetworkTask> TasksToTune(const Network& network) {
  std::unordered_map<std::string, NetworkTask> of_family;
  for (const NetworkTask& task : network.tasks) {
    auto [it, is_new] = of_family.try_emplace(task.family.Hex(), task);
    if (is_new) continue;
    const int calls = it->second.weight + task.weight;
    // The weight of the task itself decides, so it is looked up again.
    const auto own = std::ranges::find(network.tasks, it->second.hash, &NetworkTask::hash);
    if (task.weight > own->weight) it->second = task;
    it->second.weight = calls;
  }
  std::vector<NetworkTask> tasks;
  for (const NetworkTask& task : network.tasks) {
    const NetworkTask& chosen = of_family.at(task.family.Hex());
    if (chosen.hash == task.hash) tasks.push_back(chosen);
  }
  return tasks;
}

std::vector<TuneTask> MakeTuneTasks(const Network& network) {
  std::vector<TuneTask> tasks;
  for (const NetworkTask& task : TasksToTune(network)) tasks.push_back(MakeTuneTask(network, task));
  return tasks;
}

std::string StructureHash(const Network& network) {
  std::ostringstream text;
  const graph::Graph& main = network.main();
  const std::vector<int> task_of_node = TaskOfNodes(network);
  for (size_t i = 0; i < main.nodes.size(); ++i) {
    const graph::Node& node = main.nodes[i];
    const int task = task_of_node[i];
    text << (task < 0 ? "reshape" : network.tasks[task].hash.Hex());
    // Include the alternatives, since a network that may use other algorithms needs its own choice.
    if (task >= 0) {
      for (const std::string& alternative : network.tasks[task].alternatives) text << ' ' << alternative;
    }
    for (graph::ValueId input : node.inputs) text << ' ' << input;
    text << " -> " << node.output << graph::ShapeText(main.Spec(node.output).shape) << '\n';
  }
  return HashBytes128(text.str()).Hex();
}

int64_t WorkingSetBytes(const Network& network) {
  const graph::Graph& main = network.main();
  int64_t bytes = 0;
  for (graph::ValueId input : main.inputs) bytes += main.Spec(input).Bytes();
  for (const graph::Constant& constant : main.constants) bytes += main.Spec(constant.value).Bytes();
  for (const graph::Node& node : main.nodes) {
    if (node.op == graph::Op::kCall) bytes += main.Spec(node.output).Bytes();
  }
  return bytes;
}

Result<Network> MakeNetwork(const IRModule& module, const NetworkOptions& options, const Target& target,
                            Builder& builder, const PassContext& passes) {
  // Constants are folded on this machine by kernels for the host, whatever the target is.
  const Target host = TRY(Target::Parse("cpu"));
  auto evaluate = [&](const graph::Graph& constants) {
    return EvaluateConstants(constants, host, builder, passes.Within("fold_constants"));
  };
  const graph::ByteLookUps look_ups = target.IsGpu()           ? graph::ByteLookUps::kNone
                                      : target.has_byte_tables ? graph::ByteLookUps::kInRegisters
                                                               : graph::ByteLookUps::kByLoads;
  // Only the CPU's rules schedule attention as one kernel (tuner/rule/rule.h). A GPU's rules have a kernel each for the
  // products and the softmax.
  const graph::PassEnv env{.context = passes,
                           .evaluate = evaluate,
                           .fuses_attention = !target.IsGpu(),
                           .multiplies_bytes = target.has_byte_dot,
                           .multiplies_words = target.has_word_dot,
                           .multiplies_bf16 = target.has_bf16_dot,
                           .multiplies_tiles = target.has_tiles,
                           .rounds_to_bf16 = options.bf16,
                           .rounds_to_int8 = options.int8,
                           .winograd = options.winograd,
                           .repeats_scalars = !target.IsGpu(),
                           .converts_factors = !target.IsGpu(),
                           .byte_look_ups = look_ups};
  const IRModule fused = TRY(graph::Optimize(module, env));
  return RunMakeKernels(fused, target, {.exact = !options.winograd}, passes);
}

namespace {

ImportOptions ImportOptionsOf(const NetworkOptions& options) {
  return {.shapes = options.shapes,
          .extra_outputs = options.extra_outputs,
          .fixed = options.fixed,
          .dims = options.dims,
          .lenient = options.lenient};
}

// Returns the hash of a model's bytes and of the options that change its network.
Hash128 DigestOf(const std::string& bytes, const NetworkOptions& options, const PassContext& passes) {
  std::ostringstream text;
  for (const auto& [name, shape] : options.shapes) text << name << graph::ShapeText(shape);
  for (const auto& [name, extent] : options.dims) text << name << "=" << extent;
  for (const std::string& name : options.extra_outputs) text << name;
  if (!options.winograd) text << "no winograd";
  if (options.bf16) text << "bf16";
  if (options.int8) text << "int8";
  if (options.step_moves) text << "step moves";
  text << passes.config().CodeKey();
  for (const auto& [name, value] : options.fixed) text << name << value.spec.Text() << value.bytes.view();
  return HashBytes128(bytes + text.str());
}

// Gives the imported network step moves, if it shall have them and has steps.
void AddStepMoves(ImportedModel& model, const NetworkOptions& options) {
  if (!options.step_moves) return;
  if (std::optional<graph::Graph> main = graph::WithStepMoves(model.module.main()))
    model.module = IRModule(std::move(*main));
}

// Returns the remarks on a network for the user.
std::vector<std::string> NotesOf(ImportedModel model, const NetworkOptions& options, const Target& target) {
  if (options.bf16 && !target.has_bf16_dot && !target.has_tiles)
    model.notes.emplace_back(
        "bf16 makes only products of few rows faster on this target, so only their weights are rounded");
  return std::move(model.notes);
}

}  // namespace

std::string NetworkNameOf(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  // In ONNX's own layout every file is called model.onnx, and its folder has the network's name.
  const std::string folder = std::filesystem::absolute(path).parent_path().filename().string();
  return name == "model" && !folder.empty() ? folder : name;
}

Result<Network> LoadNetwork(const std::string& path, const NetworkOptions& options, const Target& target,
                            Builder& builder, const PassContext& passes) {
  ImportedModel model = TRY(ImportOnnx(path, ImportOptionsOf(options)));
  AddStepMoves(model, options);
  Network network = TRY_NOTE(MakeNetwork(model.module, options, target, builder, passes), "while optimizing " + path);
  network.name = NetworkNameOf(path);
  network.notes = NotesOf(std::move(model), options, target);
  network.digest = DigestOf(TRY(ReadFile(path)), options, passes);
  return network;
}

Result<Network> LoadNetworkBytes(const std::string& bytes, const std::string& name, const NetworkOptions& options,
                                 const Target& target, Builder& builder, const PassContext& passes) {
  ImportedModel model = TRY(ImportOnnxBytes(bytes, name, ImportOptionsOf(options)));
  AddStepMoves(model, options);
  Network network = TRY_NOTE(MakeNetwork(model.module, options, target, builder, passes), "while optimizing " + name);
  network.name = name;
  network.notes = NotesOf(std::move(model), options, target);
  network.digest = DigestOf(bytes, options, passes);
  return network;
}

}  // namespace autotune
