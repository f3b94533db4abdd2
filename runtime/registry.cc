#include "runtime/registry.h"

#include <map>
#include <mutex>

#include "runtime/byte_stream.h"
#include "runtime/call_times.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/device.h"
#include "runtime/device_module.h"
#include "runtime/graph_executor.h"
#include "runtime/info_module.h"
#include "runtime/module_blob.h"
#include "runtime/npy.h"
#include "runtime/opencl/device.h"
#include "runtime/stored_params.h"

namespace autotune {
namespace {

struct Row {
  const char* name;
  PackedFunc function;
};

Result<Value> CreateExecutor(std::span<const Value> args) {
  if (args.size() < 3) return Err("expected a graph, a module and parameters, then devices");
  auto graph = TRY(detail::Argument<std::string>(args, 0));
  auto module = TRY(detail::Argument<Module>(args, 1));
  auto params = TRY(detail::Argument<Bytes>(args, 2));
  std::vector<DevicePtr> devices = TRY_NOTE(OpenDevices(args.subspan(3), 0), "of those after argument 2");
  Graph parsed = TRY(Graph::Parse(graph));
  Params constants = TRY(Widened(parsed, TRY(ParseParams(params.data))));
  auto executor = TRY(GraphExecutor::Create(std::move(parsed), module, std::move(constants), std::move(devices)));
  return Value(MakeGraphExecutorModule(std::move(executor)));
}

Result<Value> CreateTimeEvaluator(std::span<const Value> args) {
  if (args.size() != 3) return Err("expected a function and two numbers");
  auto function = TRY(detail::Argument<PackedFunc>(args, 0));
  const auto number = TRY(detail::Argument<int64_t>(args, 1)), repeat = TRY(detail::Argument<int64_t>(args, 2));
  return Value(TRY(TimeEvaluator(std::move(function), number, repeat)));
}

// Returns the function that makes a module of its bytes. One function serves all kinds of modules, since each of
// PackedFunc::Of takes a kilobyte of rpc_server.
PackedFunc Restores(Result<Module> (*load)(ByteReader&)) {
  return PackedFunc::Of([load](ObjectRef reader) -> Result<Module> { return load(*TRY(ReaderOf(reader))); });
}

// Returns the functions that the runtime itself offers.
std::vector<Row> RuntimeFunctions() {
  return {
      // runtime.tensor.empty(dtype text, extents...) -> tensor
      {"runtime.tensor.empty", PackedFunc([](std::span<const Value> args) -> Result<Value> {
         if (args.empty()) return Err("expected an element type and a shape");
         std::string type = TRY(detail::Argument<std::string>(args, 0));
         std::vector<int64_t> shape;
         for (size_t i = 1; i < args.size(); ++i) shape.push_back(TRY(detail::Argument<int64_t>(args, i)));
         return Value(TRY(Tensor::Empty(std::move(shape), type)));
       })},
      // runtime.tensor.load_npy(path) -> tensor;  runtime.tensor.save_npy(path, tensor)
      {"runtime.tensor.load_npy", PackedFunc::Of([](std::string path) { return ReadNpy(path); })},
      {"runtime.tensor.save_npy", PackedFunc::Of([](std::string path, Tensor tensor) -> Status {
         if (!tensor.defined()) return Err("argument 1 is a null tensor");
         return WriteNpy(path, tensor);
       })},
      // runtime.module.load(path of a shared object) -> module
      {"runtime.module.load", PackedFunc::Of([](std::string path) { return LoadModule(path); })},
      // runtime.module.import(module, imported)
      {"runtime.module.import", PackedFunc::Of([](Module module, Module imported) -> Status {
         if (!module) return Err("argument 0 is a null module");
         return module->Import(std::move(imported));
       })},
      // runtime.time_evaluator(function, number, repeat) -> function (runtime/call_times.h)
      {"runtime.time_evaluator", PackedFunc(CreateTimeEvaluator)},
      // runtime.graph_executor.create(graph JSON, module with the kernels, params blob as bytes, devices...) -> module
      {"runtime.graph_executor.create", PackedFunc(CreateExecutor)},
      // runtime.module.loadbinary_KEY(reader) -> module (runtime/module_blob.h)
      {"runtime.module.loadbinary_GraphExecutorFactory", Restores(LoadGraphExecutorFactory)},
      {"runtime.module.loadbinary_autotune.info", Restores(LoadInfoModule)},
      {"runtime.module.loadbinary_cuda", Restores([](ByteReader& in) { return LoadDeviceModule("cuda", in); })},
      {"runtime.module.loadbinary_opencl", Restores([](ByteReader& in) { return LoadDeviceModule("opencl", in); })},
      // device_api.KIND(device id) -> device (runtime/device.h)
      {"device_api.cpu", PackedFunc::Of([](int64_t id) -> Result<Value> {
         if (id != 0) return Err("this machine has one CPU device, number 0; there is no ", id);
         return Value(ObjectRef(std::make_shared<CpuDevice>(0)));
       })},
      {"device_api.cuda",
       PackedFunc::Of([](int id) -> Result<Value> { return Value(ObjectRef(TRY(OpenCudaDevice(id)))); })},
      {"device_api.opencl",
       PackedFunc::Of([](int id) -> Result<Value> { return Value(ObjectRef(TRY(OpenOpenClDevice(id)))); })},
      // device_number.KIND(UUID or name) -> number
      {"device_number.cuda",
       PackedFunc::Of([](std::string which) -> Result<int> { return FindDevice("CUDA", TRY(CudaDevices()), which); })},
      {"device_number.opencl", PackedFunc::Of([](std::string which) -> Result<int> {
         return FindDevice("OpenCL", TRY(OpenClDevices()), which);
       })},
  };
}

}  // namespace

struct Registry::State {
  mutable std::mutex mutex;
  std::map<std::string, PackedFunc, std::less<>> functions;  // guarded by mutex
};

Registry::Registry() : state_(std::make_unique<State>()) {}
Registry::~Registry() = default;

Registry& Registry::Global() {
  static Registry& registry = []() -> Registry& {
    auto* made = new Registry;  // never destroyed: threads may outlive static destructors
    for (Row& row : RuntimeFunctions()) CHECK(made->Add(row.name, std::move(row.function)).ok()) << row.name;
    return *made;
  }();
  return registry;
}

Status Registry::Add(std::string name, PackedFunc function, bool replace) {
  if (name.empty() || !function) return Err("a global function needs a name and a body");
  std::lock_guard lock(state_->mutex);
  if (!replace && state_->functions.contains(name)) return Err("a global function '", name, "' exists already");
  state_->functions[std::move(name)] = std::move(function);
  return {};
}

bool Registry::Remove(std::string_view name) {
  std::lock_guard lock(state_->mutex);
  auto it = state_->functions.find(name);
  if (it == state_->functions.end()) return false;
  state_->functions.erase(it);
  return true;
}

Result<PackedFunc> Registry::Get(std::string_view name) const {
  std::lock_guard lock(state_->mutex);
  auto it = state_->functions.find(name);
  if (it == state_->functions.end()) return Err("there is no global function '", name, "'");
  return it->second;
}

std::vector<std::string> Registry::Names() const {
  std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : state_->functions) names.push_back(name);
  return names;
}

}  // namespace autotune
