#include "tuner/machine_state.h"

#include <cmath>

#include "support/statistics.h"

namespace autotune {

void MachineState::Add(const ReferenceTime& reference) {
  if (reference.seconds <= 0) return;
  Device& device = devices_[reference.device];
  device.references.push_back(reference.seconds);
  device.usual = Median(device.references);
}

double MachineState::Usual(const std::string& device) const {
  const auto found = devices_.find(device);
  return found == devices_.end() ? 0 : found->second.usual;
}

bool MachineState::IsUsual(const ReferenceTime& reference) const {
  if (reference.seconds <= 0) return true;
  const double usual = Usual(reference.device);
  if (usual <= 0) return true;
  double ratio = reference.seconds / usual;
  return ratio <= 1 + kThreshold && ratio >= 1 / (1 + kThreshold);
}

double MachineState::Comparable(double seconds, const ReferenceTime& reference) const {
  return IsUsual(reference) ? seconds : seconds * Usual(reference.device) / reference.seconds;
}

std::string MachineState::Name(const ReferenceTime& reference) const {
  if (IsUsual(reference)) return "usual";
  double ratio = reference.seconds / Usual(reference.device);
  if (ratio > 1) return std::to_string(std::lround(100 * (ratio - 1))) + " % slower";
  return std::to_string(std::lround(100 * (1 / ratio - 1))) + " % faster";
}

}  // namespace autotune
