#include "runtime/module.h"

#include <mutex>

#include "runtime/kernel_context.h"

namespace autotune {
namespace {

struct PreparedObject : Object {
  std::string_view TypeKey() const override { return "prepared"; }
  std::vector<Tensor> buffers;
};

struct Library : ModuleNode {
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<KernelContext> context;
  std::mutex mutex;  // of calls

  std::string_view TypeKey() const override { return "lib"; }

  std::vector<std::string> FunctionNames() const override {
    std::vector<std::string> names;
    for (const Kernel& kernel : artifact->kernels()) {
      names.push_back(kernel.metadata.name);
      if (kernel.prepare) names.push_back(kernel.metadata.name + ".prepare");
    }
    return names;
  }

  PackedFunc GetOwnFunction(std::string_view name) override {
    auto self = std::static_pointer_cast<Library>(shared_from_this());
    for (const Kernel& kernel : artifact->kernels()) {
      if (kernel.metadata.name == name) {
        return PackedFunc([self, &kernel](std::span<const Value> args) { return self->Call(kernel, args); });
      }
      if (kernel.prepare && kernel.metadata.name + ".prepare" == name) {
        return PackedFunc([self, &kernel](std::span<const Value> args) { return self->Prepare(kernel, args); });
      }
    }
    return {};
  }

  Result<Value> Call(const Kernel& kernel, std::span<const Value> args) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < args.size(); ++i) {
      const ObjectRef* object = args[i].If<ObjectRef>();
      auto* prepared = object ? dynamic_cast<PreparedObject*>(object->get()) : nullptr;
      if (prepared) {
        tensors.insert(tensors.end(), prepared->buffers.begin(), prepared->buffers.end());
      } else {
        tensors.push_back(TRY(Defined(args, i)));
      }
    }
    std::lock_guard lock(mutex);
    TRY(CallKernel(kernel, *context, tensors, {}));
    return Value();
  }

  Result<Value> Prepare(const Kernel& kernel, std::span<const Value> args) {
    std::vector<Tensor> constants;
    for (size_t i = 0; i < args.size(); ++i) constants.push_back(TRY(Defined(args, i)));
    std::lock_guard lock(mutex);
    auto prepared = std::make_shared<PreparedObject>();
    prepared->buffers = TRY(PrepareConstants(kernel, *context, constants));
    return Value(ObjectRef(std::move(prepared)));
  }

  static Result<Tensor> Defined(std::span<const Value> args, size_t i) {
    Tensor tensor = TRY(detail::Argument<Tensor>(args, i));
    if (!tensor.defined()) return Err("argument ", i, " is a null tensor");
    return tensor;
  }
};

}  // namespace

PackedFunc ModuleNode::Search(std::string_view name) {
  if (PackedFunc function = GetOwnFunction(name)) return function;
  for (const Module& module : imports_) {
    if (PackedFunc function = module->Search(name)) return function;
  }
  return {};
}

Result<PackedFunc> ModuleNode::GetFunction(std::string_view name) {
  PackedFunc function = Search(name);
  if (!function) return Err("module of type ", TypeKey(), " has no function '", name, "'");
  return function;
}

bool ModuleNode::Reaches(const ModuleNode* module) const {
  if (this == module) return true;
  for (const Module& import : imports_) {
    if (import->Reaches(module)) return true;
  }
  return false;
}

Status ModuleNode::Import(Module module) {
  if (!module) return Err("cannot import a null module");
  if (module->Reaches(this)) return Err("importing this module of type ", module->TypeKey(), " would make a circle");
  imports_.push_back(std::move(module));
  return {};
}

Module MakeLibraryModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context) {
  auto library = std::make_shared<Library>();
  library->artifact = std::move(artifact);
  library->context = std::move(context);
  return library;
}

std::shared_ptr<const Artifact> ArtifactOf(const Module& module) {
  auto* library = dynamic_cast<Library*>(module.get());
  return library ? library->artifact : nullptr;
}

}  // namespace autotune
