// Paired runs: measures which of two programs is faster, and by how much. The programs alternate, so that both meet the
// same states of the machine. Each pair gives the ratio of their times; the result is the median of the ratios with its
// confidence interval. Runs on the calling thread. The caller must hold the host's lock (support/host_lock.h), and
// decides whether the difference matters.
#pragma once
#include <functional>
#include <vector>

#include "support/result.h"
#include "support/statistics.h"

namespace autotune {

struct PairedOptions {
  double half_width = 0.005;    // half the width of the ratio's interval at which the measurement ends
  double max_seconds = 10;      // time after which no further pair begins, once there are min_pairs
  int min_pairs = 10;           // least number of pairs; an interval needs six
  double visit_seconds = 2e-3;  // duration of one program's turn (a visit)
};

// One visit of each program.
struct PairTime {
  double first = 0, second = 0;  // seconds of one run
  double seconds = 0;            // duration of both visits
  double Ratio() const { return second / first; }
};

struct PairedTimes {
  std::vector<PairTime> pairs;

  MedianInterval Ratio() const;                        // second / first
  double FirstSeconds() const, SecondSeconds() const;  // medians of one run
  double Seconds() const;                              // duration of all pairs
};

// Runs `first` and `second` alternately, with the order reversed every other pair. A visit is one untimed run, which
// brings the program's data back into the caches, and some timed runs; its result is their median. The first error of a
// run ends the measurement.
Result<PairedTimes> RunInPairs(const std::function<Status()>& first, const std::function<Status()>& second,
                               const PairedOptions& options = {});

}  // namespace autotune
