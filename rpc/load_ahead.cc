#include "rpc/load_ahead.h"

#include <algorithm>
#include <exception>
#include <system_error>

#include "runtime/bound_kernel.h"
#include "runtime/kernel_context.h"
#include "runtime/module_blob.h"

namespace autotune::rpc {
namespace {

// Loads an artifact with the code of all its kernels for the device.
Result<LoadedArtifact> Load(std::string_view bytes, const DevicePtr& device) {
  auto artifact = TRY(Artifact::FromStranger(bytes));
  Module module = TRY(LoadModule(artifact, std::make_shared<KernelContext>(1)));
  const std::string kind = DeviceTypeName(device->dl().device_type);
  for (const Kernel& kernel : artifact->kernels()) {
    if (kernel.metadata.device == kind) TRY(module->BindKernel(kernel.metadata.name, device));
  }
  return LoadedArtifact{std::move(artifact), std::move(module)};
}

}  // namespace

void LoadAhead::Begin(const std::vector<Blob>& artifacts) {
  Wait();
  entries_.clear();
  if (!device_) return;
  for (const Blob& bytes : artifacts) {
    entries_.push_back(std::make_unique<Entry>(Entry{HashBytes128(*bytes), {}}));
    try {
      threads_.emplace_back([entry = entries_.back().get(), bytes, device = device_] {
        try {
          if (auto loaded = Load(*bytes, device); loaded.ok()) entry->loaded = std::move(*loaded);
        } catch (const std::exception&) {  // such as a lack of memory; the candidate's own turn shows it
        }
      });
    } catch (const std::system_error&) {  // no further thread
      return;
    }
  }
}

void LoadAhead::Wait() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

LoadedArtifact LoadAhead::Take(std::string_view bytes) {
  Wait();
  if (entries_.empty()) return {};
  const auto found =
      std::ranges::find_if(entries_, [hash = HashBytes128(bytes)](const auto& entry) { return entry->hash == hash; });
  if (found == entries_.end()) return {};
  LoadedArtifact taken = std::move((*found)->loaded);
  entries_.erase(found);
  return taken;
}

}  // namespace autotune::rpc
