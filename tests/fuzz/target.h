// FUZZ_TARGET(name) { ... input ... }: what must hold for every `input` (std::string_view), whatever its bytes: no
// crash, no hang, no absurd allocation. One target per file, NAME_fuzz.cc, with its inputs in corpus/NAME.
//
// The same file is built in two ways: into test_fuzz, where replay_test.cc runs the corpus and mutations of it on every
// test run; and, with clang (preset `fuzz`, scripts/fuzz.sh), into a libFuzzer program of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef AUTOTUNE_LIBFUZZER

#define FUZZ_TARGET(name)                                                     \
  static void Fuzz_##name(std::string_view input);                            \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {   \
    Fuzz_##name(std::string_view(reinterpret_cast<const char*>(data), size)); \
    return 0;                                                                 \
  }                                                                           \
  static void Fuzz_##name(std::string_view input)

#else

#include <map>
#include <string>

namespace autotune::fuzz {

using Function = void (*)(std::string_view);
inline std::map<std::string, Function>& Targets() {
  static std::map<std::string, Function> targets;
  return targets;
}

}  // namespace autotune::fuzz

#define FUZZ_TARGET(name)                                                                                              \
  static void Fuzz_##name(std::string_view input);                                                                     \
  [[maybe_unused]] static const bool registered_##name = autotune::fuzz::Targets().emplace(#name, Fuzz_##name).second; \
  static void Fuzz_##name(std::string_view input)

#endif
