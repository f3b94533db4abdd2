// NetworkChoice: the schedules that a whole network runs, as decided by its last comparison on a device
// (compiler/choose.h). Kernels are tuned alone, with cold weights; in the network they meet warm caches and each other,
// so the comparison of whole networks decides. `compile` follows the choice; a task without a valid schedule in it gets
// its best record. Plain values. A choice is stored as the state of a run whose key follows from network and target. So
// export, import and merge treat it like any other run's state, and the newest choice wins.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records/store.h"

namespace autotune {

struct ChosenSchedule {
  std::string task;         // hash, 32 hex digits
  std::string alternative;  // name of the compute alternative
  std::string func_hash;    // HashBytes128, in hex, of the text of the unscheduled PrimFunc that `trace` applies to
  std::string trace;        // text; empty: the program without a schedule
  double seconds = 0;       // cost of its record; 0: a default schedule
  AUTOTUNE_FIELDS(task, alternative, func_hash, trace, seconds)
};

// The whole network with default schedules and with the chosen ones, measured in turns.
struct NetworkComparison {
  int threads = 0;
  double default_seconds = 0, chosen_seconds = 0;   // medians of one run
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // chosen / default, with its 95 % interval
  int pairs = 0;
  AUTOTUNE_FIELDS(threads, default_seconds, chosen_seconds, ratio, ratio_low, ratio_high, pairs)
};

struct NetworkChoice {
  std::string network;  // hash of the network's structure, 32 hex digits (StructureHash in compiler/network.h)
  std::string target;   // full text
  std::vector<ChosenSchedule> schedules;  // one for each task
  std::vector<NetworkComparison> comparisons;
  RecordVersions versions;
  int64_t created_at = 0;  // Unix time in milliseconds
  AUTOTUNE_FIELDS(network, target, schedules, comparisons, versions, created_at)

  const ChosenSchedule* Find(std::string_view task) const;  // null: no schedule for this task
};

// Stores the choice in place of an earlier one for the same network and target.
Status StoreChoice(RecordStore& store, const NetworkChoice& choice);

// Returns nothing if there is no choice, or only one that cannot be read: the next choice replaces it. Errors: the
// store's.
Result<std::optional<NetworkChoice>> FindChoice(RecordStore& store, const std::string& network,
                                                const std::string& target);

}  // namespace autotune
