// NetworkChoice: which schedules a whole network runs, as its last comparison on a device decided. Single kernels are
// measured alone, with cold weights; in the network they meet warm caches and each other, so the last word belongs to
// the network itself (compiler/choose.h). `compile` follows a choice, and falls back on the best record of each task.
// Plain values. Stored in a record database as the state of a run, whose key follows from network and target: so it is
// exported, imported and merged like these, and the newest one wins.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records/store.h"

namespace autotune {

// The schedule of one task.
struct ChosenSchedule {
  std::string task;         // hash, 32 hex digits
  std::string alternative;  // name of the compute alternative
  std::string func_hash;    // HashBytes128 of the unscheduled PrimFunc's text, hex: the program that `trace` fits
  std::string trace;        // text; empty: the program without a schedule
  double seconds = 0;       // of the record that it comes from; 0: the default schedule of that time
  AUTOTUNE_FIELDS(task, alternative, func_hash, trace, seconds)
};

// The whole network with default schedules against the whole network as chosen, in turns.
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

  const ChosenSchedule* Find(std::string_view task) const;  // null: the choice does not know this task
};

// Replaces the choice that the store has for this network and target.
Status StoreChoice(RecordStore& store, const NetworkChoice& choice);

// Nothing if there is none. Errors: the store's, or a choice that cannot be read.
Result<std::optional<NetworkChoice>> FindChoice(RecordStore& store, const std::string& network,
                                                const std::string& target);

}  // namespace autotune
