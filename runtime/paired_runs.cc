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

// Returns the median of a member over all pairs.
double MedianOf(const std::vector<PairTime>& pairs, double PairTime::*member) {
  std::vector<double> values;
  for (const PairTime& pair : pairs) values.push_back(pair.*member);
  return Median(std::move(values));
}

}  // namespace

MedianInterval PairedTimes::Ratio() const {
  std::vector<double> ratios;
  for (const PairTime& pair : pairs) ratios.push_back(pair.Ratio());
  return MedianWithInterval(ratios);
}

double PairedTimes::FirstSeconds() const { return MedianOf(pairs, &PairTime::first); }
double PairedTimes::SecondSeconds() const { return MedianOf(pairs, &PairTime::second); }

double PairedTimes::Seconds() const {
  double sum = 0;
  for (const PairTime& pair : pairs) sum += pair.seconds;
  return sum;
}

Result<PairedTimes> RunInPairs(const std::function<Status()>& first, const std::function<Status()>& second,
                               const PairedOptions& options) {
  PairedTimes result;
  std::vector<PairTime>& pairs = result.pairs;
  const double begin = SteadySeconds();
  auto spent = [&] { return SteadySeconds() - begin >= options.max_seconds; };
  auto narrow = [&] { return result.Ratio().HalfWidth() <= options.half_width; };
  int next_look = std::max(options.min_pairs, 1);
  while (true) {
    const double pair_begin = SteadySeconds();
    double times[2];
    for (int turn : {0, 1}) {
      int which = pairs.size() % 2 ? 1 - turn : turn;
      times[which] = TRY(Visit(which == 0 ? first : second, options.visit_seconds));
    }
    pairs.push_back({times[0], times[1], SteadySeconds() - pair_begin});
    if (static_cast<int>(pairs.size()) < next_look) {
      if (static_cast<int>(pairs.size()) < options.min_pairs || !spent()) continue;
    }
    // The interval is computed again only after 25 % more pairs: sorting all ratios after every pair would take longer
    // than a short program runs.
    next_look = static_cast<int>(pairs.size() + pairs.size() / 4 + 1);
    if (narrow() || spent()) break;
  }
  return result;
}

}  // namespace autotune
