// Confirmation: decides which of a task's best candidates is the fastest. The time of a trial depends on the state of
// the machine at that moment as much as on the schedule, so the least time of many trials is often a lucky one. The
// finalists are therefore measured again in turns; one turn measures all of them in the same state of the machine. Each
// challenger is compared with the incumbent by the ratios of their times in the same turns. The incumbent stays unless
// a challenger is significantly faster.
#pragma once
#include <optional>
#include <vector>

#include "tuner/measurer.h"

namespace autotune {

// The result of comparing a challenger with the incumbent, so far.
enum class Verdict { kOpen, kFaster, kNotFaster };

// Judges a challenger by the ratios challenger / incumbent, one per turn, as early as possible. From the third turn on,
// a difference of more than 5 % in every turn decides, since it exceeds the noise of a pair. From the sixth turn on,
// the sign test of support/statistics.h decides: kFaster if the median is significantly below 1, kNotFaster if it is
// significantly above 0.995, since a smaller gain is not worth a change. If both candidates are equally fast and the
// challenger is judged after each of twelve turns, the sign test calls it faster in less than 4 of 100 cases.
Verdict Judge(const std::vector<double>& ratios);

struct Finalist {
  Proposal proposal;
  bool verified = false;  // true: this run has already checked the output, and it was right
};

struct ConfirmOptions {
  int max_turns = 12;      // most turns; after them, the incumbent wins every open comparison
  MeasureOptions measure;  // options of trials; a turn is a single repeat of one and a half times the length
};

struct Confirmation {
  // One outcome per finalist. `times` holds the times of all turns, in the order measured; `cost` is their median; it
  // is disturbed if half of the turns or more were. A finalist that failed by its own fault in one turn, or whose turn
  // was cancelled, has the outcome of that turn.
  std::vector<Outcome> outcomes;
  std::optional<size_t> winner;  // index of a finalist; none if the incumbent has no time
};

// Runs the comparison. The first finalist is the incumbent. If it fails by its own fault, the next remaining finalist
// becomes the incumbent. No measurement is cut off. Errors: as Measurer::Measure.
Result<Confirmation> Confirm(Measurer& measurer, const TaskSpace& space, const std::vector<Finalist>& finalists,
                             const ConfirmOptions& options);

}  // namespace autotune
