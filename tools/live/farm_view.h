// FarmView makes what a tracker's page and its metrics show from the tracker's snapshots. It remembers the states of
// the last hour, and counts the trials of servers that come and go. Not thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "support/json.h"
#include "tools/live/curve.h"
#include "tracker/snapshot.h"

namespace autotune::tools {

// The states of a device in the last hour, as one letter for each half minute of the clock: the state of most of that
// time, but `x` (trouble) if there was any. The letter of the half minute that began at time t is at index
// t / 30 s mod 120, so that nothing moves as time passes.
class HourStrip {
 public:
  static constexpr int64_t kSlotMs = 30000;
  static constexpr size_t kSlots = 120;
  // The letters: unknown, free, busy, held by an administrator, starting, in trouble.
  static constexpr std::string_view kLetters = ".fbhsx";

  // `now`: ms since 1970, not before that of the call before.
  void Add(char letter, int64_t now);
  const std::string& text() const { return text_; }

 private:
  std::string text_ = std::string(kSlots, kLetters[0]);
  int64_t slot_ = -1;
  std::array<int64_t, kLetters.size()> samples_{};  // of the present slot, by letter
};

class FarmView {
 public:
  explicit FarmView(std::string version) : version_(std::move(version)) {}

  // Returns the state that the page shows. Its times are ms since 1970, so that it stays the same while nothing
  // happens, but for `now`.
  Json Take(const FarmSnapshot& snapshot);
  std::string Metrics() const;  // as of the latest snapshot

 private:
  struct Device {
    HourStrip strip;
    std::map<std::string, int64_t> trials;  // as its server has reported them
    std::string key;
    int64_t last = 0;   // when it was in a snapshot
    int64_t since = 0;  // begin of its lease
    std::string lease;
    int64_t seen = 0;  // last report, if it is unreachable
  };
  Json DeviceState(const rpc::DeviceStatus& status, Device& device) const;
  void Count(const rpc::DeviceStatus& status, Device& device);
  Json QueueState();
  Json JobStates();

  const std::string version_;
  FarmSnapshot latest_;
  struct Job {
    Curve curve;
    int64_t began = 0, heard = 0;
  };
  std::map<std::string, Job> jobs_;                                // by run
  std::map<std::string, Device> devices_;                          // by public id of the server
  std::map<std::string, int64_t> queue_since_;                     // by row of the queue
  std::map<std::pair<std::string, std::string>, int64_t> trials_;  // by key and status
  int64_t started_ = 0;
};

}  // namespace autotune::tools
