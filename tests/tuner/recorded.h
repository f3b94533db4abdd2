// Recordings whose device is a formula: the draft score times a function of the program's features. The factor makes
// sure that the draft score alone cannot find the best candidate.
#pragma once
#include <cmath>

#include "ir/text.h"
#include "schedule/trace.h"
#include "tuner/recording.h"
#include "tuner/search.h"

namespace autotune::test {

inline double FormulaSeconds(const TaskSpace& space, const Proposal& proposal) {
  double draft = DraftSeconds(space.sketches[proposal.sketch], proposal.decisions, space.target);
  return draft * (1 + 0.5 * std::abs(std::sin(proposal.features[7] + proposal.features[20])));
}

// Records random candidates of a task. Every seventh one is rejected, and each with an infinite draft score.
inline RecordedTask RecordTaskByFormula(const TuneTask& task, const Target& target, int candidates) {
  TaskSpace space = TaskSpace::Make(task, target).value();
  RecordedTask recorded{.kind = task.label, .hash = task.hash.Hex(), .label = task.label, .flops = 1e6};
  for (const TaskAlternative& alternative : task.alternatives)
    recorded.alternatives.push_back({alternative.name, ToText(alternative.func)});
  for (const Proposal& proposal : MakeRandomSearch(space, 1)->Propose(candidates).value()) {
    double seconds = FormulaSeconds(space, proposal);
    bool fails = recorded.candidates.size() % 7 == 3 || !std::isfinite(seconds);
    recorded.candidates.push_back({.alternative = task.alternatives[space.sketches[proposal.sketch].alternative].name,
                                   .trace = ToText(proposal.trace),
                                   .status = fails ? TrialStatus::kRejected : TrialStatus::kOk,
                                   .seconds = fails ? 0 : seconds,
                                   .features = proposal.features});
  }
  return recorded;
}

inline Recording RecordFormula(const std::vector<TuneTask>& tasks, const Target& target, int candidates) {
  Recording recording{.header = {.target = target.Text(),
                                 .machine = "a formula",
                                 .seed = 3,
                                 .versions = {kIrTextVersion, kStepLanguageVersion, kFeatureVersion, 1}}};
  for (const TuneTask& task : tasks) recording.tasks.push_back(RecordTaskByFormula(task, target, candidates));
  return recording;
}

}  // namespace autotune::test
