// Task scheduler: decides which tasks of a network get the next trials. Trials go to the tasks in which they are
// expected to shorten the whole network most. Pure functions of the measurements.
#pragma once
#include <functional>

#include "tuner/task.h"

namespace autotune {

// The progress of the search of one task.
struct TaskProgress {
  double seconds = 0;      // best time so far; EstimatedSeconds if nothing ran
  double bound = 0;        // RooflineSeconds; 0: unknown
  int attempts = 0;        // candidates tried, including the default and those that failed
  int recent = 0;          // number of the newest attempts, to which `improvement` refers
  double improvement = 0;  // relative reduction of the best time by the recent attempts
};

// Returns the number of attempts that count as recent: the newer half, which shows the current rate of improvement.
inline int RecentAttempts(int attempts) { return attempts / 2; }

// Returns a lower bound of the operations that one run of an alternative of the task executes: task.flops, fewer for
// Winograd's algorithms, and 0 (unknown) for an alternative that skips padding.
double FewestOperations(const TuneTask& task, const TaskAlternative& alternative);

// Returns the peak for the rooflines of tasks, in operations per second; 0: unknown. `measured` is the measured peak,
// and `reached` the highest rate of a schedule. If the schedule exceeds the peak by more than 3 %, the noise of a
// measurement, the machine was slower while the peak was measured. Its true peak is then unknown, and no task is at its
// roofline.
double BelievedPeak(double measured, double reached);

// Returns the least time in which a machine with `peak_flops` operations per second can do the task's arithmetic; 0 if
// the peak is unknown, or the operations of an alternative are. The bound holds for all alternatives of the task.
double RooflineSeconds(const TuneTask& task, double peak_flops);

// Returns a guess for a task without measurements: the larger of its operations and its bytes, divided by `rate` per
// second. A rate of 0 is unknown; a constant replaces it.
double EstimatedSeconds(const TuneTask& task, double rate);

// Returns true if the best time is within 3 % of the bound, the noise of a measurement. Such a task gets no more
// rounds.
bool IsAtRoofline(const TaskProgress& progress);

// Returns the seconds by which one more trial is expected to shorten the network, after `under_way` trials that are
// planned already.
double ExpectedGain(const TaskProgress& progress, int weight, int under_way);

// ExpectedGain, or a function that replaces it for comparisons. The next trial goes to the task with the largest
// result, which must not be negative.
using GainFunction = std::function<double(const TaskProgress& progress, int weight, int under_way)>;

}  // namespace autotune
