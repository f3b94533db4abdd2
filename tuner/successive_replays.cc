#include "tuner/successive_replays.h"

#include <algorithm>

namespace autotune {

Result<Schedule> SuccessiveReplays::Replay(const Decisions& decisions, const Trace& trace) {
  auto differs = std::mismatch(decisions.begin(), decisions.end(), before_.begin(), before_.end()).first;
  size_t shared = static_cast<size_t>(differs - decisions.begin());
  before_ = decisions;
  ReplayOptions options{.snapshots = &snapshots_};
  if (snapshots_.empty()) return autotune::Replay(*func_, trace, options);
  shared = std::min(shared, snapshots_.size() - 1);
  Snapshot from = snapshots_[shared];
  snapshots_.resize(shared);  // the replay takes this snapshot and the following ones again
  return ReplayFrom(from, trace, options);
}

}  // namespace autotune
