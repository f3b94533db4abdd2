#include "tuner/machine_state.h"

#include <cmath>

#include "support/statistics.h"

namespace autotune {

void MachineState::Add(double reference_seconds) {
  if (reference_seconds <= 0) return;
  references_.push_back(reference_seconds);
  usual_ = Median(references_);
}

bool MachineState::IsUsual(double reference_seconds) const {
  if (reference_seconds <= 0 || usual_ <= 0) return true;
  double ratio = reference_seconds / usual_;
  return ratio <= 1 + kThreshold && ratio >= 1 / (1 + kThreshold);
}

double MachineState::Comparable(double seconds, double reference_seconds) const {
  return IsUsual(reference_seconds) ? seconds : seconds * usual_ / reference_seconds;
}

std::string MachineState::Name(double reference_seconds) const {
  if (IsUsual(reference_seconds)) return "usual";
  double ratio = reference_seconds / usual_;
  if (ratio > 1) return std::to_string(std::lround(100 * (ratio - 1))) + " % slower";
  return std::to_string(std::lround(100 * (1 / ratio - 1))) + " % faster";
}

}  // namespace autotune
