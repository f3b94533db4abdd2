#include "tools/autotune/choice_report.h"

#include <cstdio>
#include <sstream>

#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Describes one comparison. The tuned time is the untuned time multiplied by the median ratio, since changes of the
// machine's speed disturb ratios less than times.
std::string ComparisonText(const NetworkComparison& c) {
  char text[256], verdict[64];
  const MedianInterval ratio{c.ratio_low, c.ratio, c.ratio_high};
  if (IsUndecided(ratio)) {
    std::snprintf(verdict, sizeof verdict, "undecided");
  } else if (c.ratio_low <= 1 && c.ratio_high >= 1) {
    std::snprintf(verdict, sizeof verdict, "no significant difference");
  } else {
    std::snprintf(verdict, sizeof verdict, "%.3f times as fast", 1 / c.ratio);
  }
  std::snprintf(text, sizeof text, "  %d thread%s  %s untuned, %s tuned: %s (95 %%: %.3f to %.3f)\n", c.threads,
                c.threads == 1 ? ": " : "s:", TimeText(c.default_seconds).c_str(),
                TimeText(c.default_seconds * c.ratio).c_str(), verdict, 1 / c.ratio_high, 1 / c.ratio_low);
  return text;
}

// Says how the refused schedules compare with those that are kept: "undecided at 2 threads: 0.918 to 1.105 times as
// fast as the default ones, 0.990 in the median".
std::string RefusalText(const RefusedChange& refusal) {
  const NetworkComparison& c = refusal.at;
  const std::string kept = refusal.against_default ? "the default ones" : "those chosen before";
  const std::string subject = refusal.of_previous ? "those chosen before are " : "the new ones are ";
  char text[256];
  if (refusal.kind == ChangeKind::kEven) {
    // An even interval includes 1, and its half-width is at most the resolution.
    std::snprintf(text, sizeof text, "as fast as %s, within %.0f %%", kept.c_str(), 2 * kResolution * 100);
    return subject + text;
  }
  std::snprintf(text, sizeof text, " at %s: %.3f to %.3f times as fast as %s, %.3f in the median",
                Counted(c.threads, "thread").c_str(), 1 / c.ratio_high, 1 / c.ratio_low, kept.c_str(), 1 / c.ratio);
  return (refusal.kind == ChangeKind::kLoss ? subject + "slower" : "undecided") + text;
}

// Says why the selected schedules were not taken, and how long that took to find out.
std::string WhyKept(const ChosenNetwork& chosen) {
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, " (%.0f s of comparisons)\n", chosen.seconds);
  return (chosen.refusal ? RefusalText(*chosen.refusal)
                         : std::string("in the network, no other schedule of a task is faster for sure")) +
         seconds;
}

}  // namespace

std::string ComparisonsText(const std::vector<NetworkComparison>& comparisons) {
  std::string text;
  for (const NetworkComparison& comparison : comparisons) text += ComparisonText(comparison);
  return text;
}

std::string ChoiceText(const ChosenNetwork& chosen) {
  std::string text;
  if (!chosen.choice.comparisons.empty())
    text = "the whole network, tuned and untuned in turns:\n" + ComparisonsText(chosen.choice.comparisons);
  char line[256] = "";
  if (chosen.same_schedules && chosen.tasks_with_records > 0 && chosen.tuned_tasks == 0) {
    std::snprintf(line, sizeof line,
                  "the network keeps its default schedules, as an earlier run chose from the same candidates\n");
  } else if (chosen.same_schedules && chosen.tasks_with_records > 0) {
    std::snprintf(line, sizeof line,
                  "%d of %zu tasks run tuned schedules, which an earlier run chose from the same candidates\n",
                  chosen.tuned_tasks, chosen.choice.schedules.size());
  } else if (chosen.kept_previous) {
    text += "the schedules chosen before stay; " + WhyKept(chosen);
  } else if (!chosen.kept_defaults) {
    std::snprintf(line, sizeof line, "%d of %zu tasks run tuned schedules; chosen in %.0f s\n", chosen.tuned_tasks,
                  chosen.choice.schedules.size(), chosen.seconds);
  } else if (chosen.tasks_with_records == 0) {
    std::snprintf(line, sizeof line,
                  "the network keeps its default schedules: no task has another schedule to compare\n");
  } else {
    text += (chosen.refusal && chosen.refusal->of_previous ? "the network goes back to its default schedules; "
                                                           : "the network keeps its default schedules; ") +
            WhyKept(chosen);
  }
  text += line;
  if (!chosen.undisturbed)
    text += "other processes kept the host's lock, so they may have disturbed these comparisons\n";
  return text;
}

event::Choice ToEvent(const ChosenNetwork& chosen) {
  event::Choice choice{.kept_defaults = chosen.kept_defaults,
                       .kept_previous = chosen.kept_previous,
                       .same_schedules = chosen.same_schedules,
                       .undisturbed = chosen.undisturbed,
                       .tuned_tasks = chosen.tuned_tasks,
                       .seconds = chosen.seconds};
  std::istringstream text(ChoiceText(chosen));
  for (std::string line; std::getline(text, line);) choice.sentences.push_back(line);
  for (const NetworkComparison& c : chosen.choice.comparisons) {
    choice.comparisons.push_back({.threads = c.threads,
                                  .untuned_ms = c.default_seconds * 1e3,
                                  .tuned_ms = c.default_seconds * c.ratio * 1e3,
                                  .speedup = 1 / c.ratio,
                                  .speedup_low = 1 / c.ratio_high,
                                  .speedup_high = 1 / c.ratio_low});
  }
  return choice;
}

}  // namespace autotune::tools
