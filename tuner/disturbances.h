// What a run says at its end about other programs that disturbed its measurements.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace autotune {

struct Disturbances {
  int rounds = 0, unusual_rounds = 0;  // all rounds; those in an unusual state of the machine (tuner/machine_state.h)
  size_t tasks = 0;
  std::vector<std::string> reasons;  // Record::disturbed of the best records of tasks; only those that have one
};

// Returns a sentence for each thing worth saying: the machine's speed changed in many rounds; tasks have no undisturbed
// time.
std::vector<std::string> NotesOnDisturbances(const Disturbances& seen);

}  // namespace autotune
