#include "support/cpu_features.h"

#include <algorithm>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace autotune {
namespace {

// clang-format is not idempotent on these two macros.
// X(name). LLVM and the compiler's __builtin_cpu_supports share these names. The builtin takes only literals.
// clang-format off
#define AUTOTUNE_X86_FEATURES(X) \
  X("avx") X("avx2") X("avx512bf16") X("avx512bitalg") X("avx512bw") X("avx512cd") X("avx512dq") X("avx512f") \
  X("avx512fp16") X("avx512ifma") X("avx512vbmi") X("avx512vbmi2") X("avx512vl") X("avx512vnni") X("avx512vpopcntdq") X("avxvnni") \
  X("bmi") X("bmi2") X("f16c") X("fma") X("fma4") X("gfni") X("lzcnt") X("movbe") \
  X("popcnt") X("sse3") X("sse4.1") X("sse4.2") X("sse4a") X("ssse3") X("tbm") X("xop")

// X(LLVM's name, word of the auxiliary vector, the kernel's bit in it)
#define AUTOTUNE_ARM_FEATURES(X) \
  X("bf16", AT_HWCAP2, HWCAP2_BF16) \
  X("complxnum", AT_HWCAP, HWCAP_FCMA) \
  X("dotprod", AT_HWCAP, HWCAP_ASIMDDP) \
  X("fullfp16", AT_HWCAP, HWCAP_ASIMDHP) \
  X("i8mm", AT_HWCAP2, HWCAP2_I8MM) \
  X("lse", AT_HWCAP, HWCAP_ATOMICS) \
  X("rdm", AT_HWCAP, HWCAP_ASIMDRDM) \
  X("sve", AT_HWCAP, HWCAP_SVE) \
  X("sve2", AT_HWCAP2, HWCAP2_SVE2)
// clang-format on

std::vector<std::string> ReadHostFeatures() {
  std::vector<std::string> present;
#if defined(__x86_64__)
  __builtin_cpu_init();
#define AUTOTUNE_ADD(name) \
  if (__builtin_cpu_supports(name)) present.push_back(name);
  AUTOTUNE_X86_FEATURES(AUTOTUNE_ADD)
#undef AUTOTUNE_ADD
#elif defined(__aarch64__)
#define AUTOTUNE_ADD(name, word, bit) \
  if (getauxval(word) & (bit)) present.push_back(name);
  AUTOTUNE_ARM_FEATURES(AUTOTUNE_ADD)
#undef AUTOTUNE_ADD
#endif
  return present;
}

}  // namespace

std::vector<std::string> KnownCpuFeatures(std::string_view architecture) {
#define AUTOTUNE_NAME(name, ...) name,
  if (architecture == "x86_64") return {AUTOTUNE_X86_FEATURES(AUTOTUNE_NAME)};
  if (architecture == "aarch64") return {AUTOTUNE_ARM_FEATURES(AUTOTUNE_NAME)};
#undef AUTOTUNE_NAME
  return {};
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
  return Err("needs ", missing, ", which this CPU lacks");
}

}  // namespace autotune
