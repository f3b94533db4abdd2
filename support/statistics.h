// Statistics of timings. Two programs are compared by paired measurements: they run in turns, so that both meet the
// same states of the machine, and the ratios of neighbouring times are what is averaged. Timings have heavy tails
// (interrupts, neighbours), so everything here rests on order statistics, which assume no distribution. Stateless.
#pragma once
#include <vector>

namespace autotune {

// The middle of the values; the mean of the two middle ones if their number is even. `values` must not be empty.
double Median(std::vector<double> values);

// A median and the bounds between which the true one lies with a probability of at least 95 %.
struct MedianInterval {
  double low = 0, median = 0, high = 0;

  double HalfWidth() const { return (high - low) / 2; }
};

// The interval between two order statistics of a binomial distribution with p = 1/2 (the sign test, inverted). Fewer
// than six values cannot bound a median at 95 %: the bounds are then infinite. `values` must not be empty.
MedianInterval MedianWithInterval(std::vector<double> values);

}  // namespace autotune
