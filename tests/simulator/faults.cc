// What happens to the simulated farm.
#include <algorithm>
#include <cmath>

#include "tests/simulator/simulator.h"

namespace autotune {

using What = Entry::What;

void Simulator::BookFault(int party, int64_t until, const std::string& status) {
  Entry entry{.what = What::kFault, .at = now_, .status = status, .until = until};
  if (party >= ClientParty(0)) {
    entry.client = PartyOf(party).name;
  } else if (party != kTracker) {
    entry.server = PartyOf(party).name;
  }
  ledger_.Add(entry);
}

// The times between faults are exponentially distributed.
void Simulator::NextFault() {
  const double wait = -std::log(1 - rng_.Uniform()) * static_cast<double>(options_.weather.fault_every_ms);
  Post(1 + static_cast<int64_t>(wait), [this] {
    Strike(static_cast<Fault>(Any(static_cast<size_t>(Fault::kCount))));
    NextFault();
  });
}

void Simulator::Strike(Fault fault) {
  ++faults_[static_cast<size_t>(fault)];
  const int64_t pause = 1 + rng_.Below(25000);
  const int s = Any(servers_.size()), c = Any(static_cast<size_t>(options_.clients));
  switch (fault) {
    case Fault::kTrackerCrash:
      return CrashTracker();
    case Fault::kServerCrash:
      return CrashServer(s);
    case Fault::kClientCrash:
      return CrashClient(c);
    case Fault::kTrackerFreeze:
      return Freeze(kTracker, pause);
    case Fault::kServerFreeze:
      return Freeze(ServerParty(s), pause);
    case Fault::kClientFreeze:
      return Freeze(ClientParty(c), pause);
    case Fault::kSuspend:
      return Suspend(pause);
    case Fault::kCut:
      return Cut();
    case Fault::kRunnerKill:
      return Befall(s, Mishap::kRunnerKilled, 0);
    case Fault::kNoRunners:
      return Befall(s, Mishap::kNoRunners, pause);
    case Fault::kRunnerStop:
      return Befall(s, Mishap::kRunnerStopped, pause);
    case Fault::kRunnerStarve:
      return Befall(s, Mishap::kRunnersStarved, pause);
    case Fault::kDeviceFailure:
      return Befall(s, Mishap::kDeviceFails, pause);
    case Fault::kCancel:
      if (PartyOf(ClientParty(c)).up && now_ >= PartyOf(ClientParty(c)).frozen_until)
        clients_[static_cast<size_t>(c)].node->Cancel();
      return;
    case Fault::kSlowDisk:
      disk_ms_ = rng_.Below(2) * pause / 5;
      return;
    case Fault::kDrain:
      return Hold(s, rpc::hold::kDrain, pause);
    case Fault::kLock:
      return Hold(s, rpc::hold::kLock, pause);
    case Fault::kHoldEnd:
      return Hold(s, rpc::hold::kNone, 0);
    case Fault::kRevoke:
      return RevokeLeaseOf(s);
    case Fault::kCount:
      return;
  }
}

void Simulator::Befall(int s, Mishap mishap, int64_t ms) {
  const Party& party = PartyOf(ServerParty(s));
  if (!party.up || now_ < party.frozen_until) return;
  BookFault(ServerParty(s), now_ + ms);
  ServerNode& node = *servers_[static_cast<size_t>(s)].node;
  switch (mishap) {
    case Mishap::kDeviceFails:
      return node.FailDevice(ms);
    case Mishap::kRunnerStopped:
      return node.StopRunner(ms);
    case Mishap::kRunnersStarved:
      return node.StarveRunners(ms);
    case Mishap::kRunnerKilled:
      return node.KillRunner();
    case Mishap::kNoRunners:
      return node.LoseRunners(ms);
  }
}

// Sends an administrator's wish to the tracker. Returns whether it was granted.
bool Simulator::Administer(rpc::Body wish) {
  PerformTracker(
      tracker_->On({.peer = kAdmin, .roles = {rpc::Role::kAdmin}}, {NewId(), std::move(wish), {}}, Clock(kTracker)));
  return !admins_->As<rpc::Refusal>();
}

bool Simulator::TrackerRuns() { return tracker_ && now_ >= PartyOf(kTracker).frozen_until; }

// Holds the device of a server for a while, also after the server's next restarts, or ends that.
void Simulator::Hold(int s, const std::string& how, int64_t ms) {
  if (!TrackerRuns()) return;
  const std::string& name = PartyOf(ServerParty(s)).name;
  const std::string pattern = rpc::PublicId(name + ".");  // the beginning of all its ids
  // The books are told first, since leases begin and end in this call.
  ledger_.Add({.what = What::kHeld, .at = now_, .server = name, .status = how, .until = now_ + ms});
  if (!Administer(rpc::DeviceHold{pattern, how, ms, "", "admin"}))
    ledger_.Add({.what = What::kHeld, .at = now_, .server = name, .status = rpc::hold::kNone, .until = now_});
}

void Simulator::RevokeLeaseOf(int s) {
  if (!TrackerRuns() || !PartyOf(ServerParty(s)).up) return;
  const rpc::Id& lease = servers_[static_cast<size_t>(s)].node->lease();
  if (lease.empty()) return;
  ledger_.Add({.what = What::kRevoked, .at = now_, .lease = lease});
  Administer(rpc::LeaseRevoke{lease, "admin"});
}

void Simulator::CrashTracker() {
  // A key that was offered for the first time just before a crash is not in the file yet, and clients that ask for it
  // at once are refused. The farm does not promise more.
  if (!tracker_ || saving_) return;
  const int64_t pause = rng_.Below(15000);
  BookFault(kTracker, now_ + pause, "restart");
  PartyOf(kTracker).up = false;
  tracker_alarm_.reset();
  tracker_.reset();
  for (Server& server : servers_) server.tracker.number = 0;
  for (Client& client : clients_) client.tracker.number = 0;
  if (options_.weather.forget_epoch) saved_epoch_ = 0;
  Post(pause, [this] { StartTracker(); });
}

void Simulator::CrashServer(int s) {
  Party& party = PartyOf(ServerParty(s));
  if (!party.up) return;
  const int64_t pause = rng_.Below(10000);
  BookFault(ServerParty(s), now_ + pause, "restart");
  ledger_.Add({.what = What::kRestarted, .at = now_, .server = party.name});
  party.up = false;
  servers_[static_cast<size_t>(s)].node.reset();
  servers_[static_cast<size_t>(s)].tracker.number = 0;
  for (size_t c = 0; c < clients_.size(); ++c) {
    // Some clients notice the broken connection at once, others only by the silence.
    if (clients_[c].at == s && rng_.Below(2)) Disconnect(clients_[c], static_cast<int>(c));
  }
  Post(pause, [this, s] { StartServer(s); });
}

void Simulator::CrashClient(int c) {
  Party& party = PartyOf(ClientParty(c));
  Client& client = clients_[static_cast<size_t>(c)];
  if (!party.up) return;
  const int64_t pause = rng_.Below(5000);
  BookFault(ClientParty(c), now_ + pause, "restart");
  for (const std::string& candidate : client.node->Unanswered())
    ledger_.Add({.what = What::kAbandoned, .at = now_, .client = party.name, .candidate = candidate});
  ledger_.Add({.what = What::kLeft, .at = now_, .request = client.request});
  party.up = false;
  client.node.reset();
  client.tracker.number = client.server.number = client.uploads.number = 0;
  client.wants_uploads = false;
  client.at = -1;
  Post(pause, [this, c] { StartClient(c); });
}

// Cuts the network between two parties.
void Simulator::Cut() {
  const int64_t until = now_ + 1 + rng_.Below(25000);
  const auto cut = [&](Link& link) {
    if (now_ >= link.cut_until) link.cut_since = now_;
    link.cut_until = std::max(link.cut_until, until);
  };
  const int s = Any(servers_.size()), c = Any(static_cast<size_t>(options_.clients));
  Client& client = clients_[static_cast<size_t>(c)];
  switch (rng_.Below(3)) {
    case 0:
      BookFault(ServerParty(s), until);
      return cut(servers_[static_cast<size_t>(s)].tracker);
    case 1:
      BookFault(ClientParty(c), until);
      return cut(client.tracker);
    default:
      if (client.at < 0) return;
      ledger_.Add({.what = What::kFault,
                   .at = now_,
                   .server = PartyOf(ServerParty(client.at)).name,
                   .client = PartyOf(ClientParty(c)).name,
                   .until = until});
      cut(client.uploads);
      return cut(client.server);
  }
}

}  // namespace autotune
