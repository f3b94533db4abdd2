#include "target/target.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "support/hint.h"
#include "support/join.h"
#include "support/machine_description.h"
#include "target/cuda_arch.h"
#include "target/described_cpu.h"

namespace autotune {
namespace {

constexpr int kMostCores = 4096;  // of a target

bool Has(const std::vector<std::string>& features, std::string_view name) {
  return std::find(features.begin(), features.end(), "+" + std::string(name)) != features.end();
}

// Returns true if LLVM's name of an x86-64 processor implies the feature. Only features of vectors are known. This
// layer cannot use LLVM's own tables.
bool CpuImplies(std::string_view cpu, std::string_view feature) {
  static constexpr std::string_view kAvx512[] = {
      "x86-64-v4",      "skylake-avx512",  "skx",       "cascadelake", "cooperlake",     "cannonlake",
      "icelake-client", "icelake-server",  "tigerlake", "rocketlake",  "sapphirerapids", "emeraldrapids",
      "graniterapids",  "graniterapids-d", "knl",       "knm",         "znver4",         "znver5"};
  static constexpr std::string_view kAvx2[] = {
      "x86-64-v3",  "haswell",          "core-avx2",   "broadwell", "skylake",     "alderlake", "raptorlake",
      "meteorlake", "arrowlake",        "arrowlake-s", "lunarlake", "pantherlake", "gracemont", "sierraforest",
      "grandridge", "clearwaterforest", "bdver4",      "znver1",    "znver2",      "znver3"};
  static constexpr std::string_view kAvx512Vnni[] = {
      "cascadelake",    "cooperlake",    "icelake-client", "icelake-server",  "tigerlake", "rocketlake",
      "sapphirerapids", "emeraldrapids", "graniterapids",  "graniterapids-d", "znver4",    "znver5"};
  static constexpr std::string_view kAvx512Vbmi[] = {
      "cannonlake",    "icelake-client", "icelake-server",  "tigerlake", "rocketlake", "sapphirerapids",
      "emeraldrapids", "graniterapids",  "graniterapids-d", "znver4",    "znver5"};
  // Without those that are slow at it (described_cpu.cc).
  static constexpr std::string_view kAvx512Bf16[] = {"cooperlake", "znver4", "znver5"};
  static constexpr std::string_view kAmx[] = {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"};
  static constexpr std::string_view kAvxVnni[] = {
      "alderlake",     "raptorlake",    "meteorlake",      "arrowlake",  "arrowlake-s",      "lunarlake",
      "pantherlake",   "gracemont",     "sierraforest",    "grandridge", "clearwaterforest", "sapphirerapids",
      "emeraldrapids", "graniterapids", "graniterapids-d", "znver5"};
  static constexpr std::string_view kAvx[] = {"sandybridge", "corei7-avx", "ivybridge", "core-avx-i",
                                              "bdver1",      "bdver2",     "bdver3",    "btver2"};
  static constexpr std::string_view kFmaWithoutAvx2[] = {"bdver2", "bdver3"};
  auto in = [&](const auto& names) { return std::find(std::begin(names), std::end(names), cpu) != std::end(names); };
  bool avx512 = in(kAvx512), avx2 = avx512 || in(kAvx2);
  if (feature == "avx512f") return avx512;
  if (feature == "fma") return avx2 || in(kFmaWithoutAvx2);
  if (feature == "avx512vl" || feature == "avx512bw") return avx512 && cpu != "knl" && cpu != "knm";
  if (feature == "avx512vnni") return in(kAvx512Vnni);
  if (feature == "avx512vbmi") return in(kAvx512Vbmi);
  if (feature == "avx512bf16") return in(kAvx512Bf16);
  if (feature.starts_with("amx-")) return in(kAmx);
  if (feature == "dotprod" || feature == "i8mm" || feature == "bf16") {
    const std::vector<std::string> of_model = FeaturesOfModel(cpu);
    return std::ranges::find(of_model, feature) != of_model.end();
  }
  if (feature == "avxvnni") return in(kAvxVnni);
  return avx2 || (feature == "avx" && in(kAvx));
}

// Returns the bits of a RISC-V target's vector registers. They follow from the CPU's name, or from the features v and
// zvl<n>b.
int RiscvVectorBits(const Target& target) {
  if (target.cpu == "sifive-x280") return 512;
  if (target.cpu != "sifive-p670" && !Has(target.features, "v")) return 32;  // scalars
  int bits = 128;
  for (const std::string& feature : target.features) {
    if (feature.starts_with("+zvl")) bits = std::max(bits, std::atoi(feature.c_str() + 4));
  }
  return std::min(bits, 512);
}

// Returns the bytes of a size such as "32K", "1M" or "32768"; -1 for any other text.
int64_t ParseSize(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || value < 0 || value > (int64_t{1} << 40)) return -1;
  return unit.empty() ? value : unit == "K" ? value << 10 : unit == "M" ? value << 20 : -1;
}

std::string SizeText(int64_t bytes) {
  if (bytes > 0 && bytes % (1 << 20) == 0) return std::to_string(bytes >> 20) + "M";
  if (bytes > 0 && bytes % (1 << 10) == 0) return std::to_string(bytes >> 10) + "K";
  return std::to_string(bytes);
}

// Sets the CPU to that of a machine, and the caches if it states them.
Status SetMachine(const MachineDescription& machine, bool sets_caches, Target& target) {
  CpuNames names = TRY(NamesOf(machine));
  if (!target.triple.empty() && target.triple != names.triple)
    return Err("target for ", target.triple, " needs -mcpu=<name>");
  target.triple = std::move(names.triple);
  target.cpu = std::move(names.cpu);
  target.features.insert(target.features.end(), names.features.begin(), names.features.end());
  if (!sets_caches || machine.l1_bytes == 0) return {};
  target.l1_bytes = machine.l1_bytes;
  target.l2_bytes = machine.l2_bytes;
  target.l3_bytes = machine.l3_bytes;
  return {};
}

void Derive(Target& target) {
  if (target.IsGpu()) {
    target.vector_bits = 128;       // the widest memory access of one thread
    target.vector_registers = 255;  // most scalar registers of a thread
    target.general_registers = 255;
    target.has_fma = true;
    const CudaArch* arch = target.kind == TargetKind::kCuda ? FindCudaArch(target.arch) : nullptr;
    target.has_async_copies = arch && arch->async_copies;
    target.has_mma = arch && arch->half_lanes > 0;
    target.has_f16 = true;  // cvt.rn.f16.f32 and back on all of NVIDIA's architectures; vload_half and vstore_half
    return;
  }
  auto has = [&](std::string_view f) {
    bool off = std::find(target.features.begin(), target.features.end(), "-" + std::string(f)) != target.features.end();
    return !off && (Has(target.features, f) || CpuImplies(target.cpu, f));
  };
  if (target.triple.starts_with("x86_64")) {
    bool avx512 = has("avx512f");
    target.vector_bits = avx512 ? 512 : has("avx") || has("avx2") ? 256 : 128;
    target.vector_registers = avx512 ? 32 : 16;
    target.general_registers = 16;
    target.has_fma = has("fma");
    target.has_f16 = has("f16c") && target.kind == TargetKind::kLlvm;
    // Vectors of 512 bits need the instruction of AVX-512. Without the vectors, LLVM has neither.
    const bool vnni = has("avx512vnni") && has("avx512vl") && avx512, avx_vnni = has("avxvnni") && has("avx2");
    target.has_byte_dot = target.kind == TargetKind::kLlvm && (avx512 ? vnni : avx_vnni);
    const bool of_integers = avx512 ? has("avx512bw") : target.vector_bits == 128 || has("avx2");  // whole vectors
    target.has_word_dot = target.kind == TargetKind::kLlvm && of_integers && !target.has_byte_dot;
    target.has_tiles =
        target.kind == TargetKind::kLlvm && avx512 && has("amx-tile") && has("amx-int8") && has("amx-bf16");
    target.has_bf16_dot = target.kind == TargetKind::kLlvm && avx512 && has("avx512vl") && has("avx512bf16");
    target.has_byte_tables = target.kind == TargetKind::kLlvm && avx512 && has("avx512vbmi");
    // The instruction works on vectors, so C source without vector types cannot use it.
    target.has_ldexp = avx512 && target.vector_types;
  } else {  // 32 registers and a fused multiply-add
    target.vector_bits = target.triple.starts_with("riscv64") ? RiscvVectorBits(target) : 128;
    target.vector_registers = 32;
    target.general_registers = 31;
    target.has_fma = true;
    const auto has_on_arm = [&](std::string_view f) {
      return target.kind == TargetKind::kLlvm && target.triple.starts_with("aarch64") && has(f);
    };
    target.has_byte_dot = has_on_arm("dotprod");
    target.has_mixed_dot = has_on_arm("i8mm");
    target.has_byte_tables = target.kind == TargetKind::kLlvm && target.triple.starts_with("aarch64");
    target.has_bf16_dot = has_on_arm("bf16");
  }
}

// A target while its options are parsed.
struct Stated {
  Target target;
  bool host = true, caches = false;
  int cores = 0;
  int64_t max_threads = 0, shared = 0, registers = 0;  // options of GPUs; 0: not given
};

Status ReadFeatures(const std::string& value, Target& target) {
  std::istringstream list(value);
  for (std::string feature; std::getline(list, feature, ',');) {
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
      return Err("-mattr: '", feature, "' must start with + or -");
    target.features.push_back(feature);
  }
  return {};
}

Status ReadCaches(const std::string& value, Target& target) {
  int64_t sizes[3];
  std::istringstream list(value);
  std::string size;
  for (int64_t& bytes : sizes) bytes = std::getline(list, size, ',') ? ParseSize(size) : -1;
  if (std::any_of(std::begin(sizes), std::end(sizes), [](int64_t b) { return b < 0; }) || std::getline(list, size))
    return Err("-caches: '", value, "' does not have the sizes of three levels, such as 32K,1M,32M (0: no such cache)");
  target.l1_bytes = sizes[0], target.l2_bytes = sizes[1], target.l3_bytes = sizes[2];
  return {};
}

// Parses an option that only targets for GPUs have.
Status ReadGpuOption(const std::string& key, const std::string& value, Stated& stated) {
  const bool cuda = stated.target.kind == TargetKind::kCuda;
  if (cuda && key == "-arch") {
    stated.target.arch = value;
    return {};
  }
  if (cuda && key == "-tf32") {
    if (value != "0" && value != "1") return Err("-tf32: '", value, "' is neither 0 nor 1");
    stated.target.tf32 = value == "1";
    return {};
  }
  int64_t* limit = key == "-max-threads"         ? &stated.max_threads
                   : key == "-shared"            ? &stated.shared
                   : cuda && key == "-registers" ? &stated.registers
                                                 : nullptr;
  if (!limit) {
    return Err("unknown target option '", key, "'; known: ", cuda ? "-arch, " : "",
               "-mtriple, -num-cores, -max-threads, -shared", cuda ? ", -registers, -tf32" : "");
  }
  *limit = ParseSize(value);
  if (*limit >= 1) return {};
  return Err(key, ": '", value, "' is not a number above 0, such as ", key == "-shared" ? "48K (of bytes)" : "1024");
}

Status ReadOption(const std::string& word, Stated& stated) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
  Target& target = stated.target;
  if (value.empty()) return Err("target option '", word, "' needs a value: ", key, "=...");
  if (key == "-mtriple") {
    target.triple = value;
  } else if (target.IsGpu() && key != "-num-cores") {
    return ReadGpuOption(key, value, stated);
  } else if (key == "-mcpu") {
    stated.host = value == "host";
    target.cpu = value;
  } else if (key == "-mattr") {
    TRY(ReadFeatures(value, target));
  } else if (key == "-num-cores") {
    char* end = nullptr;
    long n = std::strtol(value.c_str(), &end, 10);
    if (*end || n < 1 || n > kMostCores)
      return Err("-num-cores: '", value, "' is not a count between 1 and ", kMostCores);
    stated.cores = static_cast<int>(n);
  } else if (key == "-caches") {
    TRY(ReadCaches(value, target));
    stated.caches = true;
  } else if (key == "-vectors" && target.kind == TargetKind::kC) {
    if (value != "none") return Err("-vectors: '", value, "' is unknown; known: none");
    target.vector_types = false;
  } else {
    return Err("unknown target option '", key, "'; known: -mtriple, -mcpu, -mattr, -caches, -num-cores",
               target.kind == TargetKind::kC ? ", -vectors" : "");
  }
  return {};
}

// Refuses options that contradict the architecture's row.
Status CheckArchOptions(const Stated& stated, const CudaArch& arch) {
  if (stated.max_threads > arch.max_threads)
    return Err("-max-threads: a block of ", arch.name, " has at most ", arch.max_threads, " threads");
  if (stated.shared > arch.shared_bytes)
    return Err("-shared: a block of ", arch.name, " has at most ", SizeText(arch.shared_bytes));
  if (stated.registers > arch.registers)
    return Err("-registers: a compute unit of ", arch.name, " has at most ", SizeText(arch.registers), " registers");
  return {};
}

// Returns what the code is if it is not PTX for the architecture that `named` names; else "".
std::string ArchNote(const std::string& named, const CudaArch& arch, const Target& target) {
  if (arch.ptx_arch == named) return "";
  const std::string note =
      "the code for " + named + " is PTX for " + std::string(arch.ptx_arch) + ", which the GPU's driver translates";
  if (arch.name == target.arch) return note;
  return note + "; " + target.arch + " is newer than " + std::string(arch.name) + " and not known: limits that the " +
         "target does not state are those of " + std::string(arch.name) + ", and at most " +
         SizeText(kCommonSharedBytes) + " of shared memory for a block";
}

// Sets the properties of an NVIDIA GPU to those of its architecture.
Status FinishCuda(const Stated& stated, Target& target) {
  if (target.arch.empty()) return Err("target 'cuda' needs -arch=..., one of ", CudaArchNames());
  const std::string named = target.arch;
  const CudaArch* arch = FindCudaArch(named);
  if (!arch) {
    return Err(
        "-arch: '", named, "' is no architecture since ", CudaArchs()[0].name,
        ", the first one whose threads of a warp run independently, as the code needs it; known: ", CudaArchNames());
  }
  target.arch = BaseArchName(named);
  const bool known = target.arch == arch->name;
  if (known) TRY(CheckArchOptions(stated, *arch));
  if (target.tf32 && arch->half_lanes == 0)
    return Err("-tf32: ", target.arch, " has no tensor cores for TF32; the first one with them is sm_80");
  target.max_threads = arch->max_threads;
  target.shared_bytes = known ? arch->shared_bytes : std::min(arch->shared_bytes, kCommonSharedBytes);
  target.registers = arch->registers;
  target.num_cores = arch->units;
  target.note = ArchNote(named, *arch, target);
  return {};
}

// Sets the properties of a GPU that the options do not state: to those of its architecture, or, for OpenCL, to values
// that every device supports.
Status FinishGpu(const Stated& stated, Target& target) {
  if (target.kind == TargetKind::kCuda) TRY(FinishCuda(stated, target));
  if (stated.max_threads) target.max_threads = stated.max_threads;
  if (stated.shared) target.shared_bytes = stated.shared;
  if (stated.registers) target.registers = stated.registers;
  if (stated.cores) target.num_cores = stated.cores;
  return {};
}

}  // namespace

Result<Target> Target::Parse(std::string_view text, const MachineDescription* given) {
  std::istringstream words{std::string(text)};
  std::string word;
  if (!(words >> word))
    return WithHint(Err("the target is empty"),
                    "write 'cpu', 'llvm -mcpu=...', 'c -mcpu=...', 'opencl' or 'cuda -arch=...'");
  if (word == "cpu") {
    if (words >> word) return WithHint(Err("target 'cpu' takes no options"), "write 'llvm " + word + "' instead");
    return Parse("llvm -mcpu=host", given);
  }
  std::optional<TargetKind> kind = EnumFromText<TargetKind>(word);
  if (!kind) return Err("unknown target kind '", word, "'; known: cpu, llvm, c, opencl, cuda");
  Stated stated;
  Target& target = stated.target;
  target.kind = *kind;
  while (words >> word) TRY(ReadOption(word, stated));
  // Canonical text states everything, so that nothing of the machine is read.
  const bool complete = !target.triple.empty() && (target.IsGpu() || (!stated.host && stated.cores > 0));
  const MachineDescription machine = complete ? MachineDescription() : given ? *given : DescribeHost();
  if (target.IsGpu()) {
    if (target.triple.empty()) target.triple = TRY(NamesOf(machine)).triple;
    TRY(FinishGpu(stated, target));
  } else if (stated.host) {
    TRY(SetMachine(machine, /*sets_caches=*/!stated.caches, target));
  } else if (target.triple.empty()) {
    target.triple = TRY(NamesOf(machine)).triple;
  }
  if (!target.triple.starts_with("x86_64") && !target.triple.starts_with("aarch64") &&
      !target.triple.starts_with("riscv64")) {
    return Err("unknown architecture in -mtriple=", target.triple, "; known: x86_64, aarch64, riscv64");
  }
  std::sort(target.features.begin(), target.features.end());
  target.features.erase(std::unique(target.features.begin(), target.features.end()), target.features.end());
  if (!target.IsGpu()) {
    const int64_t usable = std::clamp<int64_t>(machine.usable_cores, 1, kMostCores);
    target.num_cores = stated.cores ? stated.cores : static_cast<int>(usable);
  }
  Derive(target);
  return std::move(target);
}

Target Target::Host() const {
  if (!IsGpu()) return *this;
  Target host;
  host.triple = triple;
  host.cpu = triple.starts_with("x86_64") ? "x86-64" : triple.starts_with("riscv64") ? "generic-rv64" : "generic";
  Derive(host);
  return host;
}

std::string Target::Text() const {
  std::string text(ToText(kind));
  if (kind == TargetKind::kCuda) text += " -arch=" + arch;
  text += " -mtriple=" + triple;
  if (IsGpu()) {
    text += " -num-cores=" + std::to_string(num_cores) + " -max-threads=" + std::to_string(max_threads) +
            " -shared=" + SizeText(shared_bytes);
    if (kind != TargetKind::kCuda) return text;
    return text + " -registers=" + SizeText(registers) + (tf32 ? " -tf32=1" : "");
  }
  text += " -mcpu=" + cpu;
  if (!features.empty()) text += " -mattr=" + Joined(features, ",");
  text += " -caches=" + SizeText(l1_bytes) + "," + SizeText(l2_bytes) + "," + SizeText(l3_bytes);
  text += " -num-cores=" + std::to_string(num_cores);
  return vector_types ? text : text + " -vectors=none";
}

}  // namespace autotune
