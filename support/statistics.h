// Statistics of timings. Two programs are compared by paired measurements: they alternate, so that both meet the same
// states of the machine, and the ratios of neighbouring times are the samples. Timings have heavy tails (interrupts,
// neighbours), so all estimates here are order statistics, which assume no distribution. Stateless.
#pragma once
#include <vector>

namespace autotune {

// Returns the middle value, or the mean of the two middle ones if their number is even. `values` must not be empty.
double Median(std::vector<double> values);

// A median with a confidence interval of at least 95 %.
struct MedianInterval {
  double low = 0, median = 0, high = 0;

  double HalfWidth() const { return (high - low) / 2; }
};

// Returns the median and the interval between two order statistics, whose ranks follow from a binomial distribution
// with p = 1/2 (the inverted sign test). Fewer than six values cannot bound a median at 95 %; the bounds are then
// infinite. `values` must not be empty.
MedianInterval MedianWithInterval(std::vector<double> values);

// Returns Spearman's rank correlation of two lists of equal length, where ties share the mean of their ranks; 0 if all
// values of one list are equal.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace autotune
