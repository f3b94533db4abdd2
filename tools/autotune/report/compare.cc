#include "tools/autotune/report/compare.h"

#include <algorithm>
#include <map>

#include "compiler/change.h"
#include "support/statistics.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "support/utf8.h"
#include "tools/autotune/report/collect.h"
#include "tools/autotune/text.h"

namespace autotune::tools::report {
namespace {

Verdict VerdictOf(double low, double high) {
  if (low > 1) return Verdict::kFaster;
  if (high < 1) return Verdict::kSlower;
  return IsUndecided({1 / high, 1, 1 / low}) ? Verdict::kUndecided : Verdict::kEqual;
}

std::map<std::string, const Kernel*> ByTask(const Report& report) {
  std::map<std::string, const Kernel*> kernels;
  for (const Kernel& kernel : report.kernels) kernels[kernel.task] = &kernel;
  return kernels;
}

std::string VersionOf(const Report& report) { return report.versions.empty() ? "" : report.versions[0]; }

// Says in what the two measurements differ besides their subject.
std::vector<std::string> NotesOn(const Report& before, const Report& after) {
  std::vector<std::string> notes;
  const auto differ = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) notes.push_back(std::string("different ") + what + ": " + a + ", then " + b);
  };
  differ("machines", before.machine, after.machine);
  differ("targets", before.target, after.target);
  differ("numbers of threads", std::to_string(before.threads), std::to_string(after.threads));
  differ("versions", VersionOf(before), VersionOf(after));
  return notes;
}

// "1.234 ms to 0.987 ms", with "-" for a time that is not known.
std::string TimeText(const std::optional<Estimate>& time) {
  return time ? autotune::TimeText(time->median_us / 1e6) : "-";
}

std::string SpeedupText(const Speedup& speedup) {
  if (!speedup.median) return "-";
  if (!speedup.low) return Format("%.3f", *speedup.median);
  return Format("%.3f (%.3f to %.3f)", *speedup.median, *speedup.low, *speedup.high);
}

std::string VerdictText(Verdict verdict) {
  return verdict == Verdict::kFaster ? "+" : verdict == Verdict::kSlower ? "-" : verdict == Verdict::kEqual ? "=" : " ";
}

std::string OnlyText(const char* where, const Report& report, const std::vector<std::string>& tasks, int width) {
  if (tasks.empty()) return "";
  const std::map<std::string, const Kernel*> kernels = ByTask(report);
  std::string text = std::string("only in ") + where + ":\n";
  for (const std::string& task : tasks) {
    const Kernel& kernel = *kernels.at(task);
    text += Row(Format("  %10s  %8s  ", TimeText(kernel.time).c_str(), OneLine(ShortTaskId(task)).c_str()),
                OneLine(kernel.label), width);
  }
  return text;
}

}  // namespace

Speedup PairedSpeedup(const std::vector<double>& before, const std::vector<double>& after,
                      const std::vector<size_t>& loads) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) ratios.push_back(before[i] / after[i]);
  std::vector<double> medians = LoadMedians(ratios, loads);
  if (medians.empty()) return {};
  const Estimate ratio = EstimateOf(std::move(medians));
  Speedup speedup{.median = ratio.median_us / 1e6};
  if (!ratio.low_us) return speedup;
  speedup.low = *ratio.low_us / 1e6;
  speedup.high = *ratio.high_us / 1e6;
  speedup.verdict = VerdictOf(*speedup.low, *speedup.high);
  return speedup;
}

Speedup SpeedupOf(const std::optional<Estimate>& before, const std::optional<Estimate>& after) {
  if (!before || !after || before->median_us <= 0 || after->median_us <= 0) return {};
  Speedup speedup{.median = before->median_us / after->median_us};
  if (!before->low_us || !after->low_us || !before->high_us || !after->high_us || *after->low_us <= 0) return speedup;
  speedup.low = *before->low_us / *after->high_us;
  speedup.high = *before->high_us / *after->low_us;
  speedup.verdict = VerdictOf(*speedup.low, *speedup.high);
  return speedup;
}

Result<Comparison> Compare(Report before, Report after) {
  if (before.kind != after.kind) {
    return Err(
        "one is a network that was measured, the other a database of single kernels; their times have different "
        "meanings");
  }
  Comparison comparison;
  comparison.before = std::move(before);
  comparison.after = std::move(after);
  comparison.notes = NotesOn(comparison.before, comparison.after);
  const std::map<std::string, const Kernel*> old = ByTask(comparison.before), now = ByTask(comparison.after);
  double sum_before = 0, sum_after = 0;
  for (const Kernel& kernel : comparison.before.kernels) {
    const auto found = now.find(kernel.task);
    if (found == now.end()) {
      comparison.only_before.push_back(kernel.task);
      continue;
    }
    const Kernel& other = *found->second;
    comparison.changes.push_back(
        {.task = kernel.task,
         .label = kernel.label,
         .before = kernel.time,
         .after = other.time,
         .speedup = SpeedupOf(kernel.time, other.time),
         .other_schedule = kernel.trace != other.trace || kernel.alternative != other.alternative});
    if (!kernel.time || !other.time) continue;
    sum_before += kernel.time->median_us;
    sum_after += other.time->median_us;
  }
  for (const Kernel& kernel : comparison.after.kernels) {
    if (!old.contains(kernel.task)) comparison.only_after.push_back(kernel.task);
  }
  if (comparison.changes.empty())
    comparison.notes.push_back("they have no kernel in common: their times are those of different networks");
  if (comparison.before.kind == "network") {
    comparison.speedup = SpeedupOf(comparison.before.time, comparison.after.time);
  } else if (sum_after > 0) {
    comparison.speedup.median = sum_before / sum_after;
  }
  return comparison;
}

void UseTurns(const ExplainSource& before, const ExplainSource& after, Comparison& comparison) {
  if (before.runs.empty() || after.runs.empty()) return;
  comparison.in_turns = true;
  comparison.speedup = PairedSpeedup(before.runs, after.runs, before.loads);
  const auto runs_of = [](const ExplainSource& source, const std::string& task) {
    const auto found = std::ranges::find_if(source.kernels, [&](const auto& k) { return k.kernel.task == task; });
    return found == source.kernels.end() ? std::vector<double>() : found->runs;
  };
  for (Change& change : comparison.changes) {
    const std::vector<double> old = runs_of(before, change.task), now = runs_of(after, change.task);
    if (!old.empty() && !now.empty()) change.speedup = PairedSpeedup(old, now, before.loads);
  }
}

std::string ComparisonTable(const Comparison& comparison, int width) {
  const Report &before = comparison.before, &after = comparison.after;
  const bool network = before.kind == "network";
  std::string text = OneLine(before.name) + (before.name == after.name ? "" : " and " + OneLine(after.name));
  if (network) text += ": " + TimeText(before.time) + " before, " + TimeText(after.time) + " after";
  if (comparison.speedup.median) {
    text +=
        (network ? ", " : ": the kernels of both together are ") + SpeedupText(comparison.speedup) + " times as fast";
    if (comparison.speedup.low)
      text +=
          ": " + (comparison.speedup.verdict == Verdict::kUndecided ? std::string("no sure difference")
                                                                    : std::string(ToText(comparison.speedup.verdict)));
  }
  text = WrapLines(text + "\n", width);
  if (!comparison.changes.empty())
    text +=
        Row(Format("%10s %10s  %-24s %-8s  ", "before", "after", "  times as fast (95 %)", "task"), "kernel", width);
  for (const Change& change : comparison.changes) {
    text += Row(Format("%10s %10s %s %-24s %-8s  ", TimeText(change.before).c_str(), TimeText(change.after).c_str(),
                       VerdictText(change.speedup.verdict).c_str(), SpeedupText(change.speedup).c_str(),
                       OneLine(ShortTaskId(change.task)).c_str()),
                (change.other_schedule ? "" : "(same) ") + OneLine(change.label), width);
  }
  text += OnlyText("the first", before, comparison.only_before, width) +
          OnlyText("the second", after, comparison.only_after, width);
  std::string legend;
  if (!comparison.changes.empty()) {
    legend = "+ faster, - slower, = equal; without a mark: not decided. (same): by the same schedule\n";
    legend += comparison.in_turns ? "all calls of a kernel in one run of the network; both were loaded six times and "
                                    "measured in turns, and a difference is sure if all six loads show it\n"
              : network           ? "measured at different times: the machine may have been in different states\n"
                                  : "by the best record of each task, one call alone\n";
  }
  for (const std::string& note : comparison.notes) legend += OneLine(note) + "\n";
  return text + WrapLines(legend, width);
}

}  // namespace autotune::tools::report
