// The devices of this machine, as the C API lists them.
#include "api/handles.h"
#include "runtime/cuda/device.h"
#include "runtime/device.h"
#include "runtime/opencl/device.h"
#include "support/error_parts.h"
#include "support/machine_description.h"

struct autotune_devices {
  struct Entry {
    autotune_device device;
    std::string text, name, uuid, architecture, error;
    int64_t memory_bytes = 0, units = 0;
  };
  std::vector<Entry> entries;
};

namespace autotune::api {
namespace {

autotune_devices::Entry Cpu() {
  const MachineDescription host = DescribeHost();
  return {.device = ToC(DLDevice{kDLCPU, 0}),
          .text = "cpu",
          .name = host.model,
          .architecture = host.architecture,
          .memory_bytes = host.memory_bytes,
          .units = host.usable_cores};
}

// Adds the devices of a kind. If the list is an error, the machine has none.
void AddGpus(DLDeviceType type, const Result<std::vector<DeviceEntry>>& listed, autotune_devices& devices) {
  if (!listed.ok()) return;
  for (const DeviceEntry& found : *listed) {
    const DLDevice device{type, static_cast<int>(&found - listed->data())};
    autotune_devices::Entry entry{.device = ToC(device),
                                  .text = DeviceTypeName(type) + ":" + std::to_string(device.device_id),
                                  .name = found.name,
                                  .uuid = found.uuid};
    if (const Result<DevicePtr> opened = OpenDevice(device); opened.ok()) {
      const DeviceLimits limits = (*opened)->limits();
      entry.architecture = limits.architecture;
      entry.memory_bytes = limits.memory_bytes;
      entry.units = limits.units;
    } else {
      entry.error = SentenceOf(opened.error());
    }
    devices.entries.push_back(std::move(entry));
  }
}

}  // namespace
}  // namespace autotune::api

using namespace autotune;       // NOLINT: the functions of the API lie in the global namespace
using namespace autotune::api;  // NOLINT

extern "C" {

int autotune_devices_list(autotune_devices** out) {
  return Guard([&]() -> Status {
    TRY(NotNull(out, "out"));
    auto devices = std::make_unique<autotune_devices>();
    devices->entries.push_back(Cpu());
    AddGpus(kDLCUDA, CudaDevices(), *devices);
    AddGpus(kDLOpenCL, OpenClDevices(), *devices);
    *out = devices.release();
    return {};
  });
}

size_t autotune_devices_size(const autotune_devices* devices) { return devices ? devices->entries.size() : 0; }

int autotune_devices_get(const autotune_devices* devices, size_t index, autotune_device_info* out) {
  return Guard([&]() -> Status {
    TRY(NotNull(devices, "devices"));
    TRY(NotNull(out, "out"));
    const size_t size = devices->entries.size();
    if (index >= size) return Invalid("the list has ", size, " devices; there is no device ", index, " in it");
    const autotune_devices::Entry& entry = devices->entries[index];
    *out = {.device = entry.device,
            .text = entry.text.c_str(),
            .name = entry.name.c_str(),
            .uuid = entry.uuid.c_str(),
            .architecture = entry.architecture.c_str(),
            .error = entry.error.c_str(),
            .memory_bytes = entry.memory_bytes,
            .units = entry.units};
    return {};
  });
}

void autotune_devices_free(autotune_devices* devices) { Free(devices); }

}  // extern "C"
