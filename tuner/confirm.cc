#include "tuner/confirm.h"

#include <algorithm>

#include "support/check.h"

namespace autotune {
namespace {

constexpr int kRepeats = 2;  // of a turn: the first may meet an interrupt

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Result<std::vector<Outcome>> MeasureInTurns(Measurer& measurer, const TaskSpace& space,
                                            const std::vector<Proposal>& finalists, int turns, MeasureOptions options) {
  CHECK(turns > 0);
  options.repeats = options.max_repeats = kRepeats;
  options.cutoff_seconds = 0;
  const size_t n = finalists.size();
  std::vector<Outcome> outcomes(n);
  std::vector<std::vector<double>> costs(n);
  for (int turn = 0; turn < turns; ++turn) {
    // Forth and back: a machine that slows down steadily favours nobody.
    std::vector<Proposal> order = finalists;
    if (turn % 2) std::reverse(order.begin(), order.end());
    std::vector<Outcome> results = TRY(measurer.Measure(space, order, options));
    CHECK(results.size() == n);
    if (turn % 2) std::reverse(results.begin(), results.end());
    for (size_t i = 0; i < n; ++i) {
      if (turn > 0 && outcomes[i].status != TrialStatus::kOk) continue;
      std::vector<double> times = std::move(outcomes[i].times);
      times.insert(times.end(), results[i].times.begin(), results[i].times.end());
      costs[i].push_back(results[i].cost);
      bool verified = (turn == 0 || outcomes[i].verified) && results[i].verified;
      outcomes[i] = std::move(results[i]);
      outcomes[i].times = std::move(times);
      outcomes[i].verified = verified;
      outcomes[i].cost = Median(costs[i]);
    }
  }
  return outcomes;
}

}  // namespace autotune
