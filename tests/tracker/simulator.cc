#include "tests/tracker/simulator.h"

namespace autotune {

using rpc::Candidate;
using rpc::Message;
using rpc::Peer;
using rpc::TrialResult;

namespace {
// What a candidate does is in its name.
enum Fate { kFine, kCrashes, kHangs };
Fate FateOf(const std::string& candidate) {
  return candidate.back() == 'x' ? kCrashes : candidate.back() == 'h' ? kHangs : kFine;
}
}  // namespace

Simulator::Simulator(uint64_t seed, Weather weather, int servers, int clients, int jobs_per_client)
    : rng_(seed), weather_(weather) {
  StartTracker();
  servers_.resize(static_cast<size_t>(servers));
  for (int s = 0; s < servers; ++s) StartServer(s);
  clients_.resize(static_cast<size_t>(clients));
  for (int c = 0; c < clients; ++c) {
    rpc::ClientSession::Options options;
    options.client = "client" + std::to_string(c);
    options.client_name = options.client;
    options.key = "k";
    options.wait_ms = int64_t{24} * 3600 * 1000;
    options.tracker_silence_ms = 120000;
    options.max_losses = 1000;
    options.new_id = [this] { return NewId(); };
    Client& client = clients_[static_cast<size_t>(c)];
    client.session = std::make_unique<rpc::ClientSession>(std::move(options));
    client.jobs_left = jobs_per_client;
    Post(rng_.Below(3000), [this, c] { StartJob(c); });
  }
  Post(100, [this] { TickAll(); });
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
    if (client.jobs_left > 0 || client.job) return false;
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
  options.new_id = [this] { return NewId(); };
  tracker_ = std::make_unique<TrackerState>(std::move(options), now);
}

void Simulator::ToTrackerNode(Peer from, Message message) {
  Transmit([this, from, message] {
    if (!tracker_) return;
    PerformTracker(tracker_->On(from, message, now));
    tracker_epoch_ = std::max(tracker_epoch_, tracker_->epoch());
  });
}

void Simulator::PerformTracker(TrackerState::Output output) {
  for (auto& [peer, message] : output) {
    auto index = static_cast<size_t>(std::stoi(peer.substr(1)));
    if (peer[0] == 'c') {
      Transmit([this, index, message = message] {
        PerformClient(static_cast<int>(index), clients_[index].session->OnTracker(message, now));
      });
    } else if (!servers_[index].session) {
      PerformTracker(tracker_->OnUnreachable(peer));
    } else {
      Transmit([this, index, message = message] {
        InServer(static_cast<int>(index), servers_[index].incarnation, [this, index, message](Server& server) {
          PerformServer(static_cast<int>(index), server.session->OnTracker(message, now));
        });
      });
    }
  }
}

// --- Servers ---------------------------------------------------------------------------------------------------------

void Simulator::StartServer(int s) {
  Server& server = servers_[static_cast<size_t>(s)];
  ++server.incarnation;
  server.running = 0;
  server.frozen_until = 0;
  server.frozen_inputs.clear();
  server.last_token = {};
  rpc::ServerSession::Options options;
  // Half of them keep their id over a restart, as one with a state directory does.
  options.server = "server" + std::to_string(s) + (s % 2 ? "" : "." + std::to_string(server.incarnation));
  options.incarnation = std::to_string(server.incarnation);
  options.device.key = "k";
  options.device.endpoint = std::to_string(s) + "/" + std::to_string(server.incarnation);
  server.session = std::make_unique<rpc::ServerSession>(std::move(options));
  int64_t incarnation = server.incarnation;
  Post(50, [this, s, incarnation] {
    InServer(s, incarnation, [this, s](Server& server) { PerformServer(s, server.session->OnRunnerReady(now)); });
  });
}

// Runs f there unless it is down or another incarnation; later if it is frozen.
void Simulator::InServer(int s, int64_t incarnation, std::function<void(Server&)> f) {
  Server& server = servers_[static_cast<size_t>(s)];
  if (!server.session || server.incarnation != incarnation) return;
  if (now < server.frozen_until) {
    server.frozen_inputs.push_back([this, s, incarnation, f] { InServer(s, incarnation, f); });
  } else {
    f(server);
  }
}

void Simulator::PerformServer(int s, rpc::ServerActions actions) {
  Server& server = servers_[static_cast<size_t>(s)];
  int64_t incarnation = server.incarnation;
  for (rpc::ServerAction& action : actions) {
    if (auto* send = std::get_if<rpc::ToPeer>(&action)) {
      // Peers are "c<client>/<connection>".
      auto c = static_cast<size_t>(std::stoi(send->peer.substr(1)));
      int64_t connection = std::stoll(send->peer.substr(send->peer.find('/') + 1));
      Transmit([this, c, connection, message = send->message] {
        Client& client = clients_[c];
        if (client.connection != connection || client.cut) return;
        PerformClient(static_cast<int>(c), client.session->OnServer(message, now));
      });
    } else if (auto* report = std::get_if<rpc::ToTracker>(&action)) {
      ToTrackerNode("s" + std::to_string(s), report->message);
    } else if (std::get_if<rpc::AcquireHost>(&action)) {
      Post(1, [this, s, incarnation] {
        InServer(s, incarnation, [this, s](Server& server) { PerformServer(s, server.session->OnHostAcquired(now)); });
      });
    } else if (auto* start = std::get_if<rpc::StartCandidate>(&action)) {
      Execute(s, start->request);
    } else if (std::get_if<rpc::KillRunner>(&action)) {
      server.running = 0;
      Post(20, [this, s, incarnation] {
        InServer(s, incarnation, [this, s](Server& server) { PerformServer(s, server.session->OnRunnerReady(now)); });
      });
    }
  }
}

void Simulator::Execute(int s, const Message& message) {
  Server& server = servers_[static_cast<size_t>(s)];
  const auto& request = *message.As<rpc::RunnerRequest>();
  ++executed;
  if (server.running) Violation("two candidates at once on server " + std::to_string(s));
  rpc::Token token = batch_tokens_.at(message.request);
  if (token < server.last_token) Violation("server " + std::to_string(s) + " works for a lease that was superseded");
  server.last_token = token;
  int64_t run = server.running = ++runs_, incarnation = server.incarnation, number = request.run;
  Fate fate = FateOf(request.candidate.id);
  if (fate == kHangs) return;
  Post(1 + rng_.Below(150), [this, s, incarnation, run, number, fate, id = request.candidate.id] {
    InServer(s, incarnation, [=, this](Server& server) {
      if (server.running != run) return;
      server.running = 0;
      if (fate == kCrashes) {
        PerformServer(s, server.session->OnRunnerEnd({"was ended by signal 11", 11, false}, now));
        Post(20, [this, s, incarnation] {
          InServer(s, incarnation, [this, s](Server& server) { PerformServer(s, server.session->OnRunnerReady(now)); });
        });
        return;
      }
      rpc::RunnerResult result{number, {}};
      result.result.status = TrialStatus::kOk;
      result.result.times = {1.0};
      PerformServer(s, server.session->OnRunnerMessage({"", result, {}}, now));
    });
  });
}

// --- Clients ---------------------------------------------------------------------------------------------------------

void Simulator::StartJob(int c) {
  Client& client = clients_[static_cast<size_t>(c)];
  auto job = std::make_shared<rpc::MeasureJob>();
  auto artifact = std::make_shared<const std::string>("artifact");
  for (int64_t i = 0, n = 1 + rng_.Below(90); i < n; ++i) {
    Candidate candidate;
    double luck = rng_.Uniform();
    candidate.id = std::to_string(i) + (luck < 0.05 ? "x" : luck < 0.06 ? "h" : "");
    candidate.blob = static_cast<int>(i);
    candidate.check = false;
    candidate.load_seconds = candidate.run_seconds = 2;
    job->candidates.push_back(candidate);
    job->artifacts.push_back(artifact);
  }
  --client.jobs_left;
  client.answered.clear();
  client.job = job;
  PerformClient(c, client.session->Start(std::move(job), now));
}

void Simulator::PerformClient(int c, rpc::ClientActions actions) {
  Client& client = clients_[static_cast<size_t>(c)];
  for (rpc::ClientAction& action : actions) {
    if (auto* ask = std::get_if<rpc::AskTracker>(&action)) {
      ToTrackerNode("c" + std::to_string(c), ask->message);
    } else if (auto* connect = std::get_if<rpc::ConnectServer>(&action)) {
      client.connection = ++connections_;
      client.server = std::stoi(connect->endpoint);
      client.server_incarnation = std::stoll(connect->endpoint.substr(connect->endpoint.find('/') + 1));
      client.cut = false;
      Post(2, [this, c, connection = client.connection] {
        Client& client = clients_[static_cast<size_t>(c)];
        if (client.connection == connection) PerformClient(c, client.session->OnServerConnected(now));
      });
    } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
      if (client.server < 0 || client.cut) continue;
      Message message = send->message;
      if (auto* batch = std::get_if<rpc::MeasureRequest>(&message.body)) {
        batch_tokens_[message.request] = batch->claim.token;
        if (weather_.forge_tokens) batch->claim.token = {1 << 30, now};
      }
      Peer peer = "c" + std::to_string(c) + "/" + std::to_string(client.connection);
      Transmit([this, s = client.server, incarnation = client.server_incarnation, peer, message] {
        InServer(s, incarnation,
                 [=, this](Server& server) { PerformServer(s, server.session->On(peer, message, now)); });
      });
    } else if (std::get_if<rpc::DropServer>(&action)) {
      client.connection = 0;
      client.server = -1;
    } else if (auto* result = std::get_if<rpc::Deliver>(&action)) {
      const TrialResult& r = result->result;
      ++delivered;
      if (!client.job || !client.answered.insert(r.candidate).second)
        Violation("candidate " + r.candidate + " answered twice");
      Fate fate = FateOf(r.candidate);
      TrialStatus right = fate == kFine ? TrialStatus::kOk : TrialStatus::kLoadFailed;  // no runner here says it runs
      if (r.status == TrialStatus::kInfrastructure) {
        ++infrastructure;
      } else if (r.status != right) {
        Violation("candidate " + r.candidate + " was blamed: " + std::string(ToText(r.status)));
      }
    } else if (std::get_if<rpc::JobDone>(&action)) {
      if (client.answered.size() != client.job->candidates.size()) Violation("a job ended with unanswered candidates");
      client.job.reset();
      if (client.jobs_left > 0) Post(rng_.Below(5000), [this, c] { StartJob(c); });
    }
  }
}

// --- Time and bad luck
// ---------------------------------------------------------------------------------------------------

void Simulator::TickAll() {
  if (tracker_) PerformTracker(tracker_->Tick(now));
  for (size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    if (now >= server.frozen_until && !server.frozen_inputs.empty()) {
      auto inputs = std::exchange(server.frozen_inputs, {});
      for (auto& input : inputs) input();
    }
    if (server.session && now >= server.frozen_until) PerformServer(static_cast<int>(s), server.session->Tick(now));
  }
  for (size_t c = 0; c < clients_.size(); ++c) PerformClient(static_cast<int>(c), clients_[c].session->Tick(now));
  Post(100, [this] { TickAll(); });
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
    if (server.session && rng_.Uniform() < weather_.server_crashes) {
      server.session.reset();
      ++server_restarts;
      for (size_t c = 0; c < clients_.size(); ++c) {
        // Some notice the broken connection, some only the silence.
        if (clients_[c].server != s || rng_.Below(2)) continue;
        Post(5, [this, c, connection = clients_[c].connection] {
          if (clients_[c].connection != connection) return;
          PerformClient(static_cast<int>(c), clients_[c].session->OnServerDisconnected(now));
        });
      }
      Post(rng_.Below(10000), [this, s] { StartServer(s); });
    } else if (rng_.Uniform() < weather_.server_freezes) {
      server.frozen_until = now + rng_.Below(25000);
    }
  }
  for (Client& client : clients_) {
    if (client.server >= 0 && rng_.Uniform() < weather_.cuts) client.cut = true;  // until it connects anew
  }
  Post(1000, [this] { Misfortunes(); });
}

}  // namespace autotune
