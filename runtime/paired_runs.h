// Paired runs: which of two programs is faster, and by how much. They run in turns, so that both meet the same states
// of the machine; each pair gives one ratio, and the median of the ratios with its interval is the answer. Runs on the
// calling thread; callers hold the host's lock. It does not decide what a difference is worth.
#pragma once
#include <functional>

#include "support/result.h"
#include "support/statistics.h"

namespace autotune {

struct PairedOptions {
  double half_width = 0.005;    // enough pairs once the ratio's interval is at most this wide to each side
  double max_seconds = 10;      // begins no further pair after this long
  int min_pairs = 10;           // measured even beyond max_seconds; six at least give an interval
  double visit_seconds = 2e-3;  // a program runs this long before it is the other one's turn
};

struct PairedTimes {
  MedianInterval ratio;                          // second / first
  double first_seconds = 0, second_seconds = 0;  // medians of one run
  int pairs = 0;
};

// Runs `first` and `second` in turns, the order reversed every other pair. A visit is one untimed run, which brings the
// program's data back into the caches, and some timed ones, whose median counts. The first error of a run ends it.
Result<PairedTimes> RunInPairs(const std::function<Status()>& first, const std::function<Status()>& second,
                               const PairedOptions& options = {});

}  // namespace autotune
