// For tests of ClientSession.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "rpc/client_session.h"
#include "tests/rpc/bytes.h"
#include "tests/rpc/pass_time.h"

namespace autotune::rpc {

// A client session with all its sent messages and reports.
struct ClientWorld {
  explicit ClientWorld(ClientSession::Options options = {}) : session(WithIds(std::move(options))) {}
  static ClientSession::Options WithIds(ClientSession::Options options) {
    options.key = "cpu";
    options.new_id = [n = 0]() mutable { return "id" + std::to_string(++n); };
    return options;
  }
  static std::shared_ptr<const MeasureJob> Job(int candidates) {
    auto job = std::make_shared<MeasureJob>();
    for (int i = 0; i < candidates; ++i) {
      Candidate c;
      c.id = std::to_string(i);
      c.blob = i;
      job->candidates.push_back(c);
      job->artifacts.push_back(Bytes("artifact"));
    }
    return job;
  }
  void Take(ClientActions actions) {
    for (auto& action : actions) {
      if (auto* a = std::get_if<AskTracker>(&action)) tracker.push_back(a->message);
      if (auto* a = std::get_if<AskServer>(&action)) server.push_back(a->message);
      if (auto* a = std::get_if<AskUploads>(&action)) chunks.push_back(a->message);
      if (std::get_if<ConnectUploads>(&action)) ++upload_connections;
      if (auto* a = std::get_if<Deliver>(&action)) results.push_back(a->result);
      if (auto* a = std::get_if<JobWaits>(&action)) waits.push_back(a->wait);
      if (auto* a = std::get_if<JobDone>(&action)) {
        ++done;
        if (a->error) error = a->error->Text();
      }
    }
  }
  template <class T>
  const Message* Last(const std::vector<Message>& messages) const {
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
      if (it->template As<T>()) return &*it;
    }
    return nullptr;
  }
  template <class T>
  int Count(const std::vector<Message>& messages) const {
    return static_cast<int>(
        std::count_if(messages.begin(), messages.end(), [](auto& m) { return m.template As<T>(); }));
  }
  void Start(int candidates) { Take(session.Start(Job(candidates), now)); }
  Id LeaseRequestId() const { return Last<LeaseRequest>(tracker)->request; }
  void Grant(int64_t counter = 1, const Id& on = "s1") {
    const Encoded<DeviceInfo> device({.uploads = uploads, .chunk_hashes = chunk_hashes});
    const LeaseGranted granted{"lease" + std::to_string(counter), {1, counter}, on, device, 10000};
    HearTracker(LeaseRequestId(), granted);
  }
  void Queue(LeaseQueued queued) { HearTracker(LeaseRequestId(), std::move(queued)); }
  void Renewed(bool yield) { HearTracker(Last<LeaseRenew>(tracker)->request, LeaseRenewed{10000, yield}); }
  void Hear(const Id& request, Body body) {
    Take(session.On({.roles = {Role::kServer}}, {request, std::move(body), {}}, now));
  }
  void HearTracker(const Id& request, Body body) {
    Take(session.On({.roles = {Role::kTracker}}, {request, std::move(body), {}}, now));
  }
  void Accept() { Hear(Last<MeasureRequest>(server)->request, MeasureAccepted{1}); }
  void Pass(int64_t ms) {
    test::PassTime(session, now, ms, [this](auto actions) { Take(std::move(actions)); });
  }
  std::vector<TrialStatus> Statuses() const {
    std::vector<TrialStatus> statuses;
    for (const TrialResult& r : results) statuses.push_back(r.status);
    return statuses;
  }

  ClientSession session;
  int64_t now = 0;
  bool uploads = false, chunk_hashes = false;  // granted devices take uploads
  std::vector<Message> tracker, server, chunks;
  int upload_connections = 0;
  std::vector<TrialResult> results;
  std::vector<DeviceWait> waits;
  int done = 0;
  std::string error;
};

}  // namespace autotune::rpc
