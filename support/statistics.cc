#include "support/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/check.h"

namespace autotune {
namespace {

// Returns the rank of each value. Ties share the mean of their ranks.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

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

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> x = Ranks(a), y = Ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace autotune
