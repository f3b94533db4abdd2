// Compile: looks up the best known schedule of every task and makes a package. It neither searches nor measures.
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
  const NetworkTask* task = nullptr;  // owned by the network
  bool tuned = false;                 // true: the schedule is from a record; false: it is a default schedule
  double seconds = 0;                 // time of one run in the record; 0 if not tuned
  std::string alternative, trace;
  std::string note;  // remark for the user, such as "tuned for 4 cores"; may be empty
};

// The sources of schedules, in order of preference: the choice for the network, the best records of each task, and
// default schedules.
struct ScheduleSources {
  RecordStore* store = nullptr;           // null: no records
  const NetworkChoice* choice = nullptr;  // null: none
};

struct CompileResult {
  Package package;
  std::vector<KernelMetadata> kernels;  // of the package's library
  std::vector<KernelChoice> choices;    // parallel to the network's tasks
  bool uses_tiles = false;              // some kernel needs AMX, for which a process asks Linux
  bool followed_choice = false;         // true: the store's choice for the whole network was tried first
  std::string note;                     // remark for the user about the choice for this network; may be empty
  double seconds = 0;                   // duration of the compilation
};

// Returns true if the choice was made with the step language and the code generator of this program. The comparisons of
// any other choice say nothing about the code that this program generates.
bool IsCurrent(const NetworkChoice& choice);

// Compiles a network. Uses the choice that the store has for this network and target (compiler/choose.h). Without a
// choice each task gets its best record; with a null `store` each task gets a default schedule. A schedule that no
// longer replays or builds is skipped, with a note. Deterministic: equal networks, targets, choices and records give
// equal library bytes. Returns an error with the cause if no schedule of a task builds.
Result<CompileResult> Compile(const Network& network, const Target& target, RecordStore* store, Builder& builder,
                              const PassContext& passes = {});
// Compiles with schedules from these sources only.
Result<CompileResult> CompileFrom(const Network& network, const Target& target, const ScheduleSources& sources,
                                  Builder& builder, const PassContext& passes = {});

// Writes a compiled network. If `path` ends in ".so", `builder` links a shared object with everything in it
// (package/module_file.h). Otherwise the file is a tar in Model Library Format. The file gets its name only when it is
// complete.
Status WriteCompiled(const Package& package, const std::string& path, Builder& builder);

}  // namespace autotune
