#include "runtime/paired_runs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/clock.h"

namespace autotune {
namespace {

constexpr int kMaxRunsPerVisit = 64;  // timed runs

Result<double> TimeOnce(const std::function<Status()>& run) {
  const double begin = SteadySeconds();
  TRY(run());
  return SteadySeconds() - begin;
}

// Runs a program for about `visit_seconds` and returns the median time of one run. The first run is not timed.
Result<double> Visit(const std::function<Status()>& run, double visit_seconds) {
  double warm_up = TRY(TimeOnce(run));
  int count = static_cast<int>(std::clamp(visit_seconds / std::max(warm_up, 1e-9), 1.0, double{kMaxRunsPerVisit}));
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(TRY(TimeOnce(run)));
  return Median(std::move(times));
}

}  // namespace

Result<PairedTimes> RunInPairs(const std::function<Status()>& first, const std::function<Status()>& second,
                               const PairedOptions& options) {
  std::vector<double> ratios, first_times, second_times;
  PairedTimes result;
  const double begin = SteadySeconds();
  auto spent = [&] { return SteadySeconds() - begin >= options.max_seconds; };
  auto narrow = [&] {
    result.ratio = MedianWithInterval(ratios);
    return result.ratio.HalfWidth() <= options.half_width;
  };
  int next_look = std::max(options.min_pairs, 1);
  while (true) {
    double times[2];
    for (int turn : {0, 1}) {
      int which = ratios.size() % 2 ? 1 - turn : turn;
      times[which] = TRY(Visit(which == 0 ? first : second, options.visit_seconds));
    }
    first_times.push_back(times[0]);
    second_times.push_back(times[1]);
    ratios.push_back(times[1] / times[0]);
    if (static_cast<int>(ratios.size()) < next_look) {
      if (static_cast<int>(ratios.size()) < options.min_pairs || !spent()) continue;
    }
    // The interval is computed again only after 25 % more pairs: sorting all ratios after every pair would take longer
    // than a short program runs.
    next_look = static_cast<int>(ratios.size() + ratios.size() / 4 + 1);
    if (narrow() || spent()) break;
  }
  result.first_seconds = Median(std::move(first_times));
  result.second_seconds = Median(std::move(second_times));
  result.pairs = static_cast<int>(ratios.size());
  result.ratios = std::move(ratios);
  return result;
}

}  // namespace autotune
