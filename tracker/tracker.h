// Tracker: a TrackerState on a real socket of a Loop. Belongs to its loop's thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "support/loop.h"
#include "support/result.h"

namespace autotune {

struct TrackerOptions {
  std::string endpoint;  // to listen at
  // Keeps the epoch from one start to the next; empty: this tracker lives once (a farm of one).
  std::string state_file;
};

class Tracker {
 public:
  static Result<std::unique_ptr<Tracker>> Start(Loop& loop, const TrackerOptions& options);
  ~Tracker();
  const std::string& endpoint() const;
  // See TrackerState::FailKey.
  void FailKey(const std::string& key, const std::string& why);
  // True once a device of that key is free or busy; if not, `why` is the last error that such a device reported.
  bool Offers(const std::string& key, std::string* why = nullptr) const;

  struct Impl;

 private:
  explicit Tracker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Where a tracker on that endpoint keeps its state: $XDG_STATE_HOME or ~/.local/state,
// autotune/tracker-<endpoint>.json.
std::string DefaultTrackerState(const std::string& endpoint);

}  // namespace autotune
