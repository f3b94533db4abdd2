#include "service/remote_module.h"

#include <mutex>

#include "package/send.h"

namespace autotune {
namespace {

// A package whose parts are sent when they are used: all of them for an executor, the library for a kernel.
struct RemotePackage : ModuleNode {
  RemotePackage(std::shared_ptr<rpc::RemoteDevice> its_device, SentPackage its_parts, int its_threads)
      : device(std::move(its_device)), parts(std::move(its_parts)), threads(its_threads) {}

  std::string_view TypeKey() const override { return "remote"; }

  Result<Value> MakeExecutor(std::span<const Value> devices) const {
    if (devices.empty()) return Err("expected one device or more");
    return Value(TRY(device->LoadNetwork({parts.library, parts.graph_json, parts.params}, threads)));
  }

  Result<Module> Kernels() {
    const std::lock_guard lock(mutex);
    if (!kernels) kernels = TRY(device->LoadModule(parts.library, threads));
    return kernels;
  }

  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
    auto self = std::static_pointer_cast<RemotePackage>(shared_from_this());
    if (name == "default" || (name == parts.info.model_name && !name.empty()))
      return PackedFunc([self](std::span<const Value> devices) { return self->MakeExecutor(devices); });
    if (parts.library.empty()) return {};
    const Result<Module> module = Kernels();
    if (!module.ok())
      return PackedFunc([error = module.error()](std::span<const Value>) -> Result<Value> { return error; });
    const Result<PackedFunc> kernel = (*module)->GetFunction(name);
    return kernel.ok() ? *kernel : PackedFunc();
  }

  const std::shared_ptr<rpc::RemoteDevice> device;
  const SentPackage parts;
  const int threads;
  std::mutex mutex;
  Module kernels;  // guarded by mutex; null until a kernel is used
};

}  // namespace

Result<Module> LoadRemoteModule(std::shared_ptr<rpc::RemoteDevice> device, const std::string& path, int threads) {
  const std::string note = "while loading " + path;
  SentPackage parts = TRY_NOTE(PackageToSend(path), note);
  if (parts.graph_json.empty()) return TRY_NOTE(device->LoadModule(parts.library, threads), note);
  return Module(std::make_shared<RemotePackage>(std::move(device), std::move(parts), threads));
}

}  // namespace autotune
