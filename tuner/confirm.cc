#include "tuner/confirm.h"

#include <algorithm>

#include "support/check.h"
#include "support/statistics.h"
#include "tuner/trial_fault.h"

namespace autotune {
namespace {

// A turn measures each finalist by one repeat of 7.5 ms, the length for which the noise of a pair is known (kClearly).
// It is longer than a repeat of a trial, since the median over the turns counts and not the least time.
constexpr double kRepeatShare = 1.5;   // length of the repeat, relative to a trial's
constexpr int kTurnsPerCall = 3;       // turns between two decisions; one job measures all of them
constexpr size_t kFewestTurns = 3;     // least number of turns before a clear difference decides
constexpr double kClearly = 1.05;      // ratio of a clear difference; the noise of one pair is 2 to 3 %
constexpr double kWorthwhile = 0.995;  // largest ratio challenger / incumbent that is worth a change

class Turns {
 public:
  Turns(Measurer& measurer, const TaskSpace& space, const std::vector<Finalist>& finalists,
        const ConfirmOptions& options)
      : measurer_(measurer),
        space_(space),
        finalists_(finalists),
        measure_(options.measure),
        outcomes_(finalists.size()),
        verified_(finalists.size()),
        failed_(finalists.size()),
        costs_(finalists.size()),
        disturbed_(finalists.size()) {
    measure_.repeats = measure_.max_repeats = 1;
    measure_.min_repeat_ms *= kRepeatShare;
    for (size_t i = 0; i < finalists.size(); ++i) verified_[i] = finalists[i].verified;
  }

  // Measures the finalists with the indices `who` in `count` further turns. Reverses their order in every other turn,
  // so that a machine that slows down steadily favours no candidate.
  Status Take(const std::vector<size_t>& who, int count) {
    std::vector<MeasureItem> items;
    std::vector<std::pair<size_t, size_t>> places;  // finalist and turn of each item
    std::vector<bool> to_check(finalists_.size());
    for (size_t i : who) to_check[i] = !verified_[i];
    for (int k = 0; k < count; ++k, ++turns_) {
      std::vector<size_t> order = who;
      if (turns_ % 2) std::reverse(order.begin(), order.end());
      for (size_t i : order) {
        items.push_back({.space = &space_, .proposal = finalists_[i].proposal, .check = to_check[i]});
        places.emplace_back(i, turns_);
        to_check[i] = false;
      }
    }
    std::vector<Outcome> results = TRY(measurer_.Measure(items, measure_));
    CHECK(results.size() == items.size());
    for (size_t k = 0; k < results.size(); ++k)
      Note(places[k].first, places[k].second, items[k].check, std::move(results[k]));
    return {};
  }

  size_t turns() const { return turns_; }
  bool Ran(size_t i) const { return !failed_[i] && !costs_[i].empty(); }
  bool Failed(size_t i) const { return failed_[i]; }
  bool cancelled() const { return cancelled_; }  // true: a stop cancelled a measurement

  // Returns the ratios challenger / incumbent of their times, one for each turn in which both ran.
  std::vector<double> Ratios(size_t challenger, size_t incumbent) const {
    std::vector<double> ratios;
    for (const auto& [turn, cost] : costs_[challenger]) {
      auto other = std::find_if(costs_[incumbent].begin(), costs_[incumbent].end(),
                                [&](const auto& entry) { return entry.first == turn; });
      if (other != costs_[incumbent].end()) ratios.push_back(cost / other->second);
    }
    return ratios;
  }

  std::vector<Outcome> TakeOutcomes() { return std::move(outcomes_); }

 private:
  void Note(size_t i, size_t turn, bool checked, Outcome result) {
    if (result.status == TrialStatus::kCancelled) {
      cancelled_ = true;
      outcomes_[i] = std::move(result);
      return;
    }
    if (failed_[i] || cancelled_) return;
    if (IsFarmFault(result.status)) {  // not the candidate's fault; it only misses this turn
      if (costs_[i].empty()) outcomes_[i] = std::move(result);
      return;
    }
    if (result.status != TrialStatus::kOk) {
      failed_[i] = true;
      outcomes_[i] = std::move(result);
      outcomes_[i].verified = false;
      return;
    }
    if (checked) verified_[i] = result.verified;
    std::vector<double> times = std::move(outcomes_[i].times);
    times.insert(times.end(), result.times.begin(), result.times.end());
    costs_[i].emplace_back(turn, result.cost);
    if (!result.disturbed.empty()) ++disturbed_[i].turns, disturbed_[i].why = result.disturbed;
    std::vector<double> costs;
    for (const auto& entry : costs_[i]) costs.push_back(entry.second);
    outcomes_[i] = std::move(result);
    outcomes_[i].times = std::move(times);
    outcomes_[i].verified = verified_[i];
    outcomes_[i].cost = Median(costs);
    // Disturbances only add time, so the median of the turns is an undisturbed time if most of them are undisturbed.
    outcomes_[i].disturbed = 2 * disturbed_[i].turns < costs.size() ? "" : disturbed_[i].why;
  }

  Measurer& measurer_;
  const TaskSpace& space_;
  const std::vector<Finalist>& finalists_;
  MeasureOptions measure_;
  std::vector<Outcome> outcomes_;
  std::vector<bool> verified_;
  std::vector<bool> failed_;                                   // true: the finalist failed by its own fault
  std::vector<std::vector<std::pair<size_t, double>>> costs_;  // turn and cost of each success, by finalist
  struct Disturbed {
    size_t turns = 0;
    std::string why;  // of the latest one
  };
  std::vector<Disturbed> disturbed_;  // by finalist
  size_t turns_ = 0;
  bool cancelled_ = false;
};

}  // namespace

Verdict Judge(const std::vector<double>& ratios) {
  if (ratios.size() < kFewestTurns) return Verdict::kOpen;
  auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  if (*least > kClearly) return Verdict::kNotFaster;
  if (*most < 1 / kClearly) return Verdict::kFaster;
  MedianInterval interval = MedianWithInterval(ratios);  // infinite bounds for fewer than six ratios
  if (interval.low > kWorthwhile) return Verdict::kNotFaster;
  return interval.high < 1 ? Verdict::kFaster : Verdict::kOpen;
}

Result<Confirmation> Confirm(Measurer& measurer, const TaskSpace& space, const std::vector<Finalist>& finalists,
                             const ConfirmOptions& options) {
  CHECK(options.max_turns > 0);
  Turns turns(measurer, space, finalists, options);
  std::vector<size_t> racing(finalists.size());  // finalists that neither failed nor lost
  for (size_t i = 0; i < racing.size(); ++i) racing[i] = i;
  size_t incumbent = 0;
  bool open = !racing.empty();
  while (open && turns.turns() < static_cast<size_t>(options.max_turns)) {
    TRY(turns.Take(racing, std::min(kTurnsPerCall, options.max_turns - static_cast<int>(turns.turns()))));
    if (turns.cancelled()) break;
    std::erase_if(racing, [&](size_t i) { return turns.Failed(i); });
    if (racing.empty()) break;
    incumbent = racing.front();
    open = false;
    std::erase_if(racing, [&](size_t i) {
      Verdict verdict = i == incumbent ? Verdict::kFaster : Judge(turns.Ratios(i, incumbent));
      open |= verdict == Verdict::kOpen;
      return verdict == Verdict::kNotFaster;
    });
  }
  Confirmation confirmation;
  double least = 1;  // the winner's ratio to the incumbent
  for (size_t i : racing) {
    if (!turns.Ran(i)) continue;
    if (i == incumbent) confirmation.winner = i;
    std::vector<double> ratios = turns.Ratios(i, incumbent);
    if (i == incumbent || Judge(ratios) != Verdict::kFaster || Median(ratios) >= least) continue;
    least = Median(ratios);
    confirmation.winner = i;
  }
  confirmation.outcomes = turns.TakeOutcomes();
  return confirmation;
}

}  // namespace autotune
