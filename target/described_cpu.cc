#include "target/described_cpu.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "support/cpu_features.h"
#include "support/integer.h"

namespace autotune {
namespace {

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool Has(const MachineDescription& machine, std::string_view feature) {
  return std::ranges::find(machine.features, feature) != machine.features.end();
}

// Models of Intel's family 6 [Linux, arch/x86/include/asm/intel-family.h]. Emerald Rapids and Raptor Lake have the
// features of their predecessors.
std::string IntelModel(int64_t model, const MachineDescription& machine) {
  static constexpr struct {
    int64_t model;
    std::string_view name;
  } kModels[] = {{0x3c, "haswell"},        {0x3f, "haswell"},        {0x45, "haswell"},        {0x46, "haswell"},
                 {0x3d, "broadwell"},      {0x47, "broadwell"},      {0x4f, "broadwell"},      {0x56, "broadwell"},
                 {0x4e, "skylake"},        {0x5e, "skylake"},        {0x8e, "skylake"},        {0x9e, "skylake"},
                 {0xa5, "skylake"},        {0xa6, "skylake"},        {0x55, "skylake-avx512"}, {0x6a, "icelake-server"},
                 {0x6c, "icelake-server"}, {0x8f, "sapphirerapids"}, {0xcf, "sapphirerapids"}, {0x97, "alderlake"},
                 {0x9a, "alderlake"},      {0xb7, "alderlake"},      {0xba, "alderlake"},      {0xbf, "alderlake"}};
  for (const auto& [known, name] : kModels) {
    if (known != model) continue;
    return name == "skylake-avx512" && Has(machine, "avx512vnni") ? "cascadelake" : std::string(name);
  }
  return "";
}

// [LLVM 19, lib/TargetParser/Host.cpp] for AMD's families 0x17 and 0x19.
std::string AmdModel(int64_t family, int64_t model, const MachineDescription& machine) {
  if (family == 0x17) return model >= 0x30 ? "znver2" : "znver1";
  if (family == 0x19) return Has(machine, "avx512f") ? "znver4" : "znver3";
  return "";
}

std::string X86Model(const MachineDescription& machine) {
  const size_t first = machine.core.find(' '), second = machine.core.find(' ', first + 1);
  if (second == std::string::npos) return "";
  const auto family = ParseInteger(std::string_view(machine.core).substr(first + 1, second - first - 1));
  const auto model = ParseInteger(std::string_view(machine.core).substr(second + 1));
  if (!family || !model) return "";
  const std::string vendor = machine.core.substr(0, first);
  if (vendor == "GenuineIntel" && *family == 6) return IntelModel(*model, machine);
  return vendor == "AuthenticAMD" ? AmdModel(*family, *model, machine) : "";
}

// Implementer and part of a core [LLVM 19, lib/TargetParser/Host.cpp].
std::string ArmModel(const std::string& core) {
  static constexpr struct {
    std::string_view core, name;
  } kModels[] = {{"0x41 0xd03", "cortex-a53"},  {"0x41 0xd04", "cortex-a35"},  {"0x41 0xd05", "cortex-a55"},
                 {"0x41 0xd07", "cortex-a57"},  {"0x41 0xd08", "cortex-a72"},  {"0x41 0xd09", "cortex-a73"},
                 {"0x41 0xd0a", "cortex-a75"},  {"0x41 0xd0b", "cortex-a76"},  {"0x41 0xd0c", "neoverse-n1"},
                 {"0x41 0xd0d", "cortex-a77"},  {"0x41 0xd40", "neoverse-v1"}, {"0x41 0xd41", "cortex-a78"},
                 {"0x41 0xd44", "cortex-x1"},   {"0x41 0xd47", "cortex-a710"}, {"0x41 0xd49", "neoverse-n2"},
                 {"0x41 0xd4f", "neoverse-v2"}, {"0x61 0x022", "apple-m1"},    {"0x61 0x023", "apple-m1"},
                 {"0x61 0x024", "apple-m1"},    {"0x61 0x025", "apple-m1"},    {"0x61 0x028", "apple-m1"},
                 {"0x61 0x029", "apple-m1"},    {"0x61 0x032", "apple-m2"},    {"0x61 0x033", "apple-m2"},
                 {"0x61 0x034", "apple-m2"},    {"0x61 0x035", "apple-m2"},    {"0x61 0x038", "apple-m2"},
                 {"0x61 0x039", "apple-m2"}};
  for (const auto& [known, name] : kModels)
    if (core == known) return std::string(name);
  return "";
}

// Returns the model's name if the machine has all features that LLVM assumes for it.
std::optional<std::string> Confirmed(const std::string& model, const MachineDescription& machine) {
  if (model.empty() || !CheckCpuFeatures(FeaturesOfModel(model), machine.features).ok()) return std::nullopt;
  return model;
}

// Cores with AMX also have vdpbf16ps, but take as long for it as for four multiply-adds of f32 vectors, which is twice
// the time for the same products [measured on Sapphire Rapids]. AVX512-FP16 tells these cores where Linux or a virtual
// machine hides AMX.
bool MultipliesBf16Fast(const MachineDescription& machine) {
  return Has(machine, "avx512bf16") && !Has(machine, "amx-bf16") && !Has(machine, "avx512fp16");
}

// Lists the features in full, so that an unlisted model still gets its vectors. With "x86-64", only these count.
CpuNames X86Names(const MachineDescription& machine) {
  CpuNames names{"x86_64-linux-gnu", Confirmed(X86Model(machine), machine).value_or("x86-64"), {}};
  for (const char* name : {"sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2"})
    if (Has(machine, name)) names.features.push_back(std::string("+") + name);
  constexpr const char* kAvx512[] = {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"};
  const bool has_avx512 = std::ranges::all_of(kAvx512, [&](const char* name) { return Has(machine, name); });
  if (has_avx512)
    for (const char* name : kAvx512) names.features.push_back(std::string("+") + name);
  // Dot products of bytes and of bf16, in vectors that the target has.
  if (has_avx512 && MultipliesBf16Fast(machine)) names.features.emplace_back("+avx512bf16");
  // The names of listed models imply it, and their texts, by which records are found, stay as they were.
  if (has_avx512 && names.cpu == "x86-64" && Has(machine, "avx512vbmi")) names.features.emplace_back("+avx512vbmi");
  if (has_avx512 && Has(machine, "avx512vnni")) names.features.emplace_back("+avx512vnni");
  if (Has(machine, "avx2") && Has(machine, "avxvnni")) names.features.emplace_back("+avxvnni");
  constexpr const char* kAmx[] = {"amx-bf16", "amx-int8", "amx-tile"};
  if (has_avx512 && std::ranges::all_of(kAmx, [&](const char* name) { return Has(machine, name); }))
    for (const char* name : kAmx) names.features.push_back(std::string("+") + name);
  return names;
}

CpuNames ArmNames(const MachineDescription& machine) {
  const std::optional<std::string> model = Confirmed(ArmModel(machine.core), machine);
  CpuNames names{"aarch64-linux-gnu", model.value_or("generic"), {}};
  if (model) return names;
  // Code for Neon needs no SVE, and LLVM would use it for vectors of its own choice.
  for (const std::string& feature : machine.features)
    if (!feature.starts_with("sve")) names.features.push_back("+" + feature);
  return names;
}

}  // namespace

Result<CpuNames> NamesOf(const MachineDescription& machine) {
  if (machine.architecture == "x86_64") return X86Names(machine);
  if (machine.architecture == "aarch64") return ArmNames(machine);
  if (machine.architecture == "riscv64") {
    CpuNames names{"riscv64-linux-gnu", "generic-rv64", {}};
    for (const std::string& extension : machine.features) names.features.push_back("+" + extension);
    return names;
  }
  return Err("there is no code generation for the architecture ", machine.architecture,
             "; known: x86_64, aarch64, riscv64");
}

std::vector<std::string> FeaturesOfModel(std::string_view cpu) {
  std::vector<std::string> features;
  const auto add = [&](std::initializer_list<const char*> more) {
    features.insert(features.end(), more.begin(), more.end());
  };
  const bool arm_v8_0 = IsOneOf(cpu, {"cortex-a35", "cortex-a53", "cortex-a57", "cortex-a72", "cortex-a73"});
  const bool neoverse = cpu.starts_with("neoverse"), apple = cpu.starts_with("apple-");
  if (arm_v8_0) return features;
  if (cpu.starts_with("cortex-") || neoverse || apple) {
    add({"dotprod", "fullfp16", "lse", "rdm"});
    const bool sve2 = IsOneOf(cpu, {"cortex-a710", "neoverse-n2", "neoverse-v2"}), sve = sve2 || cpu == "neoverse-v1";
    if (sve || apple) add({"complxnum"});
    if (sve || cpu == "apple-m2") add({"bf16", "i8mm"});
    if (sve) add({"sve"});
    if (sve2) add({"sve2"});
    std::ranges::sort(features);
    return features;
  }
  add({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"});
  const bool zen = cpu.starts_with("znver"), alder_lake = cpu == "alderlake";
  const bool zen4 = cpu == "znver4", sapphire_rapids = cpu == "sapphirerapids";
  // All three share the AVX-512 extensions of Ice Lake.
  const bool ice_lake = cpu == "icelake-server" || sapphire_rapids || zen4;
  const bool cascade_lake = cpu == "cascadelake" || ice_lake;
  if (zen) add({"sse4a"});
  if (ice_lake || alder_lake) add({"gfni"});
  if (sapphire_rapids || alder_lake) add({"avxvnni"});
  if (cpu == "skylake-avx512" || cascade_lake) add({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"});
  if (cascade_lake) add({"avx512vnni"});
  if (ice_lake) add({"avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vpopcntdq"});
  if (sapphire_rapids || zen4) add({"avx512bf16"});
  if (sapphire_rapids) add({"amx-bf16", "amx-int8", "amx-tile", "avx512fp16"});
  std::ranges::sort(features);
  return features;
}

}  // namespace autotune
