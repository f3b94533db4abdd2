// The list of CUDA devices, and what the driver says about them.
#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/device.h"
#include "support/hint.h"
#include "support/printf_text.h"
#include "support/utf8.h"

namespace autotune {
namespace cuda {
namespace {

// Starts the driver and returns the number of its devices. Returns an error if there is no device.
Result<int> CountDevices(const Api& api) {
  int count = 0;
  Code code = api.cuInit(0);
  if (code == kSuccess) code = api.cuDeviceGetCount(&count);
  if (code == kNoDevice || (code == kSuccess && count == 0))
    return WithHint(Err("the CUDA driver finds no GPU"),
                    "nvidia-smi lists all GPUs, and CUDA_VISIBLE_DEVICES may hide some");
  if (code == kStubLibrary)
    return WithHint(Err("the CUDA driver is a stub of the toolkit, which runs nothing"), "install NVIDIA's driver");
  if (code != kSuccess)
    return WithHint(Err("the CUDA driver does not start: ", ErrorName(api, code)), "nvidia-smi may tell why");
  return count;
}

std::string NameOf(const Api& api, Ordinal device) {
  char name[256] = {};
  api.cuDeviceGetName(name, sizeof name - 1, device);
  return OneLine(name);
}

}  // namespace

std::string DriverVersion(const Api& api) {
  int version = 0;
  api.cuDriverGetVersion(&version);
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int AttributeOf(const Api& api, Ordinal device, int attribute) {
  int value = 0;
  api.cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

std::string UuidOf(const Api& api, Ordinal device) {
  Uuid uuid{};
  const auto get = api.cuDeviceGetUuid_v2 ? api.cuDeviceGetUuid_v2 : api.cuDeviceGetUuid;
  if (get(&uuid, device) != kSuccess) return "";
  std::string text = "GPU";
  for (size_t i = 0; i < std::size(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += Format("%02x", static_cast<unsigned>(uuid.bytes[i]));
  }
  return text;
}

DeviceLimits LimitsOf(const Api& api, Ordinal device) {
  size_t memory = 0;
  api.cuDeviceTotalMem_v2(&memory, device);
  auto attribute = [&](int which) { return AttributeOf(api, device, which); };
  return {.memory_bytes = static_cast<int64_t>(memory),
          .shared_bytes = attribute(kSharedPerBlockOptIn),
          .threads_per_block = attribute(kMaxThreadsPerBlock),
          .units = attribute(kMultiprocessors),
          .l2_bytes = attribute(kL2Bytes),
          .architecture =
              "sm_" + std::to_string(attribute(kCapabilityMajor)) + std::to_string(attribute(kCapabilityMinor))};
}

}  // namespace cuda

using cuda::Api;
using cuda::CudaDevice;

Result<std::vector<DeviceEntry>> CudaDevices() {
  const Api& api = *TRY(cuda::LoadDriver());
  const int count = TRY(cuda::CountDevices(api));
  std::vector<DeviceEntry> devices;
  for (int i = 0; i < count; ++i) {
    cuda::Ordinal device = 0;
    const cuda::Code code = api.cuDeviceGet(&device, i);
    devices.push_back(code == cuda::kSuccess ? DeviceEntry{cuda::NameOf(api, device), cuda::UuidOf(api, device)}
                                             : DeviceEntry{cuda::ErrorName(api, code), ""});
  }
  return devices;
}

Result<DevicePtr> OpenCudaDevice(int id) {
  const Api& api = *TRY(cuda::LoadDriver());
  TRY(FindDevice("CUDA", TRY(CudaDevices()), std::to_string(id)));
  cuda::Ordinal handle = 0;
  if (const cuda::Code code = api.cuDeviceGet(&handle, id); code != cuda::kSuccess)
    return Err("the CUDA driver cannot open device ", id, ": ", cuda::ErrorName(api, code),
               "; nvidia-smi may tell why");
  static std::mutex mutex;
  static auto& opened = *new std::map<int, std::weak_ptr<CudaDevice>>;  // guarded by mutex
  std::lock_guard lock(mutex);
  if (std::shared_ptr<CudaDevice> known = opened[id].lock(); known && known->LastError().ok()) return DevicePtr(known);
  auto device = std::make_shared<CudaDevice>(api, handle, id);
  opened[id] = device;
  return DevicePtr(std::move(device));
}

}  // namespace autotune
