#include "tuner/disturbances.h"

namespace autotune {
namespace {

// Share of the rounds in an unusual state from which the user is told. Measuring the candidates of such a round again
// costs as much as one more round, at most. Below a quarter, a run so loses less than a quarter of its measurements,
// and fewer than it takes to search again. From a quarter on, the usual state, the median over all rounds, also comes
// close to its limit of a half.
constexpr double kMany = 0.25;

}  // namespace

std::vector<std::string> NotesOnDisturbances(const Disturbances& seen) {
  std::vector<std::string> notes;
  if (seen.unusual_rounds > 0 && seen.unusual_rounds >= kMany * seen.rounds) {
    notes.push_back(
        "the speed of the machine changed in " + std::to_string(seen.unusual_rounds) + " of " +
        std::to_string(seen.rounds) +
        " rounds, probably by other programs; for better schedules stop them and search again with --fresh");
  }
  // An undisturbed record would rank before a disturbed one.
  if (!seen.reasons.empty()) {
    notes.push_back("every time of " + std::to_string(seen.reasons.size()) + " of " + std::to_string(seen.tasks) +
                    " tasks was disturbed (" + seen.reasons.front() +
                    "), so only comparisons in turns rank their schedules; for better ones stop other programs and "
                    "search again with --fresh");
  }
  return notes;
}

}  // namespace autotune
