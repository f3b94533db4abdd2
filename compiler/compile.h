// Compile: looks the best known schedule of every task up and makes a package. No search, no measurement.
#pragma once
#include <string>
#include <vector>

#include "compiler/network.h"
#include "package/package.h"
#include "records/store.h"

namespace autotune {

// Where the schedule of a task came from.
struct KernelChoice {
  const TuneTask* task = nullptr;
  bool tuned = false;  // from a record; else the default schedule
  double seconds = 0;  // as recorded; 0 if not tuned
  std::string alternative, trace;
  std::string note;  // "tuned for 4 cores", "record of another target ignored"; may be empty
};

struct CompileResult {
  Package package;
  std::vector<KernelChoice> choices;  // parallel to the network's tasks
  double seconds = 0;
};

struct CompileOptions {
  bool use_records = true;  // false: default schedules, for comparison
};

// Deterministic: the same network, target and records give the same library bytes. `store` may be null. A record that
// no longer replays or builds is passed over, with a note. Errors: a task for which nothing builds, with the cause.
Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder,
                              const CompileOptions& options = {});

}  // namespace autotune
