#include "service/machine_text.h"

namespace autotune {
namespace {

// Names the widest vector instructions that programs for the target use.
std::string VectorText(const Target& target) {
  if (target.vector_bits <= 32) return "no vectors";
  if (target.triple.starts_with("aarch64")) return "NEON";
  if (target.triple.starts_with("riscv64")) return "RVV of " + std::to_string(target.vector_bits) + " bits";
  return target.vector_bits == 512 ? "AVX-512" : target.vector_bits == 256 ? target.has_fma ? "AVX2" : "AVX" : "SSE";
}

// Returns a remark if the target's code is made by a C compiler instead of LLVM.
const char* CodeText(const Target& target) {
  if (target.kind == TargetKind::kLlvm) return "";
  return target.vector_types ? ", as C" : ", as C without vector types";
}

// Removes what vendors add to the names of CPUs: "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz" becomes "Intel Xeon
// Platinum 8481C".
std::string ShortModel(std::string model) {
  size_t cores = model.find("-Core Processor");  // "AMD EPYC 7B13 64-Core Processor"
  if (cores != std::string::npos) model = model.substr(0, model.rfind(' ', cores));
  for (const char* end : {" CPU @", " @ ", " Processor"}) model = model.substr(0, model.find(end));
  for (std::string_view mark : {"(R)", "(TM)", "(tm)"}) {
    for (size_t at; (at = model.find(mark)) != std::string::npos;) model.erase(at, mark.size());
  }
  return model;
}

}  // namespace

std::string ModelText(const MachineDescription& machine) {
  return machine.model.empty() ? "unknown CPU" : machine.model;
}

std::string CachesText(const Target& target) {
  auto kib = [](int64_t bytes) { return std::to_string(bytes >> 10) + " KiB"; };
  return "L1 " + kib(target.l1_bytes) + ", L2 " + kib(target.l2_bytes) + " a core, L3 " + kib(target.l3_bytes);
}

std::string HostText() {
  const MachineDescription host = DescribeHost();
  const Result<Target> target = Target::Parse("cpu", &host);
  return ShortModel(ModelText(host)) + ", " + std::to_string(host.usable_cores) + " of " +
         std::to_string(host.online_cores) + " cores" + (target.ok() ? ", " + CachesText(*target) : "");
}

std::string MachineText(const Target& target) {
  if (target.IsGpu()) {
    return std::to_string(target.num_cores) + (target.num_cores == 1 ? " unit of " : " units of ") +
           (target.kind == TargetKind::kCuda ? "a GPU " + target.arch : "an OpenCL device") + " (" +
           std::to_string(target.max_threads) + " threads and " + std::to_string(target.shared_bytes >> 10) +
           " KiB of shared memory a block)";
  }
  const MachineDescription machine = DescribeHost();
  Result<Target> host = Target::Parse("cpu", &machine);
  bool is_host =
      host.ok() && host->triple == target.triple && host->cpu == target.cpu && host->features == target.features;
  return std::to_string(target.num_cores) + (target.num_cores == 1 ? " core of " : " cores of ") +
         (is_host ? ShortModel(ModelText(machine)) : target.cpu) + " (" + VectorText(target) + CodeText(target) + ")";
}

std::string MachineText(const std::string& target) {
  const Result<Target> parsed = Target::Parse(target);
  return parsed.ok() ? MachineText(*parsed) : target;
}

}  // namespace autotune
