// The poison list: candidates that broke two devices. No device gets them again, in no run that has the database. An
// entry is the hash of the candidate's artifact, in the facts of the record of its device error. Stateless.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "records/store.h"
#include "tuner/task.h"

namespace autotune {

inline constexpr char kPoisonFact[] = "poison";

// Returns the name of an artifact in the list.
std::string PoisonName(std::string_view artifact);
// Returns the names of the artifacts of these tasks that are in the list.
Result<std::set<std::string>> PoisonOf(RecordStore& store, const std::vector<TuneTask>& tasks);

}  // namespace autotune
