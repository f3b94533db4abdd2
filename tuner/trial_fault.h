// Whose fault a failure is. Decides what a search learns from it, and when a run stops.
#pragma once
#include "support/trial.h"

namespace autotune {

// The device or the farm failed, or the user cancelled: it says nothing about the candidate, which may be tried again.
inline bool IsFarmFault(TrialStatus status) {
  return status == TrialStatus::kInfrastructure || status == TrialStatus::kDeviceError ||
         status == TrialStatus::kCancelled;
}

// Something is broken that further candidates meet, too: the farm (but for what a user cancelled; upload failed), the
// build tool (build failed, build timed out, load failed) or the choice of the target (illegal instruction). The others
// are common candidates' own faults: a tile that spills, a wrong answer, a crash, a schedule that is too slow.
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
