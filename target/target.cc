#include "target/target.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "support/cpu_features.h"
#include "support/cpus.h"
#include "support/hint.h"
#include "support/join.h"
#include "target/cuda_arch.h"

namespace autotune {
namespace {

bool Has(const std::vector<std::string>& features, std::string_view name) {
  return std::find(features.begin(), features.end(), "+" + std::string(name)) != features.end();
}

std::string HostTriple() {
#if defined(__x86_64__)
  return "x86_64-linux-gnu";
#elif defined(__aarch64__)
  return "aarch64-linux-gnu";
#elif defined(__riscv)
  return "riscv64-linux-gnu";
#else
#error "unknown host architecture: add its triple"
#endif
}

#if defined(__x86_64__)
// Returns LLVM's name for this processor. Returns "x86-64" if the model is not in the list, or if a virtual machine
// hides instructions that LLVM would assume for the model. With "x86-64", only the features that the target lists
// count.
std::string HostModel(const std::vector<std::string>& present) {
  struct Model {
    bool is;
    const char* name;
  };
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f");
  const Model models[] = {
#if __GNUC__ >= 13
    {__builtin_cpu_is("znver4") != 0, "znver4"},
#endif
    // Compilers without Zen 4 support report it as Zen 3. LLVM's model of Zen 3 has no 512-bit vectors, so nearly every
    // register tile would spill.
    {__builtin_cpu_is("znver3") && avx512, "znver4"},
    {__builtin_cpu_is("znver3") && !avx512, "znver3"},
    {__builtin_cpu_is("znver2") != 0, "znver2"},
    {__builtin_cpu_is("znver1") != 0, "znver1"},
    {__builtin_cpu_is("sapphirerapids") != 0, "sapphirerapids"},
    {__builtin_cpu_is("icelake-server") != 0, "icelake-server"},
    {__builtin_cpu_is("cascadelake") != 0, "cascadelake"},
    {__builtin_cpu_is("skylake-avx512") != 0, "skylake-avx512"},
    {__builtin_cpu_is("alderlake") != 0, "alderlake"},
    {__builtin_cpu_is("skylake") != 0, "skylake"},
    {__builtin_cpu_is("broadwell") != 0, "broadwell"},
    {__builtin_cpu_is("haswell") != 0, "haswell"}
  };
  for (const Model& model : models) {
    if (model.is && CheckCpuFeatures(FeaturesOfModel(model.name), present).ok()) return model.name;
  }
  return "x86-64";
}
#endif

// Sets the host's CPU by LLVM's names. Lists the features in full, so that an unlisted model still gets its vectors.
void ResolveHost(Target& target) {
  target.triple = HostTriple();
  target.cpu = "generic";
#if defined(__x86_64__)
  const std::vector<std::string>& present = HostCpuFeatures();
  target.cpu = HostModel(present);
  auto has = [&](const char* name) { return std::find(present.begin(), present.end(), name) != present.end(); };
  for (const char* name : {"sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2"}) {
    if (has(name)) target.features.push_back(std::string("+") + name);
  }
  constexpr const char* kAvx512[] = {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"};
  if (std::all_of(std::begin(kAvx512), std::end(kAvx512), has)) {
    for (const char* name : kAvx512) target.features.push_back(std::string("+") + name);
  }
#else
  std::ostringstream text;
  text << std::ifstream("/proc/cpuinfo").rdbuf();
  DescribeCpu(text.str(), target);
#endif
  std::sort(target.features.begin(), target.features.end());
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
  static constexpr std::string_view kAvx[] = {"sandybridge", "corei7-avx", "ivybridge", "core-avx-i",
                                              "bdver1",      "bdver2",     "bdver3",    "btver2"};
  static constexpr std::string_view kFmaWithoutAvx2[] = {"bdver2", "bdver3"};
  auto in = [&](const auto& names) { return std::find(std::begin(names), std::end(names), cpu) != std::end(names); };
  bool avx512 = in(kAvx512), avx2 = avx512 || in(kAvx2);
  if (feature == "avx512f") return avx512;
  if (feature == "fma") return avx2 || in(kFmaWithoutAvx2);
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

void ReadHostCaches(Target& target) {
  const int64_t first = HostCacheBytes(1);
  if (first == 0) return;  // the operating system does not report caches
  target.l1_bytes = first;
  target.l2_bytes = HostCacheBytes(2);
  target.l3_bytes = HostCacheBytes(3);
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
    // The instruction works on vectors, so C source without vector types cannot use it.
    target.has_ldexp = avx512 && target.vector_types;
  } else {  // 32 registers and a fused multiply-add
    target.vector_bits = target.triple.starts_with("riscv64") ? RiscvVectorBits(target) : 128;
    target.vector_registers = 32;
    target.general_registers = 31;
    target.has_fma = true;
  }
}

// A target while its options are parsed.
struct Stated {
  Target target;
  bool host = true, triple = false, caches = false;
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
    stated.triple = true;
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
    if (*end || n < 1 || n > 4096) return Err("-num-cores: '", value, "' is not a count between 1 and 4096");
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
  if (!stated.triple) target.triple = HostTriple();
  if (target.kind == TargetKind::kCuda) TRY(FinishCuda(stated, target));
  if (stated.max_threads) target.max_threads = stated.max_threads;
  if (stated.shared) target.shared_bytes = stated.shared;
  if (stated.registers) target.registers = stated.registers;
  if (stated.cores) target.num_cores = stated.cores;
  return {};
}

}  // namespace

std::vector<std::string> FeaturesOfModel(std::string_view cpu) {
  std::vector<std::string> features = {"avx",   "avx2",   "bmi",  "bmi2",   "f16c",   "fma",  "lzcnt",
                                       "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"};
  auto add = [&](std::initializer_list<const char*> more) {
    features.insert(features.end(), more.begin(), more.end());
  };
  bool zen = cpu.starts_with("znver"), alder_lake = cpu == "alderlake";
  bool zen4 = cpu == "znver4", sapphire_rapids = cpu == "sapphirerapids";
  bool ice_lake = cpu == "icelake-server" || sapphire_rapids || zen4;  // all share the AVX-512 extensions of Ice Lake
  bool cascade_lake = cpu == "cascadelake" || ice_lake;
  if (zen) add({"sse4a"});
  if (ice_lake || alder_lake) add({"gfni"});
  if (sapphire_rapids || alder_lake) add({"avxvnni"});
  if (cpu == "skylake-avx512" || cascade_lake) add({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"});
  if (cascade_lake) add({"avx512vnni"});
  if (ice_lake) add({"avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq"});
  if (sapphire_rapids || zen4) add({"avx512bf16"});
  if (sapphire_rapids) add({"avx512fp16"});
  std::sort(features.begin(), features.end());
  return features;
}

Result<Target> Target::Parse(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  if (!(words >> word))
    return WithHint(Err("the target is empty"),
                    "write 'cpu', 'llvm -mcpu=...', 'c -mcpu=...', 'opencl' or 'cuda -arch=...'");
  if (word == "cpu") {
    if (words >> word) return WithHint(Err("target 'cpu' takes no options"), "write 'llvm " + word + "' instead");
    return Parse("llvm -mcpu=host");
  }
  std::optional<TargetKind> kind = EnumFromText<TargetKind>(word);
  if (!kind) return Err("unknown target kind '", word, "'; known: cpu, llvm, c, opencl, cuda");
  Stated stated;
  Target& target = stated.target;
  target.kind = *kind;
  while (words >> word) TRY(ReadOption(word, stated));
  if (target.IsGpu()) {
    TRY(FinishGpu(stated, target));
  } else if (stated.host) {
    if (stated.triple && target.triple != HostTriple()) return Err("target for ", target.triple, " needs -mcpu=<name>");
    ResolveHost(target);
    if (!stated.caches) ReadHostCaches(target);
  } else if (target.triple.empty()) {
    target.triple = HostTriple();
  }
  if (!target.triple.starts_with("x86_64") && !target.triple.starts_with("aarch64") &&
      !target.triple.starts_with("riscv64")) {
    return Err("unknown architecture in -mtriple=", target.triple, "; known: x86_64, aarch64, riscv64");
  }
  std::sort(target.features.begin(), target.features.end());
  target.features.erase(std::unique(target.features.begin(), target.features.end()), target.features.end());
  if (!target.IsGpu()) target.num_cores = stated.cores ? stated.cores : AvailableCpus();
  Derive(target);
  return std::move(target);
}

void DescribeCpu(const std::string& cpuinfo, Target& target) {
  auto field = [&](const std::string& name) {  // value of the first line with this name
    std::istringstream lines(cpuinfo);
    for (std::string line; std::getline(lines, line);) {
      size_t colon = line.find(':');
      if (colon == std::string::npos || !line.starts_with(name)) continue;
      if (line.find_first_not_of(" \t", name.size()) != colon) continue;
      size_t begin = line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return std::string();
  };
  if (target.triple.starts_with("aarch64")) {
    static constexpr struct {
      const char *part, *name;
    } kArm[] = {{"0xd03", "cortex-a53"},  {"0xd04", "cortex-a35"},  {"0xd05", "cortex-a55"},  {"0xd07", "cortex-a57"},
                {"0xd08", "cortex-a72"},  {"0xd09", "cortex-a73"},  {"0xd0a", "cortex-a75"},  {"0xd0b", "cortex-a76"},
                {"0xd0c", "neoverse-n1"}, {"0xd0d", "cortex-a77"},  {"0xd40", "neoverse-v1"}, {"0xd41", "cortex-a78"},
                {"0xd44", "cortex-x1"},   {"0xd47", "cortex-a710"}, {"0xd49", "neoverse-n2"}, {"0xd4f", "neoverse-v2"}};
    if (field("CPU implementer") != "0x41") return;
    for (const auto& [part, name] : kArm) {
      if (field("CPU part") == part) target.cpu = name;
    }
  } else if (target.triple.starts_with("riscv64")) {
    target.cpu = "generic-rv64";
    std::string isa = field("isa");  // rv64imafdcv_zicsr_..._zvl256b
    if (!isa.starts_with("rv64")) return;
    std::istringstream extensions(isa.substr(4));
    std::string letters, extension;
    std::getline(extensions, letters, '_');
    for (char letter : letters) {
      if (letter == 'g') {
        for (const char* each : {"+m", "+a", "+f", "+d"}) target.features.push_back(each);
      } else if (std::string_view("mafdcv").find(letter) != std::string_view::npos) {
        target.features.push_back(std::string("+") + letter);
      }
    }
    while (std::getline(extensions, extension, '_')) {
      if (extension.starts_with("zvl") && Has(target.features, "v")) target.features.push_back("+" + extension);
    }
  }
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
