// What lowering may say about a legal schedule: a closed list, so that whatever else it says is a finding of
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

// What more it may say of a schedule for GPUs.
inline constexpr const char* kGpuRefusals[] = {
    // Barriers that not all threads would reach.
    R"(.* under a condition that differs between them)",
    // Of a buffer that no other kernel sees, where the nests around some of its uses were bound by themselves.
    R"(.*buffer '\S+' is (shared|local|register) and used in two kernels)",
    // The host launches kernels one after another: no loops, no conditions.
    R"(.* is around a kernel of threads and not bound to an axis itself)",
    // What the schedule took for copies depends on what else the kernel does.
    R"(loop \S+ cannot be pipelined: .*)",
    // What a warp would compute together, later steps took apart; or the target has no such tensor cores.
    R"(loop \S+ cannot be computed by tensor cores: .*)",
    kLoweringRefusals[0],
    kLoweringRefusals[1],
    kLoweringRefusals[2],
    kLoweringRefusals[3],
};

inline bool IsAmong(const std::string& message, std::span<const char* const> patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const char* pattern) { return std::regex_match(message, std::regex(pattern)); });
}

}  // namespace autotune
