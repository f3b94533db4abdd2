// Compile: looks the best known schedule of every task up and makes a package. No search, no measurement.
#pragma once
#include <string>
#include <vector>

#include "compiler/network.h"
#include "package/package.h"
#include "records/choice.h"
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

// Where schedules come from: the choice for the network first, then each task's best records, then default schedules.
struct ScheduleSources {
  RecordStore* store = nullptr;           // null: no records
  const NetworkChoice* choice = nullptr;  // null: none
};

struct CompileResult {
  Package package;
  std::vector<KernelChoice> choices;  // parallel to the network's tasks
  bool followed_choice = false;       // the schedules are those that a tuning run chose for the whole network
  std::string note;                   // what a user should know of the choice for this network; may be empty
  double seconds = 0;
};

// True if the choice's comparisons hold for what this program compiles: of its step language and code generator.
bool IsCurrent(const NetworkChoice& choice);

// Deterministic: the same network, target, choice and records give the same library bytes. `store` may be null: default
// schedules. Follows the choice that the store has for this network and target (compiler/choose.h); without one, each
// task gets its best record. A schedule that no longer replays or builds is passed over, with a note. Errors: a task
// for which nothing builds, with the cause.
Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder);
// The same with schedules from these sources only.
Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  Builder& builder);

}  // namespace autotune
