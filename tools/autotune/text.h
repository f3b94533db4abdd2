// Texts that the messages of several commands share.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile.h"

namespace autotune::tools {

// "1 task", "2 tasks".
std::string Counted(int64_t n, const std::string& noun);
// "42s", "3m05s", "2h10m".
std::string DurationText(double seconds);
// "14:05:12", local time.
std::string ClockText(int64_t unix_ms);
// Each distinct text once, in order of first occurrence; "... (15 times)" if it occurs more often.
std::vector<std::string> WithoutRepeats(const std::vector<std::string>& texts);
// The notes on the kernels' schedules. Kernels with the same note share one line, which names the first few of them.
std::vector<std::string> KernelNotes(const std::vector<KernelChoice>& choices);

}  // namespace autotune::tools
