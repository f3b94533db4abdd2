// The oracle's database: the seed of its tasks, and the records of each task. Not thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/drawn_tasks.h"
#include "records/store.h"
#include "tuner/recording.h"
#include "tuner/search.h"

namespace autotune::bench {

// The parameters of the draw of tasks. They are fixed once a database has records.
struct OracleSettings {
  uint64_t seed = 1;
  int tasks = 20;
  AUTOTUNE_FIELDS(seed, tasks)
};
Result<std::optional<OracleSettings>> FindSettings(RecordStore& store);
Status StoreSettings(RecordStore& store, const OracleSettings& settings);

// One schedule with all of its measurements.
struct Candidate {
  Record record;                 // the first one that ran, else the last one
  std::vector<double> costs;     // seconds per call in trials
  std::vector<double> in_turns;  // seconds per call in confirmations

  bool Ran() const { return !costs.empty() || !in_turns.empty(); }
  // Returns the median of the measurements in turns if there are any, else of the trials. The candidate must have run.
  double Seconds() const;
};

// Returns the candidates of one task, fastest first, then those that did not run. Leaves out failures of the farm and,
// if `versions` is given, records of other versions of the program.
Result<std::vector<Candidate>> CandidatesOf(RecordStore& store, const TuneTask& task, const Target& target,
                                            const std::optional<RecordVersions>& versions = std::nullopt);

// Returns all candidates as a recording, for tuner/recorded_measurer.h. Sets `skipped` to the number of candidates that
// were left out because the present rules do not make them.
Result<Recording> MakeRecording(RecordStore& store, const OracleSettings& settings, const std::vector<DrawnTask>& tasks,
                                const Target& target, int& skipped);

}  // namespace autotune::bench
