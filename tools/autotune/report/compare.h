// Comparisons of two reports: what became faster for sure, what slower, and what only one of them has.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "support/fields.h"
#include "support/result.h"
#include "tools/autotune/explain_source.h"
#include "tools/autotune/report/model.h"

namespace autotune::tools::report {

// What the 95 % interval of a ratio of times says.
enum class Verdict {
  kFaster,     // the whole interval is below 1
  kSlower,     // the whole interval is above 1
  kEqual,      // the interval includes 1 and is narrow (kResolution in compiler/change.h)
  kUndecided,  // the interval includes 1 and is wide
  kUnknown,    // there is no interval
};
}  // namespace autotune::tools::report
namespace autotune {
AUTOTUNE_ENUM(tools::report::Verdict, "faster", "slower", "equal", "undecided", "unknown")
}  // namespace autotune
namespace autotune::tools::report {

// How many times as fast the second one is: time before / time after, with its 95 % interval.
struct Speedup {
  std::optional<double> median, low, high;
  Verdict verdict = Verdict::kUnknown;
  AUTOTUNE_FIELDS(median, low, high, verdict)
};
// Of samples that were measured in turns, as many of each. `loads`: where those of each load begin (ExplainSource). The
// samples of one load share its addresses, so each load counts as one sample, the median of its ratios. With six loads,
// a difference is sure if all of them show it.
Speedup PairedSpeedup(const std::vector<double>& before, const std::vector<double>& after,
                      const std::vector<size_t>& loads);
// Of two measurements at different times. The bounds are the ratios of the bounds of both intervals, which is wider
// than 95 %. It cannot know whether the machine was in the same state.
Speedup SpeedupOf(const std::optional<Estimate>& before, const std::optional<Estimate>& after);

// A kernel that both have.
struct Change {
  std::string task, label;
  std::optional<Estimate> before, after;
  Speedup speedup;
  bool other_schedule = false;  // it has another schedule or another algorithm
  AUTOTUNE_FIELDS(task, label, before, after, speedup, other_schedule)
};

struct Comparison {
  std::string kind = "comparison";
  int64_t format = kFormat;
  std::string command;
  bool in_turns = false;                             // both were measured in turns now
  std::vector<std::string> notes;                    // remarks for the reader
  Speedup speedup;                                   // of the network; in databases, of the sum over common tasks
  std::vector<Change> changes;                       // those that took most time before come first
  std::vector<std::string> only_before, only_after;  // hashes of tasks
  Report before, after;
  AUTOTUNE_FIELDS(kind, format, command, in_turns, notes, speedup, changes, only_before, only_after, before, after)
};

// Compares reports of the same kind. Errors: they are of different kinds.
Result<Comparison> Compare(Report before, Report after);
// Replaces the numbers of `comparison` by those of samples that were taken in turns. The sources are those of its
// reports.
void UseTurns(const ExplainSource& before, const ExplainSource& after, Comparison& comparison);

// Returns the comparison as text for a terminal of `width` columns; 0: names in full.
std::string ComparisonTable(const Comparison& comparison, int width);

}  // namespace autotune::tools::report
