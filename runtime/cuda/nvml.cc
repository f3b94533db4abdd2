#include "runtime/cuda/nvml.h"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

namespace autotune::cuda {
namespace {

using Handle = void*;  // nvmlDevice_t
constexpr int kNvmlSuccess = 0;
constexpr int kClockOfMultiprocessors = 1, kClockOfMemory = 2;  // nvmlClockType_t

struct Nvml {
  int (*init)() = nullptr;
  int (*handle)(const char* uuid, Handle* handle) = nullptr;
  int (*clock)(Handle handle, int type, unsigned* mhz) = nullptr;
  int (*reasons)(Handle handle, unsigned long long* reasons) = nullptr;
};

struct Reason {
  unsigned long long bit;
  const char* text;
};
// The bits nvmlClocksThrottleReason*, without the one that says that the GPU is idle.
constexpr Reason kReasons[] = {{0x2, "clock setting"}, {0x4, "power cap"}, {0x8, "hardware slowdown"},
                               {0x10, "sync boost"},   {0x20, "heat"},     {0x40, "heat (hardware)"},
                               {0x80, "power brake"},  {0x100, "display"}};

// Loads and starts the library. Members are null if it is missing, does not start, or lacks a function.
Nvml LoadNvml() {
  const char* chosen = std::getenv("AUTOTUNE_LIBNVML");
  void* library = dlopen(chosen && *chosen ? chosen : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return {};
  Nvml nvml;
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
  };
  find(nvml.init, "nvmlInit_v2");
  find(nvml.handle, "nvmlDeviceGetHandleByUUID");
  find(nvml.clock, "nvmlDeviceGetClockInfo");
  find(nvml.reasons, "nvmlDeviceGetCurrentClocksEventReasons");  // since driver 535
  if (!nvml.reasons) find(nvml.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!nvml.init || !nvml.handle || !nvml.clock || nvml.init() != kNvmlSuccess) return {};
  return nvml;
}

}  // namespace

DeviceState ClocksOf(const std::string& uuid) {
  static std::mutex mutex;
  static auto& handles = *new std::map<std::string, Handle>;  // guarded by mutex; null: unknown to NVML
  std::lock_guard lock(mutex);
  static const Nvml nvml = LoadNvml();
  DeviceState state;
  if (!nvml.handle || uuid.empty()) return state;
  auto [known, is_new] = handles.try_emplace(uuid, nullptr);
  if (is_new && nvml.handle(uuid.c_str(), &known->second) != kNvmlSuccess) known->second = nullptr;
  if (!known->second) return state;
  auto clock = [&](int type) -> int64_t {
    unsigned mhz = 0;
    return nvml.clock(known->second, type, &mhz) == kNvmlSuccess ? mhz : 0;
  };
  state.clock_mhz = clock(kClockOfMultiprocessors);
  state.memory_clock_mhz = clock(kClockOfMemory);
  unsigned long long bits = 0;
  if (!nvml.reasons || nvml.reasons(known->second, &bits) != kNvmlSuccess) return state;
  for (const Reason& reason : kReasons) {
    if (bits & reason.bit) state.throttled.emplace_back(reason.text);
  }
  return state;
}

}  // namespace autotune::cuda
