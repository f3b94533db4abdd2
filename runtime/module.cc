#include "runtime/module.h"

#include <mutex>
#include <set>

#include "runtime/bound_kernel.h"
#include "runtime/cpu_device.h"
#include "runtime/device_module.h"

namespace autotune {
namespace {

struct PreparedObject : Object {
  std::string_view TypeKey() const override { return "prepared"; }
  std::vector<Tensor> buffers;
};

// A kernel of a library on the CPU.
class CpuKernel final : public BoundKernel {
 public:
  CpuKernel(std::shared_ptr<const Artifact> artifact, const Kernel& kernel, std::shared_ptr<CpuDevice> device)
      : BoundKernel(kernel.metadata), artifact_(std::move(artifact)), kernel_(kernel), device_(std::move(device)) {}

  Status Run(void* const* args) override { return Check(kernel_.raw(device_->context().abi(), args)); }
  Status Prepare(void* const* args) override { return Check(kernel_.prepare(device_->context().abi(), args)); }

 private:
  Status Check(int32_t code) {
    if (code == 0) return {};
    return device_->context().TakeError("kernel " + metadata().name + " failed");
  }

  const std::shared_ptr<const Artifact> artifact_;
  const Kernel& kernel_;
  const std::shared_ptr<CpuDevice> device_;
};

struct Library : ModuleNode {
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<KernelContext> context;
  std::mutex mutex;  // held during calls of kernels, which share `context`

  std::string_view TypeKey() const override { return kLibraryType; }

  std::vector<std::string> FunctionNames() const override {
    std::vector<std::string> names;
    for (const Kernel& kernel : artifact->kernels()) {
      if (!kernel.raw) continue;
      names.push_back(kernel.metadata.name);
      if (kernel.prepare) names.push_back(kernel.metadata.name + ".prepare");
    }
    return names;
  }

  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
    auto self = std::static_pointer_cast<Library>(shared_from_this());
    for (const Kernel& kernel : artifact->kernels()) {
      if (!kernel.raw) continue;
      if (kernel.metadata.name == name) {
        return PackedFunc([self, &kernel](std::span<const Value> args) { return self->Call(kernel, args); });
      }
      if (kernel.prepare && kernel.metadata.name + ".prepare" == name) {
        return PackedFunc([self, &kernel](std::span<const Value> args) { return self->Prepare(kernel, args); });
      }
    }
    return {};
  }

  Result<std::shared_ptr<BoundKernel>> BindOwnKernel(std::string_view name, const DevicePtr& device) override {
    const std::string kind = device->IsHost() ? "" : DeviceTypeName(device->dl().device_type);
    for (const Kernel& kernel : artifact->kernels()) {
      if (kernel.metadata.name != name || kernel.metadata.device != kind) continue;
      if (!device->IsHost()) return BindLaunches(artifact, kernel.metadata, imports(), device);
      auto cpu = std::dynamic_pointer_cast<CpuDevice>(device);
      CHECK(cpu) << "a device of the host that is no CpuDevice";
      return std::shared_ptr<BoundKernel>(std::make_shared<CpuKernel>(artifact, kernel, std::move(cpu)));
    }
    return std::shared_ptr<BoundKernel>();
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
    for (int64_t i : kernel.metadata.ParamsOfKind(ParamKind::kOutput)) {
      if (i < static_cast<int64_t>(tensors.size()) && tensors[i].read_only())
        return Err("argument ", i, " is an output, and the tensor is read-only");
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
    if (tensor.device()) return Err("argument ", i, " lies on ", DeviceText(tensor.device()->dl()), ", not on the CPU");
    return tensor;
  }
};

struct UnlinkedLibrary : ModuleNode {
  std::string_view TypeKey() const override { return kLibraryType; }
  PackedFunc GetOwnFunction(std::string_view, const Module&) override { return {}; }
};

}  // namespace

Result<std::shared_ptr<BoundKernel>> ModuleNode::BindOwnKernel(std::string_view, const DevicePtr&) {
  return std::shared_ptr<BoundKernel>();
}

Status ModuleNode::Save(ByteWriter&) const { return Err("a module of type ", TypeKey(), " cannot be saved"); }

PackedFunc ModuleNode::Search(std::string_view name, const Module& root) {
  if (PackedFunc function = GetOwnFunction(name, root)) return function;
  for (const Module& module : imports_) {
    if (PackedFunc function = module->Search(name, root)) return function;
  }
  return {};
}

Result<PackedFunc> ModuleNode::GetFunction(std::string_view name) {
  PackedFunc function = Search(name, shared_from_this());
  if (!function) return Err("module of type ", TypeKey(), " has no function '", name, "'");
  return function;
}

Result<std::shared_ptr<BoundKernel>> ModuleNode::SearchKernel(std::string_view name, const DevicePtr& device) {
  if (std::shared_ptr<BoundKernel> kernel = TRY(BindOwnKernel(name, device))) return kernel;
  for (const Module& module : imports_) {
    if (std::shared_ptr<BoundKernel> kernel = TRY(module->SearchKernel(name, device))) return kernel;
  }
  return std::shared_ptr<BoundKernel>();
}

Result<std::shared_ptr<BoundKernel>> ModuleNode::BindKernel(std::string_view name, const DevicePtr& device) {
  std::shared_ptr<BoundKernel> kernel = TRY(SearchKernel(name, device));
  if (!kernel) return Err("the library has no kernel '", name, "' for ", DeviceText(device->dl()));
  return kernel;
}

Module ModuleNode::FindByType(std::string_view type_key) {
  if (TypeKey() == type_key) return shared_from_this();
  for (const Module& import : imports_) {
    if (Module found = import->FindByType(type_key)) return found;
  }
  return nullptr;
}

// Returns true if `module` is this module or is reached through its imports. `seen` holds the modules that were
// searched already, since several modules may import the same one.
bool ModuleNode::Reaches(const ModuleNode* module, std::set<const ModuleNode*>& seen) const {
  if (this == module) return true;
  if (!seen.insert(this).second) return false;
  for (const Module& import : imports_) {
    if (import->Reaches(module, seen)) return true;
  }
  return false;
}

Status ModuleNode::Import(Module module) {
  if (!module) return Err("cannot import a null module");
  std::set<const ModuleNode*> seen;
  if (module->Reaches(this, seen))
    return Err("importing this module of type ", module->TypeKey(), " would make a cycle");
  imports_.push_back(std::move(module));
  return {};
}

Module MakeLibraryModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context) {
  auto library = std::make_shared<Library>();
  library->artifact = std::move(artifact);
  library->context = std::move(context);
  return library;
}

Module MakeUnlinkedLibrary() { return std::make_shared<UnlinkedLibrary>(); }

}  // namespace autotune
