// Simulation: runs the tune loop against a recorded device (tuner/recorded_measurer.h). It shows how near searches come
// to the best known time of each task. It takes seconds on any machine, no matter which machine was recorded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tuner/recorded_measurer.h"
#include "tuner/tune.h"

namespace autotune {

struct SearchVariant {
  std::string name, description;
  bool worsened = false;  // true: worse on purpose, so that a valid comparison ranks it last
  SearchKind kind = SearchKind::kEvolution;
  SearchFactory make_search;  // null: the search of `kind`
};

// Returns all variants. "evolution" is the tune loop's own search; "draft" is this search without a cost model.
// "random" (uniform draws) and "inverted" (the draws with the worst draft scores) are worsened.
const std::vector<SearchVariant>& SearchVariants();

struct SimulationOptions {
  std::vector<int> trials = {16, 32, 64};  // numbers of trials to report at, ascending; the last is a run's budget
  int seeds = 20;                          // runs per task and variant, with the seeds 0, 1, 2 ...
  double noise = 0;                        // as in RecordedMeasurerOptions
  int threads = 0;                         // runs at a time; 0: one per CPU
};

// One search of one task.
struct SimulatedRun {
  int variant = 0, task = 0;
  uint64_t seed = 0;
  // (best known time) / (true time of the best schedule so far), after each of SimulationOptions::trials; 0 if no
  // candidate ran.
  std::vector<double> reached;
};

// Runs every variant with every task and seed, and returns the runs in this order. Deterministic.
Result<std::vector<SimulatedRun>> Simulate(std::shared_ptr<const RecordedDevice> device,
                                           const std::vector<SearchVariant>& variants,
                                           const SimulationOptions& options);

// Returns the geometric mean of the runs' reached[at]; 0 if there are no runs, or if reached[at] is 0 in one of them.
double MeanReached(const std::vector<const SimulatedRun*>& runs, size_t at);

// Returns true if all worsened variants rank below all others at the last of the trials.
bool WorsenedRankLast(const std::vector<SearchVariant>& variants, const std::vector<SimulatedRun>& runs);

}  // namespace autotune
