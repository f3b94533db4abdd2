// What the oracle keeps in its database: which tasks it draws, and the records of each. Not thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/drawn_tasks.h"
#include "records/store.h"
#include "tuner/recording.h"
#include "tuner/search.h"

namespace autotune::bench {

// What the tasks are drawn by; fixed once a database has records.
struct OracleSettings {
  uint64_t seed = 1;
  int tasks = 20;
  AUTOTUNE_FIELDS(seed, tasks)
};
Result<std::optional<OracleSettings>> FindSettings(RecordStore& store);
Status StoreSettings(RecordStore& store, const OracleSettings& settings);

// One schedule, with all that was measured of it.
struct Candidate {
  Record record;                 // the first one that ran, else the last one
  std::vector<double> costs;     // of trials, seconds
  std::vector<double> in_turns;  // of confirmations

  bool Ran() const { return !costs.empty() || !in_turns.empty(); }
  // The median of what was measured in turns, else of the trials; only if it ran.
  double Seconds() const;
};

// Those of one task whose failure or time is the candidate's own, fastest first, then those that did not run. Records
// of other versions of the program than `versions`, where given, are left out.
Result<std::vector<Candidate>> CandidatesOf(RecordStore& store, const TuneTask& task, const Target& target,
                                            const std::optional<RecordVersions>& versions = std::nullopt);

// All of it, for tuner/recorded_measurer.h. `skipped` becomes the number of candidates that the present rules do not
// make.
Result<Recording> MakeRecording(RecordStore& store, const OracleSettings& settings, const std::vector<DrawnTask>& tasks,
                                const Target& target, int& skipped);

}  // namespace autotune::bench
