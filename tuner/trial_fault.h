// Classifies failures by their cause. The class decides what a search learns from a failure, and when a run stops.
#pragma once
#include "support/trial.h"

namespace autotune {

// Returns true if the device or the farm failed, or the user cancelled. Such a failure says nothing about the
// candidate, so it may be tried again.
inline bool IsFarmFault(TrialStatus status) {
  return status == TrialStatus::kInfrastructure || status == TrialStatus::kDeviceError ||
         status == TrialStatus::kCancelled;
}

// Returns true if the failure suggests that further candidates will fail, too. The cause is then the farm (device
// error, infrastructure, upload failed), the build tool (build failed, build timed out, load failed) or the choice of
// the target (illegal instruction). All other failures are common faults of single candidates: spills, wrong answers,
// crashes, slow schedules.
inline bool IsToolFault(TrialStatus status) {
  switch (status) {
    case TrialStatus::kBuildFailed:
    case TrialStatus::kBuildTimedOut:
    case TrialStatus::kUploadFailed:
    case TrialStatus::kLoadFailed:
    case TrialStatus::kIllegalInstruction:
      return true;
    default:
      return IsFarmFault(status) && status != TrialStatus::kCancelled;
  }
}

}  // namespace autotune
