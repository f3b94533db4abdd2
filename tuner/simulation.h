// Simulation: the tune loop against a recorded device (tuner/recorded_measurer.h). It tells how near searches come to
// the best known time of each task, in seconds of this machine, whatever machine was recorded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tuner/recorded_measurer.h"
#include "tuner/tune.h"

namespace autotune {

struct SearchVariant {
  std::string name, description;
  bool worsened = false;  // made worse on purpose: a comparison that does not rank it last cannot be believed
  SearchKind kind = SearchKind::kEvolution;
  SearchFactory make_search;  // null: kind's own
};

// "evolution" is the tune loop's own search; "draft" the same without a cost model; "random" and "inverted" are
// worsened: uniform draws, and those with the worst draft scores.
const std::vector<SearchVariant>& SearchVariants();

struct SimulationOptions {
  std::vector<int> trials = {16, 32, 64};  // where the curves are read, ascending; the last one is the budget of a run
  int seeds = 20;                          // of each task and variant: 0 to this
  double noise = 0;                        // RecordedMeasurerOptions
  int threads = 0;                         // runs at a time; 0: one per CPU
};

// One search of one task.
struct SimulatedRun {
  int variant = 0, task = 0;
  uint64_t seed = 0;
  // Of each of SimulationOptions::trials: the best known time over the true time of the schedule that was best by then;
  // 0 if none ran.
  std::vector<double> reached;
};

// Every variant with every task and seed, in this order. Deterministic.
Result<std::vector<SimulatedRun>> Simulate(std::shared_ptr<const RecordedDevice> device,
                                           const std::vector<SearchVariant>& variants,
                                           const SimulationOptions& options);

// The geometric mean of the runs' reached[at]; 0 if there is none, or one in which nothing ran.
double MeanReached(const std::vector<const SimulatedRun*>& runs, size_t at);

// Do all worsened variants rank below all others at the last of the trials?
bool WorsenedRankLast(const std::vector<SearchVariant>& variants, const std::vector<SimulatedRun>& runs);

}  // namespace autotune
