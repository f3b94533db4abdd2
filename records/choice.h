// NetworkChoice: the schedules that a whole network runs. A comparison of whole networks on a device
// (compiler/choose.h) decides them: kernels are tuned one at a time with cold weights, but in a network they find warm
// caches and affect each other. `compile` follows the choice. A task for which the choice has no valid schedule gets
// its best record. A choice is stored as the state of a run whose key is derived from network and target. So export,
// import and merge treat a choice like the state of any other run, and the newest choice wins. Plain values.
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
  double seconds = 0;       // cost of the schedule's record; 0 for a default schedule
  AUTOTUNE_FIELDS(task, alternative, func_hash, trace, seconds)
};

// One comparison: the whole network with default schedules and with the chosen schedules, measured alternately.
struct NetworkComparison {
  int threads = 0;                                  // 0: a GPU
  double default_seconds = 0, chosen_seconds = 0;   // median time of one run of the network
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // chosen / default, with its 95 % interval
  int pairs = 0;
  AUTOTUNE_FIELDS(threads, default_seconds, chosen_seconds, ratio, ratio_low, ratio_high, pairs)
};

// The device on which networks were compared.
struct MeasuredOn {
  std::string device;  // key of a device of a farm; empty: the host that stored the choice
  std::string server;  // PublicId of its server
  std::string boot;    // id of the boot of its host: times of different boots need not agree; empty: not known
  AUTOTUNE_FIELDS(device, server, boot)
};

struct NetworkChoice {
  std::string model;    // name, for people; empty in choices of older versions
  std::string network;  // hash of the network's structure, 32 hex digits (StructureHash in compiler/network.h)
  std::string target;   // full text
  std::vector<ChosenSchedule> schedules;  // one for each task
  std::vector<NetworkComparison> comparisons;
  MeasuredOn measured_on;  // empty in choices of older versions
  std::string compared;    // hash of all schedules that were compared; empty in choices of older versions
  RecordVersions versions;
  int64_t created_at = 0;  // Unix time in milliseconds
  AUTOTUNE_FIELDS(model, network, target, schedules, comparisons, measured_on, compared, versions, created_at)

  const ChosenSchedule* Find(std::string_view task) const;  // null: no schedule for this task
};

// Stores the choice in place of an earlier one for the same network and target.
Status StoreChoice(RecordStore& store, const NetworkChoice& choice);

// Returns the stored choice, or nothing if there is none. A choice that cannot be read is logged and counts as none,
// since the next choice replaces it. Fails only if the store fails.
Result<std::optional<NetworkChoice>> FindChoice(RecordStore& store, const std::string& network,
                                                const std::string& target);

// Returns all stored choices that can be read, sorted by model, target and network.
Result<std::vector<NetworkChoice>> ListChoices(RecordStore& store);

// Deletes the choice for this network and target. `compile` then follows the best records. Returns whether there was
// one. A copy of it in another database comes back if that is merged or imported.
Result<bool> RemoveChoice(RecordStore& store, const std::string& network, const std::string& target);

}  // namespace autotune
