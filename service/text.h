// Functions that format texts for the messages of several commands. Thread-safe.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "support/printf_text.h"

namespace autotune {

// Returns a number with its noun: "1 task", "2 tasks".
std::string CountText(int64_t n, const std::string& noun);

// Says where a network ran: "2 threads", or "the GPU" for 0 threads.
std::string PlaceText(int threads);
// Formats a duration: "42s", "3m05s", "2h10m".
std::string DurationText(double seconds);
// Formats a measured time with four digits: "1.234 ms", from 0.1 ms on, or "12.34 us".
std::string TimeText(double seconds);
// Returns each distinct text once, in the order of first occurrence, with " (15 times)" if it occurs more often.
std::vector<std::string> WithoutRepeats(const std::vector<std::string>& texts);
// Returns the notes on the kernels' schedules. Kernels with the same note share one line, which names the first few
// kernels.
std::vector<std::string> KernelNotes(const std::vector<KernelChoice>& choices);
// Returns the notes on a compiled network: those on its kernels' schedules, then those on the choice for the network.
std::vector<std::string> CompileNotes(const CompileResult& compiled);

}  // namespace autotune
