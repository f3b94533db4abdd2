#include "support/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/check.h"

namespace autotune {
namespace {

constexpr double kTail = 0.025;  // probability beyond each bound of a 95 % interval

// Returns the greatest k with P(X < k) <= kTail, where X is binomial with n draws and p = 1/2.
int TailRank(int n) {
  double log_probability = -n * std::log(2.0);  // of exactly `k` successes
  double below = 0;
  for (int k = 0; k < n; ++k) {
    below += std::exp(log_probability);
    if (below > kTail) return k;
    log_probability += std::log(static_cast<double>(n - k) / (k + 1));
  }
  return n;
}

}  // namespace

double Median(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

MedianInterval MedianWithInterval(std::vector<double> values) {
  MedianInterval interval;
  interval.median = Median(values);
  std::sort(values.begin(), values.end());
  const int n = static_cast<int>(values.size()), rank = TailRank(n);
  const double infinity = std::numeric_limits<double>::infinity();
  interval.low = rank > 0 ? values[rank - 1] : -infinity;
  interval.high = rank > 0 ? values[n - rank] : infinity;
  return interval;
}

}  // namespace autotune
