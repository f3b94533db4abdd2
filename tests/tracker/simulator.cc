#include "tests/tracker/simulator.h"

namespace autotune {

using rpc::Message;
using rpc::Peer;

Simulator::Simulator(uint64_t seed, Weather weather, int servers, int clients, int jobs_per_client)
    : rng_(seed), weather_(weather) {
  StartTracker();
  servers_.resize(static_cast<size_t>(servers));
  for (int s = 0; s < servers; ++s) StartServer(s);
  clients_.resize(static_cast<size_t>(clients));
  for (int c = 0; c < clients; ++c) StartClient(c, jobs_per_client);
  Post(1000, [this] { Misfortunes(); });
}

void Simulator::Post(int64_t delay, std::function<void()> f) {
  events_.push({now + delay, ++event_number_, std::move(f)});
}

void Simulator::Transmit(std::function<void()> f) {
  if (rng_.Uniform() < weather_.loss) return;
  if (rng_.Uniform() < weather_.repeat) Post(1 + rng_.Below(20 * weather_.max_delay_ms), f);
  Post(1 + rng_.Below(weather_.max_delay_ms), std::move(f));
}

void Simulator::Run(int64_t max_ms) {
  while (now < max_ms && !AllDone()) {
    Event event = events_.top();
    events_.pop();
    now = event.at;
    event.f();
  }
}

bool Simulator::AllDone() const {
  for (const Client& client : clients_) {
    if (client.jobs_left > 0 || client.node->HasJob()) return false;
  }
  return true;
}

int Simulator::Busy() const {
  int busy = 0;
  if (tracker_) {
    for (const auto& device : tracker_->Status("", now).devices) busy += device.state == "busy";
  }
  return busy;
}

// --- Tracker ---------------------------------------------------------------------------------------------------------

void Simulator::StartTracker() {
  TrackerState::Options options;
  options.epoch = ++tracker_epoch_;
  options.recovering = tracker_epoch_ > 1;
  options.keys = tracker_keys_;
  options.new_id = [this] { return NewId(); };
  tracker_ = std::make_unique<TrackerState>(std::move(options), now);
  tracker_alarm_ =
      std::make_unique<test::Alarm>([this] { return now; },
                                    [this, start = ++tracker_starts_](int64_t delay, std::function<void()> f) {
                                      Post(delay, [this, start, f = std::move(f)] {
                                        if (tracker_ && tracker_starts_ == start) f();
                                      });
                                    },
                                    [this] { PerformTracker(tracker_->Wake(now)); });
  tracker_alarm_->Set(tracker_->NextWake());
}

void Simulator::ToTrackerNode(Peer from, Message message) {
  Transmit([this, from, message] {
    if (!tracker_) return;
    PerformTracker(tracker_->On({.peer = from, .roles = rpc::kUnauthenticated}, message, now));
    tracker_epoch_ = std::max(tracker_epoch_, tracker_->epoch());
    tracker_keys_ = tracker_->KeyAges(now);
  });
}

void Simulator::PerformTracker(TrackerState::Output output) {
  for (auto& [peer, message] : output) {
    auto index = static_cast<size_t>(std::stoi(peer.substr(1)));
    if (peer[0] == 'c') {
      Transmit([this, index, message = message] { clients_[index].node->OnTracker(message); });
    } else if (!servers_[index].node) {
      PerformTracker(tracker_->OnUnreachable(peer));
    } else {
      Transmit([this, index, message = message] {
        InServer(static_cast<int>(index), servers_[index].incarnation,
                 [message](Server& server) { server.node->OnTracker(message); });
      });
    }
  }
  tracker_alarm_->Set(tracker_->NextWake());
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void Simulator::StartServer(int s) {
  Server& server = servers_[static_cast<size_t>(s)];
  ++server.incarnation;
  server.frozen_until = 0;
  server.frozen_inputs.clear();
  server.last_token = {};
  rpc::ServerSession::Options options;
  // Half of the servers keep their id over a restart, as those with a folder for it do.
  options.server = "server" + std::to_string(s) + (s % 2 ? "" : "." + std::to_string(server.incarnation));
  options.incarnation = std::to_string(server.incarnation);
  options.device.key = "k";
  options.device.endpoint = std::to_string(s) + "/" + std::to_string(server.incarnation);
  ServerNode::World world;
  world.now = [this] { return now; };
  world.after = [this, s, incarnation = server.incarnation](int64_t delay, std::function<void()> f) {
    Post(delay, [=, this] { InServer(s, incarnation, [f](Server&) { f(); }); });
  };
  world.to_peer = [this](const Peer& peer, const Message& message) { FromServer(peer, message); };
  world.to_tracker = [this, s](const Message& message) { ToTrackerNode("s" + std::to_string(s), message); };
  world.on_start = [this, s](const Message& request) { OnStart(s, request); };
  world.run_ms = [this] { return 1 + rng_.Below(150); };
  world.violation = [this, s](const std::string& text) { Violation("server " + std::to_string(s) + ": " + text); };
  server.node = std::make_unique<ServerNode>(std::move(options), std::move(world));
}

// Runs f on a server, unless it is down or has restarted. If it is frozen, runs f later.
void Simulator::InServer(int s, int64_t incarnation, std::function<void(Server&)> f) {
  Server& server = servers_[static_cast<size_t>(s)];
  if (!server.node || server.incarnation != incarnation) return;
  if (now < server.frozen_until) {
    server.frozen_inputs.push_back([this, s, incarnation, f] { InServer(s, incarnation, f); });
  } else {
    f(server);
  }
}

// Names of peers are "c<client>/<connection>".
void Simulator::FromServer(const Peer& peer, const Message& message) {
  auto c = static_cast<size_t>(std::stoi(peer.substr(1)));
  int64_t connection = std::stoll(peer.substr(peer.find('/') + 1));
  Transmit([this, c, connection, message] {
    Client& client = clients_[c];
    if (client.connection == connection && !client.cut) client.node->OnServer(message);
  });
}

void Simulator::OnStart(int s, const Message& request) {
  Server& server = servers_[static_cast<size_t>(s)];
  ++executed;
  rpc::Token token = batch_tokens_.at(request.request);
  if (token < server.last_token) Violation("server " + std::to_string(s) + " works for a lease that was superseded");
  server.last_token = token;
}

// --- Clients ---------------------------------------------------------------------------------------------------------

void Simulator::StartClient(int c, int jobs) {
  rpc::ClientSession::Options options;
  options.client = "client" + std::to_string(c);
  options.client_name = options.client;
  options.key = "k";
  options.wait_ms = int64_t{24} * 3600 * 1000;
  options.tracker_silence_ms = 120000;
  options.max_losses = 1000;
  options.new_id = [this] { return NewId(); };
  ClientNode::World world;
  world.now = [this] { return now; };
  world.after = [this](int64_t delay, std::function<void()> f) { Post(delay, std::move(f)); };
  world.to_tracker = [this, c](const Message& message) { ToTrackerNode("c" + std::to_string(c), message); };
  world.connect = [this, c](const std::string& endpoint) { ConnectClient(c, endpoint); };
  world.to_server = [this, c](const Message& message) { FromClient(c, message); };
  world.drop_server = [this, c] {
    Client& client = clients_[static_cast<size_t>(c)];
    client.connection = 0;
    client.server = -1;
  };
  world.on_result = [this](const rpc::TrialResult& result) {
    ++delivered;
    infrastructure += result.status == TrialStatus::kInfrastructure;
    crashed += FateOf(result.candidate) == Fate::kCrashes;
  };
  world.on_done = [this, c] {
    if (clients_[static_cast<size_t>(c)].jobs_left > 0) Post(rng_.Below(5000), [this, c] { StartJob(c); });
  };
  world.violation = [this, c](const std::string& text) { Violation("client " + std::to_string(c) + ": " + text); };
  Client& client = clients_[static_cast<size_t>(c)];
  client.node = std::make_unique<ClientNode>(std::move(options), std::move(world));
  client.jobs_left = jobs;
  Post(rng_.Below(3000), [this, c] { StartJob(c); });
}

void Simulator::StartJob(int c) {
  Client& client = clients_[static_cast<size_t>(c)];
  std::string prefix = std::to_string(c) + "." + std::to_string(client.jobs_left--) + ".";
  client.node->Start(MakeJob(prefix, 90, rng_));
}

void Simulator::ConnectClient(int c, const std::string& endpoint) {
  Client& client = clients_[static_cast<size_t>(c)];
  client.connection = ++connections_;
  client.server = std::stoi(endpoint);
  client.server_incarnation = std::stoll(endpoint.substr(endpoint.find('/') + 1));
  client.cut = false;
  Post(2, [this, c, connection = client.connection] {
    Client& client = clients_[static_cast<size_t>(c)];
    if (client.connection == connection) client.node->OnServerConnected();
  });
}

void Simulator::FromClient(int c, Message message) {
  Client& client = clients_[static_cast<size_t>(c)];
  if (client.server < 0 || client.cut) return;
  if (auto* batch = std::get_if<rpc::MeasureRequest>(&message.body)) {
    batch_tokens_[message.request] = batch->claim.token;
    if (weather_.forge_tokens) batch->claim.token = {1 << 30, now};
  }
  Peer peer = "c" + std::to_string(c) + "/" + std::to_string(client.connection);
  Transmit([this, s = client.server, incarnation = client.server_incarnation, peer, message = std::move(message)] {
    InServer(s, incarnation, [=](Server& server) { server.node->On(peer, message); });
  });
}

// --- Time and faults -------------------------------------------------------------------------------------------------

// Hands a server that goes on what has arrived while it was frozen.
void Simulator::Thaw(int s) {
  Server& server = servers_[static_cast<size_t>(s)];
  if (now < server.frozen_until) return;  // frozen again since
  auto inputs = std::exchange(server.frozen_inputs, {});
  for (auto& input : inputs) input();
}

void Simulator::Misfortunes() {
  if (tracker_ && rng_.Uniform() < weather_.tracker_crashes) {
    tracker_.reset();
    ++tracker_restarts;
    Post(rng_.Below(15000), [this] { StartTracker(); });
  }
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    int s = static_cast<int>(i);
    if (server.node && rng_.Uniform() < weather_.server_crashes) {
      server.node.reset();
      ++server_restarts;
      for (size_t c = 0; c < clients_.size(); ++c) {
        // Some clients notice the broken connection, others only the silence.
        if (clients_[c].server != s || rng_.Below(2)) continue;
        Post(5, [this, c, connection = clients_[c].connection] {
          if (clients_[c].connection == connection) clients_[c].node->OnServerDisconnected();
        });
      }
      Post(rng_.Below(10000), [this, s] { StartServer(s); });
    } else if (rng_.Uniform() < weather_.server_freezes) {
      server.frozen_until = now + rng_.Below(25000);
      Post(server.frozen_until - now, [this, s] { Thaw(s); });
    }
  }
  for (Client& client : clients_) {
    if (client.server >= 0 && rng_.Uniform() < weather_.cuts) client.cut = true;  // until the client connects anew
  }
  Post(1000, [this] { Misfortunes(); });
}

}  // namespace autotune
