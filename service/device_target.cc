#include "service/device_target.h"

#include <algorithm>
#include <vector>

#include "service/gpus.h"
#include "service/text.h"
#include "support/cpu_features.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/printf_text.h"
#include "target/cuda_arch.h"
#include "target/described_cpu.h"

namespace autotune {
namespace {

bool IsGpu(const rpc::DeviceInfo& device) { return !device.gpu.kind.empty(); }

Error Refused(const std::string& text, const rpc::DeviceInfo& device, const std::string& why) {
  return WithHint(Err("--target ", text, " does not fit ", NameOf(device), ": ", why),
                  "leave --target out to compile for the device");
}

DeviceLimits LimitsOf(const rpc::GpuDescription& gpu) {
  DeviceLimits limits;
  limits.memory_bytes = gpu.memory_bytes;
  limits.shared_bytes = gpu.shared_bytes;
  limits.threads_per_block = gpu.threads_per_block;
  limits.units = gpu.units;
  limits.l2_bytes = gpu.l2_bytes;
  limits.architecture = gpu.architecture;
  return limits;
}

// Returns why a GPU cannot run kernels for the target; "" if it can.
std::string WhyNotOnGpu(const Target& target, const rpc::GpuDescription& gpu) {
  if (ToText(target.kind) != gpu.kind)
    return "its code is for " + std::string(ToText(target.kind)) + ", the device takes " + gpu.kind;
  if (CudaArchNumber(target.arch) > CudaArchNumber(gpu.architecture))
    return "its code is for " + target.arch + ", the device is an older " + gpu.architecture;
  if (target.max_threads > gpu.threads_per_block)
    return "its blocks have up to " + std::to_string(target.max_threads) + " threads, those of the device " +
           std::to_string(gpu.threads_per_block);
  if (target.shared_bytes > gpu.shared_bytes)
    return "its blocks have up to " + std::to_string(target.shared_bytes) + " bytes of shared memory, those of the " +
           "device " + std::to_string(gpu.shared_bytes);
  return "";
}

std::string ArchitectureOf(const Target& target) { return target.triple.substr(0, target.triple.find('-')); }

// Returns why a CPU cannot run kernels for the target; "" if it can, as far as the target's text tells.
std::string WhyNotOnCpu(const Target& target, const MachineDescription& machine) {
  if (target.IsGpu()) return "its code is for a GPU, the device is a CPU";
  if (ArchitectureOf(target) != machine.architecture)
    return "its code is for " + ArchitectureOf(target) + ", the device is " + machine.architecture;
  if (target.num_cores > machine.usable_cores)
    return "it has " + CountText(target.num_cores, "core") + ", the device offers " +
           std::to_string(machine.usable_cores);
  return "";
}

// Adds "it has OTHER, the first one FIRST".
template <class T>
void Compare(std::vector<std::string>& differences, const std::string& what, const T& first, const T& other) {
  if (first == other) return;
  const auto text = [](const auto& value) {
    if constexpr (std::is_integral_v<T>) {
      return std::to_string(value);
    } else {
      return value;
    }
  };
  differences.push_back(what + " " + text(other) + " instead of " + text(first));
}

std::string CachesOf(const MachineDescription& machine) {
  const auto kib = [](int64_t bytes) { return std::to_string(bytes >> 10) + " KiB"; };
  return kib(machine.l1_bytes) + ", " + kib(machine.l2_bytes) + ", " + kib(machine.l3_bytes);
}

// Returns the features that one of two machines lacks.
std::string Without(const std::vector<std::string>& all, const std::vector<std::string>& some) {
  std::vector<std::string> missing;
  for (const std::string& name : all)
    if (std::ranges::find(some, name) == some.end()) missing.push_back(name);
  return Joined(missing);
}

}  // namespace

bool IsStated(const rpc::DeviceInfo& device) { return device.description.IsKnown(); }

std::string NameOf(const rpc::DeviceInfo& device) { return "the device `" + device.key + "` (" + device.model + ")"; }

Result<Target> TargetFor(const std::string& text, const rpc::DeviceInfo& device) {
  const rpc::GpuDescription& gpu = device.gpu;
  const MachineDescription& machine = device.description;
  const bool is_own = IsGpu(device) && (text == "cpu" || text == gpu.kind);
  Result<Target> parsed = Target::Parse(is_own ? StatedTarget(gpu.kind, LimitsOf(gpu)) : text, &machine);
  if (!parsed.ok() && text == "cpu")
    return Err("nothing can be compiled for ", NameOf(device), ": ", parsed.error().Text());
  const Target target = TRY(std::move(parsed));
  const std::string why = IsGpu(device) ? WhyNotOnGpu(target, gpu) : WhyNotOnCpu(target, machine);
  if (!is_own && !why.empty()) return Refused(text, device, why);
  return target;
}

Status CheckFeatures(const Target& target, std::vector<std::string> features, const rpc::DeviceInfo& device) {
  if (target.IsGpu()) return {};
  std::vector<std::string> needed = std::move(features);
  // No list of known features exists for RISC-V: those that the target names count.
  if (ArchitectureOf(target) == "riscv64") {
    for (const std::string& feature : target.features)
      if (feature.starts_with("+")) needed.push_back(feature.substr(1));
  }
  const std::string missing = Without(needed, device.description.features);
  if (missing.empty()) return {};
  return Refused(target.Text(), device, "its code may need " + missing + ", which the device lacks");
}

std::string Difference(const rpc::DeviceInfo& first, const rpc::DeviceInfo& other) {
  if (!IsStated(first)) return "";
  if (!IsStated(other)) return "its server does not state what it is";
  const MachineDescription &a = first.description, &b = other.description;
  std::vector<std::string> found;
  Compare(found, "model", a.model, b.model);
  Compare(found, "architecture", a.architecture, b.architecture);
  Compare(found, "core", a.core, b.core);
  if (const std::string more = Without(b.features, a.features); !more.empty())
    found.push_back("further features " + more);
  if (const std::string less = Without(a.features, b.features); !less.empty()) found.push_back("no " + less);
  Compare(found, "cores", a.usable_cores, b.usable_cores);
  Compare(found, "caches", CachesOf(a), CachesOf(b));
  Compare(found, "kind", first.gpu.kind, other.gpu.kind);
  Compare(found, "GPU architecture", first.gpu.architecture, other.gpu.architecture);
  Compare(found, "units", first.gpu.units, other.gpu.units);
  Compare(found, "GPU memory", first.gpu.memory_bytes, other.gpu.memory_bytes);
  Compare(found, "threads of a block", first.gpu.threads_per_block, other.gpu.threads_per_block);
  Compare(found, "shared memory of a block", first.gpu.shared_bytes, other.gpu.shared_bytes);
  return Joined(found);
}

}  // namespace autotune
