// Paired runs: measures which of two programs is faster, and by how much. The programs alternate, so that both meet the
// same states of the machine. Each pair gives one ratio; the result is the median of the ratios with its interval. Runs
// on the calling thread; callers hold the host's lock. Does not decide whether a difference matters.
#pragma once
#include <functional>
#include <vector>

#include "support/result.h"
#include "support/statistics.h"

namespace autotune {

struct PairedOptions {
  double half_width = 0.005;    // half the width of the ratio's interval at which the measurement ends
  double max_seconds = 10;      // no pair begins later than this
  int min_pairs = 10;           // measured even beyond max_seconds; an interval needs six
  double visit_seconds = 2e-3;  // duration of one program's turn
};

struct PairedTimes {
  MedianInterval ratio;                          // second / first
  double first_seconds = 0, second_seconds = 0;  // medians of one run
  int pairs = 0;
  std::vector<double> ratios;  // one per pair
};

// Runs `first` and `second` alternately, with the order reversed every other pair. A visit is one untimed run, which
// brings the program's data back into the caches, and some timed runs; its result is their median. The first error of a
// run ends the measurement.
Result<PairedTimes> RunInPairs(const std::function<Status()>& first, const std::function<Status()>& second,
                               const PairedOptions& options = {});

}  // namespace autotune
