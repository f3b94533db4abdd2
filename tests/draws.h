// For tests with more cases than continuous integration has time for: it draws some of them, by the seed of the commit,
// and scripts/night.sh (part whole_draws) runs all.
#pragma once
#include <cstdlib>
#include <string_view>

namespace autotune::test {

inline uint64_t DrawSeed() {
  const char* seed = std::getenv("AUTOTUNE_SCHEDULE_SEED");
  return seed ? std::strtoull(seed, nullptr, 10) : 0;
}

// Whether all cases run: the environment has AUTOTUNE_DRAWS=all.
inline bool DrawsAll() {
  const char* draws = std::getenv("AUTOTUNE_DRAWS");
  return draws && std::string_view(draws) == "all";
}

// Whether the case with this number is drawn. One in `each` consecutive numbers is.
inline bool IsDrawn(size_t number, size_t each) { return DrawsAll() || (number + DrawSeed()) % each == 0; }

}  // namespace autotune::test
