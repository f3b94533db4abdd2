// Tracker: a TrackerState on a real socket of a Loop. May be used only on the thread of its loop.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/farm_event.h"
#include "support/loop.h"
#include "support/result.h"
#include "tracker/power_cycle.h"
#include "tracker/snapshot.h"

namespace autotune {

struct TrackerOptions {
  std::vector<std::string> endpoints;  // to listen at: ipc sockets, and TCP for members (tracker/members.h)
  // Addresses of the tracker in join files, if it listens at TCP; empty: those at which it listens.
  std::vector<std::string> advertise;
  // Folder that keeps the epoch, the keys, the holds and the members from one start to the next. Empty: this tracker is
  // never restarted (LocalFarm).
  std::string state_folder;
  rpc::OnFarmEvent on_event = {};
  std::function<void(const std::string& line)> on_note = {};  // gets lines for the log about members
  // Returns the bytes of memory that other parts of this process take. The tracker counts all others as its own.
  std::function<int64_t()> other_bytes = [] { return 0; };
  std::function<void()> on_message = {};  // called after each message; it may have changed the answer of Offers
};

class Tracker {
 public:
  static Result<std::unique_ptr<Tracker>> Start(Loop& loop, const TrackerOptions& options);
  ~Tracker();
  const std::vector<std::string>& endpoints() const;
  // See TrackerState::FailKey.
  void FailKey(const std::string& key, const std::string& why);
  // Returns true if a device of that key is free or busy. If not, sets `why` to the last error that such a device
  // reported.
  bool Offers(const std::string& key, std::string* why = nullptr) const;
  std::vector<ServerSilence> Silences() const;  // see TrackerState
  FarmSnapshot Snapshot() const;
  // Answers a message of rpc/administration.h as if the administrator of this name had sent it.
  rpc::Body Administer(rpc::Body question, const std::string& who);

  struct Impl;

 private:
  explicit Tracker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace autotune
