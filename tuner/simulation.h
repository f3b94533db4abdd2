// Simulation: runs the tune loop against a recorded device (tuner/recorded_measurer.h). It shows how near searches come
// to the best known time of each task, and schedulers to that of a whole network. It takes seconds on any machine, no
// matter which machine was recorded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tuner/recorded_measurer.h"
#include "tuner/tune.h"

namespace autotune {

// The tune loop, or a variant of it to compare it with.
struct TuneVariant {
  std::string name, description;
  bool worsened = false;  // true: worse on purpose, so that a valid comparison ranks it last
  SearchKind kind = SearchKind::kEvolution;
  SearchFactory make_search;  // null: the search of `kind`
  GainFunction gain;          // null: the tune loop's own
};

// Returns variants of the search. "evolution" is the tune loop's own search; "draft" is this search without a cost
// model. "random" (uniform draws) and "inverted" (the draws with the worst draft scores) are worsened.
const std::vector<TuneVariant>& SearchVariants();

// Returns variants of the task scheduler. "gain" is the tune loop's own. The peak of the recorded machine is unknown,
// so no task has a roofline. "turns" gives all tasks equally many trials. "least" (the least expected gain first) is
// worsened.
const std::vector<TuneVariant>& SchedulerVariants();

// A network of recorded tasks.
struct SimulatedNetwork {
  struct Part {
    int task = 0;    // index in RecordedDevice::tasks()
    int weight = 1;  // occurrences in the network
  };
  std::string name;
  std::vector<Part> parts;  // of different tasks; at least one
};

// Returns one network for each task of `device`.
std::vector<SimulatedNetwork> NetworksOfOneTask(const RecordedDevice& device);

// Draws `count` networks. Each has a random half of the tasks of `device`. Weights are drawn log-uniformly from 1 to
// 16, since deep networks repeat some layers and not others. Deterministic.
std::vector<SimulatedNetwork> DrawNetworks(const RecordedDevice& device, int count, uint64_t seed);

struct SimulationOptions {
  // Numbers of trials per task of a network to report at, ascending. The last is a run's budget.
  std::vector<int> trials = {16, 32, 64};
  int seeds = 20;    // runs per network and variant, with the seeds 0, 1, 2 ...
  double noise = 0;  // as in RecordedMeasurerOptions
  int threads = 0;   // runs at a time; 0: one per CPU
};

// One tuning run of one network.
struct SimulatedRun {
  int variant = 0, network = 0;
  uint64_t seed = 0;
  // (best known time) / (true time of the best schedules so far) of the network, after each of
  // SimulationOptions::trials; 0 if no candidate of one of its tasks ran.
  std::vector<double> reached;
};

// Runs every variant with every network and seed, and returns the runs in this order. Deterministic.
Result<std::vector<SimulatedRun>> Simulate(std::shared_ptr<const RecordedDevice> device,
                                           const std::vector<SimulatedNetwork>& networks,
                                           const std::vector<TuneVariant>& variants, const SimulationOptions& options);

// Returns the geometric mean of the runs' reached[at]; 0 if there are no runs, or if reached[at] is 0 in one of them.
double MeanReached(const std::vector<const SimulatedRun*>& runs, size_t at);

// Returns true if all worsened variants rank below all others at the last of the trials.
bool WorsenedRankLast(const std::vector<TuneVariant>& variants, const std::vector<SimulatedRun>& runs);

}  // namespace autotune
