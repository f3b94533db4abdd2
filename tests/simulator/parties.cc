// The parties of the simulated farm: how they start, and what they send to each other.
#include <algorithm>

#include "tests/simulator/simulator.h"

namespace autotune {

using rpc::FarmEvent;
using rpc::Message;
using rpc::Peer;
using What = Entry::What;

namespace {

const std::string kServerName = "server";

// Members have addresses of TCP only.
constexpr std::string_view kTcp = "tcp://";
std::string PlaceOf(const std::string& endpoint) {
  return endpoint.starts_with(kTcp) ? endpoint.substr(kTcp.size()) : endpoint;
}

// "s3/17" -> 3
size_t NumberOfPeer(const Peer& peer) { return static_cast<size_t>(std::stoi(peer.substr(1))); }

}  // namespace

// A sender as the listener sees it. A member keeps its key over restarts.
rpc::From Simulator::Sender(int party, const Peer& peer) const {
  if (!options_.keys) return {.peer = peer, .roles = rpc::kUnauthenticated};
  const bool is_server = party > kTracker && party < ClientParty(0);
  const std::string member = "member" + std::to_string(party);
  return {.peer = peer,
          .identity = "key of " + member,
          .name = member,
          .roles = {is_server ? rpc::Role::kServer : rpc::Role::kClient}};
}

// --- Tracker ---------------------------------------------------------------------------------------------------------

void Simulator::StartTracker() {
  Party& party = PartyOf(kTracker);
  party.name = "tracker";
  party.up = true;
  ++party.incarnation;
  party.frozen_until = 0;
  party.inputs.clear();
  TrackerState::Options options;
  options.epoch = saved_epoch_ + 1;
  options.recovering = saved_epoch_ > 0;
  options.keys = saved_keys_;
  for (rpc::DeviceHold hold : saved_holds_) {
    hold.for_ms -= now_ - saved_at_;
    if (hold.for_ms > 0) options.holds.push_back(hold);
  }
  options.quantum_ms = options_.quantum_ms;
  options.new_id = [this] { return NewId(); };
  options.on_event = [this](const FarmEvent& event) { BookTrackerEvent(event); };
  options.send = [this](const Peer& to, const Message& message) { FromTracker(to, message); };
  options.save = [this] { StoreTracker(); };
  saved_epoch_ = options.epoch;  // the tracker starts only after this is on the disk
  tracker_ = std::make_unique<TrackerState>(std::move(options), Clock(kTracker));
  saved_changes_ = tracker_->changes();
  saving_ = false;
  tracker_alarm_ =
      std::make_unique<rpc::Alarm>([this] { return Clock(kTracker); },
                                   [this](int64_t delay, Action action) { Later(kTracker, delay, std::move(action)); },
                                   [this] { PerformTracker(tracker_->Wake(Clock(kTracker))); });
  tracker_alarm_->Set(tracker_->NextWake());
}

void Simulator::BookTrackerEvent(const FarmEvent& event) {
  const bool granted = event.kind == FarmEvent::Kind::kLeased;
  const bool lost = event.kind == FarmEvent::Kind::kLost;
  if (!granted && !lost && event.kind != FarmEvent::Kind::kReturned) return;
  ledger_.Add({.what = granted ? What::kGranted
                       : lost  ? What::kLost
                               : What::kReturned,
               .at = now_,
               .server = event.server.substr(0, event.server.find('.')),
               .client = event.client,
               .lease = event.lease,
               .request = event.request,
               .key = event.key,
               .why = event.why,
               .identity = event.server,
               .epoch = event.token.epoch,
               .counter = event.token.counter});
}

// Books the arrival of a request at the tracker.
void Simulator::BookRequest(int from, const Message& message) {
  const auto* wish = message.As<rpc::LeaseRequest>();
  if (!wish || !seen_requests_.insert(message.request).second) return;
  ledger_.Add({.what = What::kAsked,
               .at = now_,
               .client = PartyOf(from).name,
               .request = message.request,
               .key = wish->key,
               .picky = !wish->exclude.empty()});
}

void Simulator::ToTracker(int from, const Link& link, const Message& message) {
  // A client that withdraws waits no more, even if the tracker does not hear it.
  if (auto* withdraw = message.As<rpc::LeaseWithdraw>())
    ledger_.Add({.what = What::kLeft, .at = now_, .request = withdraw->withdrawn});
  const bool is_server = from < ClientParty(0);
  const Peer peer =
      (is_server ? "s" + std::to_string(from - ServerParty(0)) : "c" + std::to_string(from - ClientParty(0))) + "/" +
      std::to_string(link.number);
  Transmit(from, kTracker, link, message, [this, from, peer](const Message& m) {
    BookRequest(from, m);
    PerformTracker(tracker_->On(Sender(from, peer), m, Clock(kTracker)));
  });
}

// Writes the state as the real tracker does: a little later, and the disk stops it meanwhile.
void Simulator::SaveTracker() {
  constexpr int64_t kDelay = 200;
  if (tracker_->changes() == saved_changes_ || saving_) return;
  saving_ = true;
  Later(kTracker, kDelay, [this] {
    saving_ = false;
    StoreTracker();
    if (disk_ms_ > 0) Freeze(kTracker, disk_ms_);
    SaveTracker();
  });
}

void Simulator::StoreTracker() {
  saved_changes_ = tracker_->changes();
  saved_epoch_ = std::max(saved_epoch_, tracker_->epoch());
  saved_keys_ = tracker_->KeyAges(Clock(kTracker));
  saved_holds_ = tracker_->CurrentHolds(Clock(kTracker));
  saved_at_ = now_;
}

void Simulator::FromTracker(const Peer& peer, const Message& message) {
  if (peer == kAdmin) {
    admins_ = message;
    return;
  }
  const size_t number = NumberOfPeer(peer);
  const bool to_server = peer[0] == 's';
  const int party = to_server ? ServerParty(static_cast<int>(number)) : ClientParty(static_cast<int>(number));
  const Link& link = to_server ? servers_[number].tracker : clients_[number].tracker;
  if (message.As<rpc::Refusal>() && !to_server)
    ledger_.Add({.what = What::kLeft, .at = now_, .request = message.request});
  if (std::to_string(link.number) != peer.substr(peer.find('/') + 1)) return gone_.push_back(peer);
  Transmit(kTracker, party, link, message, [this, party](const Message& m) { HearTracker(party, m); });
}

void Simulator::PerformTracker(const TrackerState::Dials& dials) {
  for (const TrackerState::Dial& dial : dials) DialServer(dial);
  while (!gone_.empty()) {
    for (const Peer& peer : std::exchange(gone_, {}))
      for (const TrackerState::Dial& dial : tracker_->OnUnreachable(peer, Clock(kTracker))) DialServer(dial);
  }
  SaveTracker();
  tracker_alarm_->Set(tracker_->NextWake());
}

// Connects the tracker to a server's endpoint, as ConnectToServer does for a client. Nobody answers there if the server
// is gone. The tracker's name at the server is "t/<connection>".
void Simulator::DialServer(const TrackerState::Dial& dial) {
  const int s = std::stoi(dial.server.substr(kServerName.size()));
  Server& server = servers_[static_cast<size_t>(s)];
  server.dialled = {.cut_since = server.tracker.cut_since, .cut_until = server.tracker.cut_until};
  server.dial = dial;
  if (dial.endpoints.empty()) return;
  Later(kTracker, 2, [this, s, dial, &server] {
    const std::string place = PlaceOf(dial.endpoints[0]);
    const int64_t stated = std::stoll(place.substr(place.find('/') + 1));
    const bool is_there = stated == 0 || stated == PartyOf(ServerParty(s)).incarnation;
    if (server.dial.endpoints != dial.endpoints || server.dialled.number || !is_there) return;
    Connect(kTracker, ServerParty(s), server.dialled, [this, s, &server] {
      const Peer peer = "t/" + std::to_string(server.dialled.number);
      Transmit(kTracker, ServerParty(s), server.dialled, {"", rpc::Ping{}, {}},
               [this, peer, &server](const Message& m) { server.node->On(Sender(kTracker, peer), m); });
    });
  });
}

void Simulator::HearTracker(int party, const Message& message) {
  if (party < ClientParty(0)) {
    ServerNode& node = *servers_[static_cast<size_t>(party - ServerParty(0))].node;
    if (auto* reply = message.As<rpc::ReportReply>(); reply && node.Busy()) {
      const bool yields = std::ranges::find(reply->yield, node.lease()) != reply->yield.end();
      ledger_.Add({.what = yields ? What::kMustYield : What::kMayStay, .at = now_, .lease = node.lease()});
    }
    return node.OnTracker(message);
  }
  Client& client = clients_[static_cast<size_t>(party - ClientParty(0))];
  if (client.hoarder) return client.hoarder->OnTracker(message);
  client.node->OnTracker(message);
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void Simulator::StartServer(int s) {
  const int party = ServerParty(s);
  Server& server = servers_[static_cast<size_t>(s)];
  Party& p = PartyOf(party);
  p.name = kServerName + std::to_string(s);
  p.up = true;
  ++p.incarnation;
  p.frozen_until = 0;
  p.inputs.clear();
  rpc::ServerSession::Options options;
  // Half of the servers keep their id and their endpoint over a restart, as those with a folder and a port for it do.
  const int64_t number = s % 2 ? 0 : p.incarnation;
  options.server = p.name + "." + std::to_string(number);
  options.incarnation = std::to_string(p.incarnation);
  options.device.key = server.key;
  options.device.endpoint = (options_.keys ? std::string(kTcp) : "") + std::to_string(s) + "/" + std::to_string(number);
  if (options_.keys) options.grant_key = "grants of " + p.name + "." + std::to_string(p.incarnation);
  options.device.uploads = s % 3 != 0;
  options.device.chunk_hashes = s % 3 == 1;
  options.uploads = {.chunk_bytes = 64, .most_pulled_bytes = 512};
  options.new_run = [this] { return static_cast<int64_t>(rng_.Next() >> 1); };
  options.judge_calibration = [this, party, calibrations = 0](const std::vector<double>&) mutable {
    constexpr int kOff = 20;  // one of so many calibrations finds the device slow
    if (++calibrations % kOff != 0) return "";
    BookFault(party, now_ + ServerNode::kBrokenMs);
    return "slow";
  };
  ServerNode::World world;
  world.now = [this, party] { return Clock(party); };
  world.after = [this, party](int64_t delay, Action action) { Later(party, delay, std::move(action)); };
  world.to_peer = [this, s](const Peer& peer, const Message& message) { ToClient(s, peer, message); };
  world.to_tracker = [this, party, &server](const Message& message) { ToTracker(party, server.tracker, message); };
  world.on_start = [this, s](const ServerNode::Start& start) { OnStart(s, start); };
  world.on_end = [this, s](std::string_view status) { OnEnd(s, status); };
  world.on_probed = [this, name = p.name] { ledger_.Add({.what = What::kProbed, .at = now_, .server = name}); };
  world.on_event = [this, s](const FarmEvent& event) { BookServerEvent(s, event); };
  world.run_ms = [this] { return 1 + rng_.Below(options_.weather.longest_run_ms); };
  world.violation = [this, name = p.name](std::string_view promise, const std::string& text) {
    Violation(promise, name + ": " + text);
  };
  server.node = std::make_unique<ServerNode>(std::move(options), std::move(world));
}

void Simulator::BookServerEvent(int s, const FarmEvent& event) {
  const bool leased = event.kind == FarmEvent::Kind::kLeased;
  const bool lost = event.kind == FarmEvent::Kind::kLost;
  if (!leased && !lost && event.kind != FarmEvent::Kind::kReturned) return;
  ledger_.Add({.what = leased ? What::kServerLeased
                       : lost ? What::kServerLost
                              : What::kServerReturned,
               .at = now_,
               .server = PartyOf(ServerParty(s)).name,
               .client = event.client,
               .lease = event.lease,
               .why = event.why,
               .epoch = event.token.epoch,
               .counter = event.token.counter});
}

void Simulator::OnStart(int s, const ServerNode::Start& start) {
  if (start.message.As<rpc::RunnerCall>()) {
    const std::string call(*start.message.blobs.at(0));  // "session/number" and perhaps a letter
    const size_t slash = call.find('/');
    return ledger_.Add({.what = What::kCallStarted,
                        .at = now_,
                        .server = PartyOf(ServerParty(s)).name,
                        .lease = start.lease,
                        .request = call.substr(0, slash),
                        .counter = std::stoll(call.substr(slash + 1)),
                        .runner = start.runner,
                        .ran = start.ran});
  }
  ledger_.Add({.what = What::kStarted,
               .at = now_,
               .server = PartyOf(ServerParty(s)).name,
               .lease = start.lease,
               .candidate = start.message.As<rpc::RunnerRequest>()->candidate.id,
               .runner = start.runner,
               .ran = start.ran});
}

void Simulator::OnEnd(int s, std::string_view status) {
  if (status == "device error") BookFault(ServerParty(s), now_ + ServerNode::kBrokenMs);
  ledger_.Add(
      {.what = What::kEnded, .at = now_, .server = PartyOf(ServerParty(s)).name, .status = std::string(status)});
}

// Names of peers are "c<client>/<connection>", or "t/<connection>" of the tracker that dials.
void Simulator::ToClient(int s, const Peer& peer, const Message& message) {
  if (peer[0] == 't') {
    Server& server = servers_[static_cast<size_t>(s)];
    if (peer != "t/" + std::to_string(server.dialled.number)) return;
    return Transmit(ServerParty(s), kTracker, server.dialled, message, [this, &server](const Message& m) {
      PerformTracker(tracker_->OnDialAnswer(server.dial, m, Clock(kTracker)));
    });
  }
  const size_t c = NumberOfPeer(peer);
  Client& client = clients_[c];
  for (const Link* link : {&client.server, &client.uploads}) {
    if (std::to_string(link->number) != peer.substr(peer.find('/') + 1)) continue;
    Transmit(ServerParty(s), ClientParty(static_cast<int>(c)), *link, message, [&client](const Message& m) {
      if (client.node) client.node->OnServer(m);
    });
  }
}

// --- Clients ---------------------------------------------------------------------------------------------------------

void Simulator::StartClient(int c) {
  const int party = ClientParty(c);
  Client& client = clients_[static_cast<size_t>(c)];
  Party& p = PartyOf(party);
  p.up = true;
  ++p.incarnation;
  p.frozen_until = 0;
  p.inputs.clear();
  p.name = "client" + std::to_string(c) + "." + std::to_string(p.incarnation);
  rpc::ClientSession::Options options;
  options.client = options.client_name = p.name;
  options.key = client.key;
  options.tenant = "tenant" + std::to_string(c % 3);
  options.wait_ms = int64_t{24} * 3600 * 1000;
  options.tracker_silence_ms = 120000;
  options.max_losses = 1000;
  options.inline_bytes = 400;  // less than half of the batches have
  options.new_id = [this] { return NewId(); };
  ClientNode::World world;
  world.now = [this, party] { return Clock(party); };
  world.after = [this, party](int64_t delay, Action action) { Later(party, delay, std::move(action)); };
  world.to_tracker = [this, party, &client](const Message& message) {
    if (message.As<rpc::LeaseRequest>()) client.request = message.request;
    if (const auto* release = message.As<rpc::LeaseRelease>())
      ledger_.Add({.what = What::kGaveBack, .at = now_, .lease = release->lease});
    ToTracker(party, client.tracker, message);
  };
  world.connect = [this, c](const std::string& endpoint) { ConnectToServer(c, endpoint); };
  world.to_server = [this, c](const Message& message) { ToServer(c, message); };
  world.connect_uploads = [this, c, party] { Later(party, 2, [this, c] { ConnectUploads(c); }); };
  world.to_uploads = [this, c](const Message& message) { OverLink(c, &Client::uploads, message); };
  world.drop_server = [&client] {
    client.server.number = client.uploads.number = 0;
    client.wants_uploads = false;
    client.at = -1;
  };
  world.on_event = [this, name = p.name](const FarmEvent& event) {
    ledger_.Add({.what = What::kDropped, .at = now_, .client = name, .lease = event.lease});
  };
  world.on_result = [this, name = p.name](const rpc::TrialResult& result) {
    ledger_.Add({.what = What::kAnswered,
                 .at = now_,
                 .client = name,
                 .candidate = result.candidate,
                 .status = std::string(ToText(result.status))});
  };
  world.on_reply = [this, name = p.name](const rpc::Id& session, int64_t number, TrialStatus status) {
    ++replies_;
    ledger_.Add({.what = What::kCallReplied,
                 .at = now_,
                 .client = name,
                 .request = session,
                 .status = std::string(ToText(status)),
                 .counter = number});
  };
  world.on_device_error = [this, name = p.name](const std::string& candidate) {
    ledger_.Add({.what = What::kHeardDeviceError, .at = now_, .client = name, .candidate = candidate});
  };
  world.on_done = [this, c, party, &client] {
    ledger_.Add({.what = What::kLeft, .at = now_, .request = client.request});
    if (client.jobs_left != 0 && !closing_) Later(party, rng_.Below(5000), [this, c] { StartJob(c); });
  };
  world.violation = [this, name = p.name](std::string_view promise, const std::string& text) {
    Violation(promise, name + ": " + text);
  };
  client.node = std::make_unique<ClientNode>(std::move(options), std::move(world));
  Later(party, rng_.Below(3000), [this, c] { StartJob(c); });
}

void Simulator::StartHoarder(int c) {
  const int party = ClientParty(c);
  Client& client = clients_[static_cast<size_t>(c)];
  Party& p = PartyOf(party);
  p.up = true;
  ++p.incarnation;
  p.name = "hoarder" + std::to_string(c);
  Hoarder::World world;
  world.to_tracker = [this, party, &client](const Message& message) { ToTracker(party, client.tracker, message); };
  world.connect = [this, c](const std::string& endpoint) { ConnectToServer(c, endpoint); };
  world.to_server = [this, c](const Message& message) { ToServer(c, message); };
  world.new_id = [this] { return NewId(); };
  client.hoarder = std::make_unique<Hoarder>(p.name, client.key, std::move(world));
  Later(party, 10, [this, c] { HoardOn(c); });
}

void Simulator::HoardOn(int c) {
  clients_[static_cast<size_t>(c)].hoarder->EverySecond();
  Later(ClientParty(c), 1000, [this, c] { HoardOn(c); });
}

void Simulator::StartJob(int c) {
  Client& client = clients_[static_cast<size_t>(c)];
  if (closing_ || client.jobs_left == 0 || client.node->HasJob()) return;
  if (client.jobs_left > 0) --client.jobs_left;
  const std::string prefix = std::to_string(c) + "." + std::to_string(++client.jobs) + ".";
  if (options_.calls > 0 && rng_.Uniform() < options_.calls)
    return client.node->StartCalls(
        MakeCalls("calls" + prefix + std::to_string(PartyOf(ClientParty(c)).incarnation), rng_));
  const auto job = MakeJob(prefix,
                           {.most = options_.most_candidates,
                            .deadline_seconds = options_.weather.deadline_seconds,
                            .breaks_device = options_.weather.breaks_device},
                           rng_);
  for (const rpc::Candidate& candidate : job->candidates) {
    ledger_.Add({.what = What::kIssued, .at = now_, .client = PartyOf(ClientParty(c)).name, .candidate = candidate.id});
  }
  client.node->Start(job);
}

// An endpoint is "<server>/<incarnation>", or "<server>/0" of a server that keeps its endpoint.
void Simulator::ConnectToServer(int c, const std::string& endpoint) {
  Client& client = clients_[static_cast<size_t>(c)];
  const int64_t cut_since = client.server.cut_since, cut_until = client.server.cut_until;
  const std::string place = PlaceOf(endpoint);
  const int at = std::stoi(place);
  client.server = client.uploads = {};
  client.wants_uploads = false;
  if (client.at == at) client.server.cut_since = cut_since, client.server.cut_until = cut_until;
  if (options_.wall && c == 0 && at == 0) client.server.cut_until = kForever;
  client.at = at;
  client.at_incarnation = std::stoll(place.substr(place.find('/') + 1));
  Later(ClientParty(c), 2, [this, c, at, &client] {
    if (client.at != at || client.server.number || !Listens(client)) return;
    Connect(ClientParty(c), ServerParty(at), client.server, [&client] {
      if (client.node) client.node->OnServerConnected();
    });
  });
}

// The second connection to the client's server.
void Simulator::ConnectUploads(int c) {
  Client& client = clients_[static_cast<size_t>(c)];
  client.wants_uploads = client.at >= 0;
  if (client.at < 0 || client.uploads.number || !Listens(client)) return;
  client.uploads.cut_since = client.server.cut_since;
  client.uploads.cut_until = client.server.cut_until;
  Connect(ClientParty(c), ServerParty(client.at), client.uploads, [&client] {
    if (client.node) client.node->OnUploadsConnected();
  });
}

void Simulator::OverLink(int c, Link Client::*over, const Message& message) {
  Client& client = clients_[static_cast<size_t>(c)];
  const Link& link = client.*over;
  if (client.at < 0 || link.incarnation != PartyOf(ServerParty(client.at)).incarnation) return;
  const Peer peer = "c" + std::to_string(c) + "/" + std::to_string(link.number);
  Transmit(ClientParty(c), ServerParty(client.at), link, message,
           [from = Sender(ClientParty(c), peer), &server = servers_[static_cast<size_t>(client.at)]](const Message& m) {
             server.node->On(from, m);
           });
}

}  // namespace autotune
