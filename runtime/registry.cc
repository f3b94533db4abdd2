#include "runtime/registry.h"

#include <map>
#include <mutex>

#include "runtime/graph_executor.h"
#include "runtime/kernel_context.h"
#include "runtime/module_blob.h"
#include "runtime/npy.h"

namespace autotune {
namespace {

struct Row {
  const char* name;
  PackedFunc function;
};

// What the runtime itself offers.
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
      {"runtime.module.load", PackedFunc::Of([](std::string path) -> Result<Module> {
         auto artifact = TRY(Artifact::FromFile(path));
         return LoadModule(std::move(artifact), std::make_shared<KernelContext>(0));
       })},
      // runtime.module.import(module, imported)
      {"runtime.module.import", PackedFunc::Of([](Module module, Module imported) -> Status {
         if (!module) return Err("argument 0 is a null module");
         return module->Import(std::move(imported));
       })},
      // runtime.graph_executor.create(graph JSON, library module, params blob as bytes) -> module
      {"runtime.graph_executor.create",
       PackedFunc::Of([](std::string graph, Module library, Bytes params) -> Result<Module> {
         auto artifact = ArtifactOf(library);
         if (!artifact) return Err("argument 1 is no library module");
         auto executor = TRY(GraphExecutor::Create(TRY(Graph::Parse(graph)), {artifact}, TRY(ParseParams(params.data)),
                                                   std::make_shared<KernelContext>(0)));
         return MakeGraphExecutorModule(std::move(executor));
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
