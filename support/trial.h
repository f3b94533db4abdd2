// TrialStatus: the closed list of the outcomes of a candidate. Workers, wire, records and summaries share it;
// the texts are stored in databases and sent over the wire, so they never change.
#pragma once
#include "support/fields.h"

namespace autotune {

enum class TrialStatus {
  kOk,
  kRejected,  // broke a contract that the builder checks: spills, register scope, size
  kBuildFailed,
  kBuildTimedOut,
  kUploadFailed,
  kLoadFailed,
  kIllegalInstruction,
  kRunCrashed,
  kRunTimedOut,
  kOutOfMemory,
  kWrongAnswer,
  kCancelled,
  kDeviceError,     // a fault of the device, never counted against the candidate
  kInfrastructure,  // lease, network or server lost; the candidate runs elsewhere, and this try does not count
  // Slower than the cutoff, so its measurement ended early; its cost is the time of the fastest burst. Never sent over
  // the wire.
  kCutOff,
};
AUTOTUNE_ENUM(TrialStatus, "ok", "rejected", "build failed", "build timed out", "upload failed", "load failed",
              "illegal instruction", "run crashed", "run timed out", "out of memory", "wrong answer", "cancelled",
              "device error", "infrastructure", "cut off")

}  // namespace autotune
