// For tests of TrackerState.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/rpc/pass_time.h"
#include "tracker/tracker_state.h"

namespace autotune {

// A tracker whose peers are names, and the last message to each of them.
struct TrackerWorld {
  explicit TrackerWorld(TrackerState::Options options = {}) : tracker(WithCalls(std::move(options)), 0) {}
  TrackerWorld(const TrackerWorld&) = delete;
  TrackerState::Options WithCalls(TrackerState::Options options) {
    options.new_id = [n = 0]() mutable { return "id" + std::to_string(++n) + "-of-a-lease"; };
    options.send = [this](const rpc::Peer& peer, const rpc::Message& message) {
      if (on_message) on_message(peer, message);
      if (!message.As<rpc::Ping>()) last[peer] = message;
    };
    options.save = [this] { ++saves; };
    return options;
  }
  static rpc::From As(const std::string& peer) { return {.peer = peer, .roles = rpc::kUnauthenticated}; }
  void Take(const TrackerState::Dials& dials) {
    for (const TrackerState::Dial& dial : dials) {
      const std::string endpoint = dial.endpoints.empty() ? "" : dial.endpoints.front();
      dialed[dial.server] = endpoint;
      if (on_dial && !endpoint.empty()) on_dial();
      if (answers_dials && !endpoint.empty()) Answer(dial.server, rpc::PublicId(dial.server));
    }
  }
  // Answers a dial as the server with this public id.
  void Answer(const std::string& server, const std::string& public_id, int minor = rpc::kWireMinor) {
    rpc::Message pong{"", rpc::Pong{"", public_id}, {}};
    pong.minor = minor;
    Take(tracker.OnDialAnswer({server, {dialed[server]}, ""}, pong, now));
  }
  template <class T>
  const T* Last(const std::string& peer) {
    return last.count(peer) ? last[peer].As<T>() : nullptr;
  }
  void Report(const std::string& name, const std::string& key, std::vector<rpc::HeldLease> leases = {},
              const std::string& incarnation = "1", rpc::Token highest = {}) {
    rpc::ServerReport report;
    report.server = name;
    report.incarnation = incarnation;
    report.device.key = key;
    report.device.endpoint = "ipc:///" + name;
    report.ready = true;
    report.leases = std::move(leases);
    report.highest = highest;
    last.erase(name);
    Take(tracker.On(As(name), {"", report, {}}, now));
  }
  void Ask(const std::string& client, const std::string& key, const std::string& request, int64_t wait_ms = 600000,
           std::vector<std::string> exclude = {}) {
    rpc::LeaseRequest wish{client, client, key, exclude, "", "", wait_ms};
    last.erase(client);
    Take(tracker.On(As(client), {request, wish, {}}, now));
  }
  void Say(const std::string& peer, rpc::Body body) {
    last.erase(peer);
    Take(tracker.On(As(peer), {"r", std::move(body), {}}, now));
  }
  void Pass(int64_t ms, std::vector<std::string> alive = {}) {
    for (int64_t end = now + ms; now < end;) {
      test::PassTime(tracker, now, 100, [this](const auto& dials) { Take(dials); });
      for (const std::string& name : alive) Report(name, "cpu");
    }
  }
  std::string RefusalOf(const std::string& peer) {
    auto* refusal = Last<rpc::Refusal>(peer);
    return refusal ? refusal->code + ": " + refusal->text : "";
  }

  std::map<std::string, rpc::Message> last;
  std::function<void(const rpc::Peer& peer, const rpc::Message& message)> on_message;  // before the input is over
  int saves = 0;
  TrackerState tracker;
  int64_t now = 0;
  std::function<void()> on_dial;
  bool answers_dials = true;                  // servers answer at their addresses
  std::map<std::string, std::string> dialed;  // by server: the address that the tracker tries; empty: none
};

}  // namespace autotune
