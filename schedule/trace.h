// Trace: the steps of a schedule, and their text, which is the storage format (docs/trace.md), with one line per step:
//   sample_tile(m, n=3, max_inner=14, multiple_of=1) -> m_t = [8, 14, 7]
//   split(m, m_t) -> m_0, m_1, m_2
// One printer and one parser serve all steps, by their field declarations. Thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "schedule/step.h"
#include "support/result.h"

namespace autotune {

// The version of the language of steps. A change that makes older text invalid or changes its meaning increases it.
inline constexpr int kStepLanguageVersion = 1;

using Trace = std::vector<Step>;

std::string ToText(const Step& step);    // one line, no newline
std::string ToText(const Trace& trace);  // each line ends with a newline

// Empty lines and lines that begin with '#' are skipped. Errors name the line. Any malformed text is an error, never a
// crash.
Result<Step> ParseStep(std::string_view line);
Result<Trace> ParseTrace(std::string_view text);

bool Equal(const Step& a, const Step& b);
bool Equal(const Trace& a, const Trace& b);

}  // namespace autotune
