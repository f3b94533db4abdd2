// Task scheduler: which tasks of a network the next trials go to. It spends them where they promise to shorten the
// whole network most. Pure functions of what was measured.
#pragma once
#include "tuner/task.h"

namespace autotune {

// What the machine can do at most, per second; 0: unknown.
struct MachinePeak {
  double flops = 0;
  double bytes = 0;  // read from and written to memory
};

// Where the search of one task stands.
struct TaskProgress {
  double seconds = 0;      // best time so far, or an estimate (EstimatedSeconds) where nothing ran
  double bound = 0;        // RooflineSeconds; 0: unknown
  int attempts = 0;        // candidates tried, the default one included, whatever became of them
  int recent = 0;          // those of them that the improvement below is from
  double improvement = 0;  // share of the best time that the recent attempts took off it
};

// The newer half of the attempts shows at which rate the search still finds something.
inline int RecentAttempts(int attempts) { return attempts / 2; }

// The least time that the machine allows: its floating-point operations at peak, its parameters' bytes once. Winograd's
// algorithms need fewer operations than the task counts; where one is an alternative, so is its count. 0: unknown.
double RooflineSeconds(const TuneTask& task, const MachinePeak& peak);

// A guess for a task of which nothing ran: the same count at `rate` operations per second (0: unknown).
double EstimatedSeconds(const TuneTask& task, double rate);

// No more rounds for a task within 3 % of its bound: that is the noise of a measurement.
bool IsAtRoofline(const TaskProgress& progress);

// Seconds that one more trial is expected to take off the network, with `under_way` trials already planned.
double ExpectedGain(const TaskProgress& progress, int weight, int under_way);

}  // namespace autotune
