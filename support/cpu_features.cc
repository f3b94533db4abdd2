#include "support/cpu_features.h"

#include <algorithm>
#include <span>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace autotune {
namespace {

// clang-format is not idempotent on these two macros.
// X(name, the word in /proc/cpuinfo). LLVM and the compiler's __builtin_cpu_supports share these names. The builtin
// takes only literals.
// clang-format off
#define AUTOTUNE_X86_FEATURES(X) \
  X("amx-bf16", "amx_bf16") X("amx-int8", "amx_int8") X("amx-tile", "amx_tile") \
  X("avx", "avx") X("avx2", "avx2") X("avx512bf16", "avx512_bf16") \
  X("avx512bitalg", "avx512_bitalg") X("avx512bw", "avx512bw") X("avx512cd", "avx512cd") \
  X("avx512dq", "avx512dq") X("avx512f", "avx512f") X("avx512fp16", "avx512_fp16") \
  X("avx512ifma", "avx512ifma") X("avx512vbmi", "avx512vbmi") X("avx512vbmi2", "avx512_vbmi2") \
  X("avx512vl", "avx512vl") X("avx512vnni", "avx512_vnni") X("avx512vpopcntdq", "avx512_vpopcntdq") \
  X("avxvnni", "avx_vnni") X("bmi", "bmi1") X("bmi2", "bmi2") \
  X("f16c", "f16c") X("fma", "fma") X("fma4", "fma4") \
  X("gfni", "gfni") X("lzcnt", "abm") X("movbe", "movbe") \
  X("popcnt", "popcnt") X("sse3", "pni") X("sse4.1", "sse4_1") \
  X("sse4.2", "sse4_2") X("sse4a", "sse4a") X("ssse3", "ssse3") \
  X("tbm", "tbm") X("xop", "xop")

// X(LLVM's name, the word in /proc/cpuinfo, bit among the kernel's: from 64 on, those of the second word) [Linux,
// arch/arm64/include/uapi/asm/hwcap.h]
#define AUTOTUNE_ARM_FEATURES(X) \
  X("bf16", "bf16", 64 + 14) X("complxnum", "fcma", 14) X("dotprod", "asimddp", 20) \
  X("fullfp16", "asimdhp", 10) X("i8mm", "i8mm", 64 + 13) X("lse", "atomics", 8) \
  X("rdm", "asimdrdm", 12) X("sve", "sve", 22) X("sve2", "sve2", 64 + 1)
// clang-format on

struct Feature {
  std::string_view name, word;
  int bit = 0;
};
#define AUTOTUNE_ROW(...) {__VA_ARGS__},
constexpr Feature kX86[] = {AUTOTUNE_X86_FEATURES(AUTOTUNE_ROW)}, kArm[] = {AUTOTUNE_ARM_FEATURES(AUTOTUNE_ROW)};
#undef AUTOTUNE_ROW

#if defined(__x86_64__)
// Asks Linux for the permission to use the registers of AMX, which every process needs [Linux,
// Documentation/arch/x86/xstate.rst]. Children that it forks have it, too.
bool MayUseTiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

std::vector<std::string> ReadHostFeatures() {
  std::vector<std::string> present;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define AUTOTUNE_ADD(name, word) \
  if (__builtin_cpu_supports(name)) present.push_back(name);
  AUTOTUNE_X86_FEATURES(AUTOTUNE_ADD)
#undef AUTOTUNE_ADD
  const auto is_of_tiles = [](std::string_view name) { return name.starts_with("amx-"); };
  if (std::ranges::any_of(present, is_of_tiles) && !MayUseTiles()) std::erase_if(present, is_of_tiles);
#elif defined(__aarch64__)
  present = CpuFeaturesOfHwcaps(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#endif
  return present;
}

}  // namespace

std::vector<std::string> KnownCpuFeatures(std::string_view architecture) {
  std::vector<std::string> names;
  const auto add = [&](std::span<const Feature> known) {
    for (const Feature& feature : known) names.emplace_back(feature.name);
  };
  if (architecture == "x86_64") add(kX86);
  if (architecture == "aarch64") add(kArm);
  return names;
}

std::vector<std::string> CpuFeaturesOfWords(std::string_view architecture, const std::string& words) {
  const std::string stated = " " + words + " ";
  std::vector<std::string> present;
  const auto add = [&](std::span<const Feature> known) {
    for (const Feature& feature : known)
      if (stated.find(" " + std::string(feature.word) + " ") != std::string::npos) present.emplace_back(feature.name);
  };
  if (architecture == "x86_64") add(kX86);
  if (architecture == "aarch64") add(kArm);
  return present;
}

std::vector<std::string> CpuFeaturesOfHwcaps(uint64_t hwcap, uint64_t hwcap2) {
  std::vector<std::string> present;
  for (const Feature& feature : kArm) {
    const uint64_t bits = feature.bit < 64 ? hwcap : hwcap2;
    if ((bits >> (feature.bit % 64)) & 1) present.emplace_back(feature.name);
  }
  return present;
}

const std::vector<std::string>& HostCpuFeatures() {
  static const std::vector<std::string> features = ReadHostFeatures();
  return features;
}

Status CheckCpuFeatures(const std::vector<std::string>& needed, const std::vector<std::string>& present) {
  std::string avx512, missing;
  for (const std::string& name : needed) {
    if (std::find(present.begin(), present.end(), name) != present.end()) continue;
    std::string& list = name.starts_with("avx512") ? avx512 : missing;
    list += (list.empty() ? "" : ", ") + name;
  }
  if (avx512.empty() && missing.empty()) return {};
  if (!avx512.empty()) missing = "AVX-512 (" + avx512 + ")" + (missing.empty() ? "" : " and " + missing);
  const bool of_tiles = missing.find("amx-") != std::string::npos;
  return Err("needs ", missing, ", which this CPU lacks", of_tiles ? " or Linux refuses to this process" : "");
}

}  // namespace autotune
