#include "service/final_choice.h"

#include <algorithm>

#include "support/error_parts.h"

namespace autotune {
namespace {

// Planned duration of the final choice, as a share of the search's time. Loading packages may extend it to a fifth.
constexpr double kChoiceShare = 0.15;
// Least planned duration of the final choice. It gives a network of 1 ms 70 pairs of runs at each number of threads,
// ten times as many as an interval needs.
constexpr double kMinChoiceSeconds = 1;
// Least time for which an undecided comparison of the final choice goes on. It is stated in README.md.
constexpr double kMinExtraSeconds = 5;
// Estimated seconds for each trial of earlier processes, whose time the database lacks.
constexpr double kSecondsPerTrial = 0.07;

}  // namespace

double SearchBudget(double time_budget) { return time_budget / (1 + kChoiceShare); }

Result<std::optional<ChosenNetwork>> ChooseFinally(const ChoiceOf& of, NetworkHost& host, TuneReport& report,
                                                   uint64_t seed, const EventSink& emit,
                                                   const std::atomic<bool>& stop_requested) {
  const double searched = report.seconds + kSecondsPerTrial * report.resumed_trials;
  double shown = -1;
  auto show = [&](double done) {
    constexpr double kStep = 0.01;  // least progress that is worth an event
    if (done < shown + kStep) return;
    shown = done;
    emit(event::Choosing{done});
  };
  const double planned = std::max(kMinChoiceSeconds, kChoiceShare * searched);
  ChooseOptions choose{.max_seconds = planned,
                       .max_extra_seconds = std::max(kMinExtraSeconds, planned),
                       .seed = seed,
                       .on_progress = show,
                       .stop = &stop_requested};
  Result<ChosenNetwork> made = ChooseSchedules(of.network, of.target, of.store, of.builder, host, choose);
  if (!made.ok()) {
    report.notes.push_back("the tuned network could not be compared with the untuned one (" + SentenceOf(made.error()) +
                           "); each task gets its best record");
    return std::optional<ChosenNetwork>();
  }
  if (!made->stopped) TRY(StoreChoice(of.store, made->choice));
  return std::optional<ChosenNetwork>(std::move(*made));
}

}  // namespace autotune
