// Confirmation: which of a task's best candidates is the fastest. A few repeats, taken at one moment, say as much about
// the moment as about the schedule, and the least of many costs belongs to whoever was lucky. So the finalists are
// measured again in turns, in which all of them meet the same states of the machine. Each challenger is compared with
// the incumbent by the ratios of neighbouring times. The incumbent stays unless a challenger is significantly faster.
#pragma once
#include <optional>
#include <vector>

#include "tuner/measurer.h"

namespace autotune {

// What the ratios of a challenger's times to the incumbent's say so far.
enum class Verdict { kOpen, kFaster, kNotFaster };

// Decides as soon as it can. From the third turn on, a challenger that was faster, or slower, by 5 % in every turn is
// judged at once: such differences are beyond the noise of a pair. From the sixth turn on, the sign test of
// support/statistics.h decides; looking at it up to twelve times, it calls one of two equally fast candidates faster in
// about 5 of 100 cases. A challenger that is faster by half a percent at the most is not worth a change.
Verdict Judge(const std::vector<double>& ratios);

struct Finalist {
  Proposal proposal;
  bool verified = false;  // its output was found right in this run: not compared again
};

struct ConfirmOptions {
  int max_turns = 12;      // what is open after that many stays with the incumbent
  MeasureOptions measure;  // how long one repeat takes
};

struct Confirmation {
  // One per finalist: `times` of all turns in the order measured; `cost` their median. A finalist that failed by its
  // own fault in one turn has that outcome.
  std::vector<Outcome> outcomes;
  std::optional<size_t> winner;  // of the finalists; none: no finalist ran
};

// The first finalist is the incumbent. If it fails, the next one that runs takes its place. Nothing is cut off.
// Errors: as Measurer::Measure.
Result<Confirmation> Confirm(Measurer& measurer, const TaskSpace& space, const std::vector<Finalist>& finalists,
                             const ConfirmOptions& options);

}  // namespace autotune
