// What lowering may say about a legal schedule for CPUs: a closed list, so that whatever else it says is a finding of
// the tests that draw schedules.
#pragma once
#include <algorithm>
#include <regex>
#include <span>
#include <string>

namespace autotune {

// All but the last are breaches of the contract of scope register (docs/architecture.md), which only shows in the
// lowered program.
inline constexpr const char* kLoweringRefusals[] = {
    // Registers have no addresses: the index depends on a parallel loop, which is not unrolled, or on data (gather).
    R"(an index of register buffer \S+ is not a constant after unrolling: .*)",
    // Nor neighbours: a vector of every other element would have to be gathered from several.
    R"(register buffer \S+ is accessed with a stride)",
    // A select chooses another value, but the element that it does not choose is no register either.
    R"(register buffer \S+ is read beyond its bounds, under a condition)",
    // Loops unrolled by a step, or because they index registers: without a limit their product is a build without end.
    R"(unrolling loop \S+ \(\d+ iterations\) makes more than \d+ statements: .*)",
};

inline bool IsAmong(const std::string& message, std::span<const char* const> patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const char* pattern) { return std::regex_match(message, std::regex(pattern)); });
}

}  // namespace autotune
