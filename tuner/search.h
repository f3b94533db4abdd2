// SearchStrategy: chooses the candidates of a task to measure next. Deterministic: the same seed and the same
// observations give the same proposals. Not thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/cost_model.h"
#include "tuner/sketch.h"
#include "tuner/task.h"

namespace autotune {

// Version of the rules, the draft score, the search and the task scheduler. It is part of a run's key, so that a run
// resumes only with the search that began it.
inline constexpr int kSearchVersion = 21;

// A task with its sketches: the space that is searched.
struct TaskSpace {
  const TuneTask* task = nullptr;
  Target target;
  std::vector<Sketch> sketches;

  const PrimFunc& FuncOf(const Sketch& sketch) const { return task->alternatives[sketch.alternative].func; }
  static Result<TaskSpace> Make(const TuneTask& task, const Target& target);
};

// One point of the space, replayed: legal by the steps' own rules, ready to be built.
struct Proposal {
  int sketch = 0;
  Decisions decisions;
  Trace trace;
  Features features;
  double draft_seconds = 0;
};

// Finds the point whose replay gives this trace. Returns nothing if the space has no such point, for example because
// older rules made the trace.
std::optional<Proposal> Locate(const TaskSpace& space, std::string_view alternative, const Trace& trace);

// A point is open until it is proposed, observed or excluded.
class SearchStrategy {
 public:
  virtual ~SearchStrategy() = default;
  // Returns n distinct open points and closes them. Returns fewer, or none, when the space is exhausted. An error ends
  // the run: the search itself is broken, for example a process that makes its decisions (tuner/plugin_search.h).
  virtual Result<std::vector<Proposal>> Propose(int n) = 0;
  // Tells the search the time of a candidate. Infinity means that the candidate itself failed (rejected, crashed,
  // wrong).
  virtual void Observe(const Proposal& proposal, double seconds) = 0;
  // Closes a point without an observation. For example, it is being measured, or the farm failed to measure it.
  virtual void Exclude(const Proposal& proposal) = 0;
};

struct EvolutionOptions {
  int drafts = 2000;  // random points per batch that the draft score ranks
  int replays = 160;  // most points of the first generation replayed for the cost model; fewer for a small batch
  int generations = 2;
  int parents = 10;                               // best points whose neighbourhood is explored
  int mutants = 40;                               // mutants per parent
  double epsilon = 0.1;                           // share of proposals that are drawn at random
  double descent = 0.25, descent_stalled = 0.75;  // share of coordinate descent, before and after the search stalls
};
// Draft-then-verify evolutionary search, in two stages. The draft score ranks random draws and mutants of the best
// measured points; the model ranks the best of these again. Without a model the draft score decides alone. The stages
// follow Zhai et al., "Pruner" (2024); evolution on decisions follows Zheng et al., "Ansor" (2020). A part of each
// batch, which is larger once the search stalls, goes to coordinate descent from the best measured points, after
// Canesche et al., "The Droplet Search Algorithm for Kernel Scheduling" (2024). Every plausible algorithm and sketch is
// proposed until one of its candidates has succeeded, or several have failed. Proposals depend on the seed, the points
// observed and closed, and the state of the model, but not on the number of earlier calls of Propose.
std::unique_ptr<SearchStrategy> MakeEvolutionarySearch(const TaskSpace& space, const CostModel* model, uint64_t seed,
                                                       const EvolutionOptions& options = {});
// Proposes uniform draws from the space: the baseline for other searches.
std::unique_ptr<SearchStrategy> MakeRandomSearch(const TaskSpace& space, uint64_t seed);

}  // namespace autotune
