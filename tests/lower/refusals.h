// The closed list of reasons for which lowering may refuse a legal schedule. Any other refusal fails the tests that
// draw schedules.
#pragma once
#include <algorithm>
#include <regex>
#include <span>
#include <string>

namespace autotune {

// Schedules that are refused for any reason but the last break the contract of scope register (docs/architecture.md),
// which can only be checked in the lowered program.
inline constexpr const char* kLoweringRefusals[] = {
    // Registers have no addresses, so a subscript must not depend on data or on a parallel loop, which is not unrolled.
    R"(an index of register buffer \S+ is not a constant after unrolling: .*)",
    // The lanes of a strided vector would have to be gathered from several registers.
    R"(register buffer \S+ is accessed with a stride)",
    // A select discards the value of an out-of-bounds element, but there is no register to read it from.
    R"(register buffer \S+ is accessed beyond its bounds, under a condition)",
    // Unrolling is bounded: without a limit, the product of nested unrolled loops could make a build endless.
    R"(unrolling loop \S+ \(\d+ iterations\) makes more than \d+ statements: .*)",
};

// The closed list of reasons for which lowering for GPUs may refuse a schedule. It includes kLoweringRefusals.
inline constexpr const char* kGpuRefusals[] = {
    // Not all threads would reach the barrier.
    R"(.* under a condition that differs between them)",
    // The loop nests around some uses of the buffer were bound to axes separately, so they became two kernels.
    R"(.*buffer '\S+' is (shared|local|register) and used in two kernels)",
    // The host launches kernels one after another, without loops and conditions.
    R"(.* is around a kernel of threads, but not bound to an axis itself)",
    // Other code of the kernel keeps the loop's copies from running ahead.
    R"(loop \S+ cannot be pipelined: .*)",
    // Later steps separated threads that must compute together as a warp, or the target lacks such tensor cores.
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
