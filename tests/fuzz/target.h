// FUZZ_TARGET(name) { ... input ... } checks one `input` (std::string_view). For any bytes it must neither crash nor
// hang nor allocate far more memory than the input justifies. There is one target per file, NAME_fuzz.cc, with its
// inputs in corpus/NAME.
//
// Each file is built twice: into test_fuzz, where replay_test.cc runs the corpus and its mutations in every test run;
// and, with clang (preset `fuzz`, scripts/fuzz.sh), into a separate libFuzzer program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#ifdef AUTOTUNE_LIBFUZZER

namespace autotune::fuzz {

inline void Reach(const char*, std::string_view) {}  // libFuzzer measures coverage itself

}  // namespace autotune::fuzz

#define FUZZ_TARGET(name)                                                     \
  static void Fuzz_##name(std::string_view input);                            \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {   \
    Fuzz_##name(std::string_view(reinterpret_cast<const char*>(data), size)); \
    return 0;                                                                 \
  }                                                                           \
  static void Fuzz_##name(std::string_view input)

#else

#include <map>
#include <set>
#include <string>

#include "support/hash.h"

namespace autotune::fuzz {

using Hashes = std::set<std::string>;
// Hashes of the different bytes that reached each place.
inline std::map<std::string, Hashes>& Reached() {
  static std::map<std::string, Hashes> reached;
  return reached;
}
// Notes that `bytes` reached a parser behind checks that refuse most inputs. A test demands a number of them.
inline void Reach(const char* place, std::string_view bytes) { Reached()[place].insert(HashBytes128(bytes).Hex()); }

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
