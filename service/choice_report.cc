#include "service/choice_report.h"

#include <sstream>

#include "service/text.h"

namespace autotune {
namespace {

// Describes one comparison. The tuned time is the untuned time multiplied by the median ratio, since changes of the
// machine's speed disturb ratios less than times.
std::string ComparisonText(const NetworkComparison& c) {
  const MedianInterval ratio{c.ratio_low, c.ratio, c.ratio_high};
  const std::string verdict = IsUndecided(ratio)                      ? "undecided"
                              : c.ratio_low <= 1 && c.ratio_high >= 1 ? "no significant difference"
                                                                      : Format("%.3f times as fast", 1 / c.ratio);
  return "  " + PlaceText(c.threads) + (c.threads == 1 ? ":   " : ":  ") + TimeText(c.default_seconds) + " untuned, " +
         TimeText(c.default_seconds * c.ratio) + " tuned: " + verdict +
         Format(" (95 %%: %.3f to %.3f)\n", 1 / c.ratio_high, 1 / c.ratio_low);
}

// Says how the refused schedules compare with those that are kept: "undecided at 2 threads: 0.918 to 1.105 times as
// fast as the default ones, 0.990 in the median".
std::string RefusalText(const RefusedChange& refusal) {
  const NetworkComparison& c = refusal.at;
  const std::string kept = refusal.against_default ? "the default ones" : "those chosen before";
  const std::string subject = refusal.of_previous ? "those chosen before are " : "the new ones are ";
  // An even interval includes 1, and its half-width is at most the resolution.
  if (refusal.kind == ChangeKind::kEven)
    return subject + "as fast as " + kept + Format(", within %.0f %%", 2 * kResolution * 100);
  return (refusal.kind == ChangeKind::kLoss ? subject + "slower" : "undecided") + (c.threads == 0 ? " on " : " at ") +
         PlaceText(c.threads) + Format(": %.3f to %.3f times as fast as ", 1 / c.ratio_high, 1 / c.ratio_low) + kept +
         Format(", %.3f in the median", 1 / c.ratio);
}

// Says why the selected schedules were not taken, and how long that took to find out.
std::string WhyKept(const ChosenNetwork& chosen) {
  return (chosen.refusal ? RefusalText(*chosen.refusal)
                         : std::string("in the network, no other schedule of a task is faster for sure")) +
         Format(" (%.0f s of comparisons)\n", chosen.seconds);
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
  const std::string of_all = std::to_string(chosen.tuned_tasks) + " of " +
                             CountText(static_cast<int64_t>(chosen.choice.schedules.size()), "task");
  if (chosen.same_schedules && chosen.tasks_with_records > 0 && chosen.tuned_tasks == 0) {
    text += "the network keeps its default schedules, as an earlier run chose from the same candidates\n";
  } else if (chosen.same_schedules && chosen.tasks_with_records > 0) {
    text += of_all + " run tuned schedules, which an earlier run chose from the same candidates\n";
  } else if (chosen.kept_previous) {
    text += "the schedules chosen before stay; " + WhyKept(chosen);
  } else if (!chosen.kept_defaults) {
    text += of_all + Format(" run tuned schedules; chosen in %.0f s\n", chosen.seconds);
  } else if (chosen.tasks_with_records == 0) {
    text += "the network keeps its default schedules: no task has another schedule to compare\n";
  } else {
    text += (chosen.refusal && chosen.refusal->of_previous ? "the network goes back to its default schedules; "
                                                           : "the network keeps its default schedules; ") +
            WhyKept(chosen);
  }
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

}  // namespace autotune
