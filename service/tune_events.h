// Makes the events of a tuning run (events.h) from what the tuner and the final choice report. Stateless, thread-safe.
#pragma once
#include <string>
#include <vector>

#include "compiler/choose.h"
#include "compiler/network.h"
#include "service/events.h"
#include "tuner/tune.h"

namespace autotune {

// `tasks` are the tasks of the network that are tuned; `chooses`: a final choice among whole networks follows.
event::Begin BeginOf(const Network& network, const std::vector<TuneTask>& tasks, const Target& target,
                     const TuneOptions& options, bool chooses);
// Returns the number that events show; 0 if only the time budget ends the search.
inline int PlannedTrials(int trials) { return trials == kUnlimitedTrials ? 0 : trials; }

// Returns Round or, once the trials are spent, Confirmed. `current` is the task that was confirmed, or the one with the
// most candidates in the round.
event::Any ProgressOf(const TuneReport& so_far, const TaskReport& current, const TuneOptions& options);
// `chosen` is null if no choice was made; `peak_flops` is empty if the peak was not measured.
event::End EndOf(const TuneReport& report, const TuneOptions& options, const ChosenNetwork* chosen,
                 std::optional<double> peak_flops);
// Returns one sentence: how much faster the network `name` became on `machine`. Sets Saved::faster.
event::Saved SavedOf(const std::string& name, const std::string& machine, const event::End& end);

// Returns why the search ended before it had used its trials: its time was over, or its tasks cannot be improved.
// Returns an empty text if it used all trials.
std::string WhyEnded(const TuneReport& report, const TuneOptions& options);

}  // namespace autotune
