#include "package/load.h"

#include <set>

#include "package/link.h"
#include "package/module_file.h"
#include "runtime/cpu_device.h"
#include "runtime/info_module.h"
#include "runtime/module_blob.h"
#include "runtime/stored_params.h"
#include "support/cpus.h"
#include "support/hint.h"

namespace autotune {
namespace {

// Describes the inputs and outputs by those of the executor, for a package that does not describe them.
void DescribeEnds(LoadedModel& model) {
  auto spec = [](const std::string& name, const Tensor& tensor, ParamKind kind) {
    return TensorSpec{name, DataTypeText(tensor.dtype()), tensor.shape(), kind, DataTypeBytes(tensor.dtype())};
  };
  const GraphExecutor& executor = *model.executor;
  for (int64_t i = 0; i < executor.num_inputs(); ++i)
    model.info.inputs.push_back(spec(executor.input_name(i), executor.Input(i), ParamKind::kInput));
  for (int64_t i = 0; i < executor.num_outputs(); ++i)
    model.info.outputs.push_back(spec(executor.output_name(i), executor.Output(i), ParamKind::kOutput));
}

// Returns an error if the metadata of an input or output differ from its tensor in the graph.
Status CheckEnd(const char* what, const TensorSpec& spec, const Tensor& tensor) {
  if (spec.dtype == DataTypeText(tensor.dtype()) && spec.shape == tensor.shape()) return {};
  return Err("its metadata say that ", what, " ", spec.name, " is ", spec.dtype, ShapeText(spec.shape),
             ", in its graph it is ", tensor.TypeText());
}

Status CheckEnds(const LoadedModel& model) {
  const GraphExecutor& executor = *model.executor;
  const std::vector<TensorSpec>&inputs = model.info.inputs, &outputs = model.info.outputs;
  if (executor.num_inputs() != static_cast<int64_t>(inputs.size()) ||
      executor.num_outputs() != static_cast<int64_t>(outputs.size())) {
    return Err("its graph has other inputs or outputs than its metadata say");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].name.empty() && inputs[i].name != executor.input_name(i))
      return Err("its metadata say that input ", i, " is ", inputs[i].name, ", in its graph it is ",
                 executor.input_name(i));
    TRY(CheckEnd("input", inputs[i], executor.Input(i)));
  }
  for (size_t i = 0; i < outputs.size(); ++i) TRY(CheckEnd("output", outputs[i], executor.Output(i)));
  return {};
}

// Fills in inputs and outputs if the package does not describe them. Otherwise compares its description with the graph.
Status FinishInfo(LoadedModel& model) {
  if (model.info.inputs.empty() && model.info.outputs.empty()) DescribeEnds(model);
  return CheckEnds(model);
}

bool CallsKernels(const Graph& graph) {
  for (const GraphNode& node : graph.nodes) {
    if (!node.IsVariable() && node.func_name != kNopFunction && node.func_name != kCopyFunction) return true;
  }
  return false;
}

// Links the package's library if it has none, and the graph calls kernels.
Status LinkLibrary(Package& package, const Graph& graph) {
  if (!package.library.empty() || !CallsKernels(graph)) return {};
  if (package.objects.empty() && package.sources.empty()) {
    return Err(
        "it has no kernels: neither a linked library codegen/host/lib/*.so nor objects codegen/host/lib/libN.o "
        "nor C sources codegen/host/src/libN.c");
  }
  package.library = TRY_NOTE(LinkWithCc(package.objects, package.sources), "the package has no linked library");
  return {};
}

// Returns the library with the package's kernels; null for a network that has only reshapes.
Result<Module> LibraryOf(Package& package, const Graph& graph, std::shared_ptr<KernelContext> context) {
  TRY(LinkLibrary(package, graph));
  const std::string& library = package.library;
  if (library.empty()) return Module();
  return LoadModule(TRY(Artifact::FromBytes(library)), std::move(context));
}

// Returns the CPU, and the device that `which` chooses of each other kind that holds a value of the graph.
Result<std::vector<DevicePtr>> DevicesOf(const Graph& graph, const std::string& which,
                                         std::shared_ptr<KernelContext> context) {
  std::set<int64_t> types;
  for (const GraphNode& node : graph.nodes) {
    for (const GraphEntry& output : node.outputs) types.insert(output.device);
  }
  std::vector<DevicePtr> devices = {std::make_shared<CpuDevice>(std::move(context))};
  for (int64_t type : types) {
    if (type == kDLCPU) continue;
    const std::string kind = DeviceTypeName(static_cast<int>(type));
    const DeviceChoice choice = TRY(DeviceChoiceOf(static_cast<int>(type), which));
    devices.push_back(TRY_NOTE(OpenChosenDevice(choice), "it needs a device of kind " + kind));
  }
  if (!which.empty() && devices.size() == 1) return Err("--device ", which, ": it runs on the CPU only");
  return devices;
}

// Makes the executor of a network. `root` has the kernels; null if there are none.
Result<LoadedModel> Finish(PackageInfo info, Module root, ExecutorParts parts, std::shared_ptr<KernelContext> context,
                           const std::string& device, const GraphExecutorOptions& options) {
  LoadedModel model{.info = std::move(info)};
  std::vector<DevicePtr> devices = TRY(DevicesOf(parts.graph, device, std::move(context)));
  model.executor = TRY(GraphExecutor::Create(std::move(parts.graph), std::move(root), std::move(parts.params),
                                             std::move(devices), options));
  TRY(FinishInfo(model));
  return model;
}

// Returns the info of a tree; that of its kernels and its factory fill in what is missing.
Result<PackageInfo> InfoOfTree(const Module& root, const ExecutorParts& parts) {
  PackageInfo info = TRY(InfoOf(root));
  if (info.model_name.empty()) info.model_name = parts.model_name;
  return info;
}

Error NoNetwork() {
  return WithHint(Err("it holds kernels, but no network"), "compile one with `autotune compile -o m.so`");
}

Result<LoadedModel> LoadSharedObject(const std::string& path, const KernelThreads& threads, const std::string& device) {
  TRY(threads.Check());
  auto context = threads.Context();
  std::shared_ptr<const Artifact> artifact = TRY(Artifact::FromFile(path));
  Module root = TRY(LoadModule(artifact, context));
  std::optional<ExecutorParts> parts = TakeExecutorParts(root);
  if (!parts) return NoNetwork();
  PackageInfo info = TRY(InfoOfTree(root, *parts));
  if (info.target.empty()) info.target = artifact->metadata().target;
  return Finish(std::move(info), std::move(root), std::move(*parts), std::move(context), device, {});
}

// Returns the tree of a package, as a shared object would hold it.
Result<Module> TreeOf(Package package, int threads) {
  ExecutorParts parts;
  parts.model_name = package.info.model_name;
  parts.graph = TRY(Graph::Parse(package.graph_json));
  Module library = TRY(LibraryOf(package, parts.graph, std::make_shared<KernelContext>(threads)));
  parts.params = TRY(Widened(parts.graph, TRY(ParseParams(package.params))));
  const Module factory = MakeGraphExecutorFactory(std::move(parts), threads);
  const Module root = library ? library : factory;
  if (library) TRY(library->Import(factory));
  TRY(root->Import(MakeInfoModule(ToJson(package.info).Dump())));
  return root;
}

}  // namespace

Status KernelThreads::Check() const { return CheckThreads(number); }

std::shared_ptr<KernelContext> KernelThreads::Context() const {
  return pool ? std::make_shared<KernelContext>(pool) : std::make_shared<KernelContext>(number);
}

Result<std::string> LibraryBytesOf(Package& package) {
  TRY(LinkLibrary(package, TRY(Graph::Parse(package.graph_json))));
  return std::move(package.library);
}

Result<LoadedModel> LoadModel(Package package, const KernelThreads& threads, const std::string& device,
                              const GraphExecutorOptions& options) {
  TRY(threads.Check());
  ExecutorParts parts;
  parts.model_name = package.info.model_name;
  parts.graph = TRY(Graph::Parse(package.graph_json));
  auto context = threads.Context();
  Module library = TRY(LibraryOf(package, parts.graph, context));
  parts.params = TRY(Widened(parts.graph, TRY(ParseParams(package.params))));
  package.params.clear();
  package.params.shrink_to_fit();
  return Finish(std::move(package.info), std::move(library), std::move(parts), std::move(context), device, options);
}

Result<LoadedModel> LoadModel(PreparedParts parts, const KernelThreads& threads) {
  TRY(threads.Check());
  ExecutorParts network{.model_name = parts.info.model_name, .prepared = parts.prepared};
  network.graph = TRY(Graph::Parse(parts.graph_json));
  network.params = std::move(parts.params);
  auto context = threads.Context();
  Module library = TRY(LoadModule(TRY(Artifact::FromBytes(parts.library)), context));
  parts.prepared->root = library;
  return Finish(std::move(parts.info), std::move(library), std::move(network), std::move(context), "",
                {.prepared = parts.prepared, .all_prepared = true});
}

Result<LoadedModel> LoadModel(const std::string& path, const KernelThreads& threads, const std::string& device) {
  if (TRY(IsSharedObject(path))) return TRY_NOTE(LoadSharedObject(path, threads, device), "while loading " + path);
  return TRY_NOTE(LoadModel(TRY(ReadPackage(path)), threads, device), "while loading " + path);
}

Result<Module> LoadModuleTree(const std::string& path, int threads) {
  TRY(CheckThreads(threads));
  const std::string note = "while loading " + path;
  if (!TRY(IsSharedObject(path))) return TRY_NOTE(TreeOf(TRY(ReadPackage(path)), threads), note);
  auto artifact = TRY_NOTE(Artifact::FromFile(path), note);
  Module root = TRY_NOTE(LoadModule(std::move(artifact), std::make_shared<KernelContext>(threads)), note);
  SetExecutorThreads(root, threads);
  return root;
}

Result<LoadedModel> MakeExecutor(const Module& root, const KernelThreads& threads, const std::string& device) {
  TRY(threads.Check());
  const std::optional<ExecutorParts> parts = CopyExecutorParts(root);
  if (!parts) return NoNetwork();
  GraphExecutorOptions options;
  options.prepared = parts->prepared;
  return Finish(TRY(InfoOfTree(root, *parts)), root, *parts, threads.Context(), device, options);
}

}  // namespace autotune
