#include "target/target.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

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

// The host's CPU in LLVM's words. The features are listed in full, so that an unlisted model still gets its vectors.
void ResolveHost(Target& target) {
  target.triple = HostTriple();
  target.cpu = "generic";
#if defined(__x86_64__)
  target.cpu = "x86-64";
  __builtin_cpu_init();
  auto add = [&](bool present, const char* name) {
    if (present) target.features.push_back(std::string("+") + name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("popcnt"), "popcnt");
  add(__builtin_cpu_supports("avx"), "avx");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("bmi"), "bmi");
  add(__builtin_cpu_supports("bmi2"), "bmi2");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512cd");
  for (const char* name : {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}) add(avx512, name);
  struct Model {
    bool is;
    const char* name;
  };
  const Model models[] = {{__builtin_cpu_is("znver3") != 0, "znver3"},
                          {__builtin_cpu_is("znver2") != 0, "znver2"},
                          {__builtin_cpu_is("znver1") != 0, "znver1"},
                          {__builtin_cpu_is("sapphirerapids") != 0, "sapphirerapids"},
                          {__builtin_cpu_is("icelake-server") != 0, "icelake-server"},
                          {__builtin_cpu_is("cascadelake") != 0, "cascadelake"},
                          {__builtin_cpu_is("skylake-avx512") != 0, "skylake-avx512"},
                          {__builtin_cpu_is("alderlake") != 0, "alderlake"},
                          {__builtin_cpu_is("skylake") != 0, "skylake"},
                          {__builtin_cpu_is("broadwell") != 0, "broadwell"},
                          {__builtin_cpu_is("haswell") != 0, "haswell"}};
  for (const Model& model : models) {
    if (model.is) {
      target.cpu = model.name;
      break;
    }
  }
  // Compilers that know of no Zen 4 take it for a Zen 3, whose model in LLVM knows of no 512-bit vectors: nearly every
  // register tile then spills.
  if (target.cpu == "znver3" && avx512) target.cpu = "znver4";
  std::sort(target.features.begin(), target.features.end());
#endif
}

bool CpuImplies(const std::string& cpu, std::string_view feature) {
  static const char* const kAvx512[] = {"sapphirerapids", "icelake-server", "cascadelake",
                                        "skylake-avx512", "x86-64-v4",      "znver4"};
  static const char* const kAvx2[] = {"znver1",    "znver2",  "znver3",    "haswell",
                                      "broadwell", "skylake", "alderlake", "x86-64-v3"};
  bool avx512 = std::any_of(std::begin(kAvx512), std::end(kAvx512), [&](const char* n) { return cpu == n; });
  bool avx2 = avx512 || std::any_of(std::begin(kAvx2), std::end(kAvx2), [&](const char* n) { return cpu == n; });
  return feature == "avx512f" ? avx512 : avx2;
}

// Of the first core's data or unified cache; 0 if the kernel does not say. Not sysconf: on AMD's processors glibc
// multiplies what one group of cores shares by a number of threads that a virtual machine makes up.
int64_t HostCacheBytes(int level) {
  for (int index = 0; index < 8; ++index) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    auto word = [&](const char* name) {
      std::string text;
      std::ifstream(folder + "/" + name) >> text;
      return text;
    };
    if (word("level") != std::to_string(level) || word("type") == "Instruction") continue;
    std::string size = word("size");
    char* unit = nullptr;
    int64_t bytes = std::strtoll(size.c_str(), &unit, 10);
    return *unit == 'K' ? bytes << 10 : *unit == 'M' ? bytes << 20 : bytes;
  }
  return 0;
}

void Derive(Target& target) {
  auto has = [&](std::string_view f) {
    bool off = std::find(target.features.begin(), target.features.end(), "-" + std::string(f)) != target.features.end();
    return !off && (Has(target.features, f) || CpuImplies(target.cpu, f));
  };
  if (target.triple.starts_with("x86_64")) {
    bool avx512 = has("avx512f");
    target.vector_bits = avx512 ? 512 : has("avx") || has("avx2") ? 256 : 128;
    target.vector_registers = avx512 ? 32 : 16;
    target.has_fma = has("fma");
  } else {  // NEON and RVV 1.0: 32 registers and a fused multiply-add
    target.vector_bits = 128;
    target.vector_registers = 32;
    target.has_fma = true;
  }
  if (target.triple == HostTriple()) {
    for (int64_t* bytes : {&target.l1_bytes, &target.l2_bytes, &target.l3_bytes}) {
      int level = bytes == &target.l1_bytes ? 1 : bytes == &target.l2_bytes ? 2 : 3;
      if (int64_t known = HostCacheBytes(level)) *bytes = known;
    }
  }
}

}  // namespace

Result<Target> Target::Parse(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  Target target;
  if (!(words >> word)) return Err("the target is empty; say 'cpu' or 'llvm -mcpu=...'");
  if (word == "cpu") {
    if (words >> word) return Err("target 'cpu' takes no options; write 'llvm ", word, "' instead");
    return Parse("llvm -mcpu=host");
  }
  if (word != "llvm") return Err("unknown target kind '", word, "'; known: cpu, llvm");
  bool host = true, explicit_triple = false;
  int cores = 0;
  while (words >> word) {
    size_t equals = word.find('=');
    std::string key = word.substr(0, equals), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (value.empty()) return Err("target option '", word, "' needs a value: ", key, "=...");
    if (key == "-mtriple") {
      target.triple = value;
      explicit_triple = true;
    } else if (key == "-mcpu") {
      host = value == "host";
      target.cpu = value;
    } else if (key == "-mattr") {
      std::istringstream list(value);
      for (std::string feature; std::getline(list, feature, ',');) {
        if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
          return Err("-mattr: '", feature, "' must start with + or -");
        target.features.push_back(feature);
      }
    } else if (key == "-num-cores") {
      char* end = nullptr;
      long n = std::strtol(value.c_str(), &end, 10);
      if (*end || n < 1 || n > 4096) return Err("-num-cores: '", value, "' is not a count between 1 and 4096");
      cores = static_cast<int>(n);
    } else {
      return Err("unknown target option '", key, "'; known: -mtriple, -mcpu, -mattr, -num-cores");
    }
  }
  if (host) {
    if (explicit_triple && target.triple != HostTriple())
      return Err("target for ", target.triple, " needs -mcpu=<name>");
    ResolveHost(target);
  } else if (target.triple.empty()) {
    target.triple = HostTriple();
  }
  if (!target.triple.starts_with("x86_64") && !target.triple.starts_with("aarch64") &&
      !target.triple.starts_with("riscv64")) {
    return Err("unknown architecture in -mtriple=", target.triple, "; known: x86_64, aarch64, riscv64");
  }
  std::sort(target.features.begin(), target.features.end());
  target.features.erase(std::unique(target.features.begin(), target.features.end()), target.features.end());
  target.num_cores = cores ? cores : std::max(1u, std::thread::hardware_concurrency());
  Derive(target);
  return target;
}

std::string Target::Text() const {
  std::string text = "llvm -mtriple=" + triple + " -mcpu=" + cpu;
  for (size_t i = 0; i < features.size(); ++i) text += (i ? "," : " -mattr=") + features[i];
  return text + " -num-cores=" + std::to_string(num_cores);
}

}  // namespace autotune
