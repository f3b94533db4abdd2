#include "tuner/round.h"

#include <algorithm>
#include <utility>

#include "support/check.h"
#include "tuner/machine_state.h"

namespace autotune {
namespace {

// Multiple of the cutoff up to which a candidate that was cut off is measured again. The device cuts a candidate off
// after two slow bursts of about 4 to 5 ms each (a repeat), and its cost is the time of the faster burst. If both
// bursts lose a time slice of up to 10 ms to a neighbour, they take up to 3.5 times as long. A candidate as fast as the
// best then costs less than 1.2 times the cutoff, which is three times the best. A candidate beyond 1.5 times the
// cutoff is really slow.
constexpr double kSecondChance = 1.5;

MeasureItem ItemOf(const Planned& planned) {
  return {.space = &planned.task->space(), .proposal = planned.proposal, .cutoff_seconds = planned.cutoff_seconds};
}

// Measures again the candidates that may have been cut off because they were preempted.
void GiveSecondChances(Measurer& measurer, const std::vector<Planned>& plan, const MeasureOptions& options,
                       std::vector<Outcome>& outcomes) {
  std::vector<size_t> unlucky;
  std::vector<MeasureItem> items;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (outcomes[i].status != TrialStatus::kCutOff || outcomes[i].cost > kSecondChance * plan[i].cutoff_seconds)
      continue;
    unlucky.push_back(i);
    items.push_back(ItemOf(plan[i]));
  }
  if (items.empty()) return;
  Result<std::vector<Outcome>> measured = measurer.Measure(items, options);
  if (!measured.ok()) return;  // keeps the first outcomes; the next round reports the error
  std::vector<Outcome>& again = *measured;
  CHECK(again.size() == items.size());
  for (size_t k = 0; k < unlucky.size(); ++k) {
    // Keep a cancelled outcome: it marks the round as cancelled, and a resumed run repeats the round.
    if (again[k].status != TrialStatus::kOk && again[k].status != TrialStatus::kCancelled) continue;
    again[k].facts["cut_off_first"] = outcomes[unlucky[k]].cost;
    outcomes[unlucky[k]] = std::move(again[k]);
  }
}

// Returns the mean time of both runs of the reference kernel; 0 if they differ, or another device made the second. Then
// one run was disturbed for a moment, or the machine's state changed within the batch. The batch counts as usual, since
// its times cannot be scaled by one factor. On a shared server one run in 16 deviated by more than the threshold.
// Scaling by single runs doubled the median error of the times in these batches.
double Agreed(const Outcome& first, const Outcome& second) {
  if (first.status != TrialStatus::kOk || second.status != TrialStatus::kOk) return 0;
  if (first.server != second.server) return 0;
  const auto [less, more] = std::minmax(first.cost, second.cost);
  return more <= (1 + MachineState::kThreshold) * less ? (less + more) / 2 : 0;
}

}  // namespace

Result<std::vector<Outcome>> MeasureRound(Measurer& measurer, const std::vector<Planned>& plan,
                                          const std::optional<MeasureItem>& reference, const MeasureOptions& options) {
  std::vector<MeasureItem> items;
  if (reference) items.push_back(*reference);
  for (const Planned& planned : plan) items.push_back(ItemOf(planned));
  if (reference) items.push_back(*reference);
  std::vector<Outcome> outcomes = TRY(measurer.Measure(items, options));
  CHECK(outcomes.size() == items.size());
  double reference_seconds = 0;
  std::string server;  // of the reference
  if (reference) {
    const Outcome first = std::move(outcomes.front()), last = std::move(outcomes.back());
    outcomes.erase(outcomes.begin());
    outcomes.pop_back();
    // A stop during the batch may come before the last run. A resumed run then repeats the batch, since it would decide
    // otherwise without the reference.
    if (first.status == TrialStatus::kCancelled || last.status == TrialStatus::kCancelled) {
      for (Outcome& outcome : outcomes) outcome.status = TrialStatus::kCancelled;
      return outcomes;
    }
    reference_seconds = Agreed(first, last);
    server = first.server;
  }
  GiveSecondChances(measurer, plan, options, outcomes);
  for (Outcome& outcome : outcomes) outcome.reference_seconds = outcome.server == server ? reference_seconds : 0;
  return outcomes;
}

}  // namespace autotune
