// The state machines of tracker, servers and clients, each in its own thread, over a network that ThreadSanitizer can
// check. Unlike the simulator, which has one thread, this shows that they share nothing. Servers end during jobs, and a
// client vanishes. The only expectation on speed is that everything ends within a minute: a thread that runs too late
// loses its lease and tries again.
#include "tests/simulator/in_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "tests/simulator/nodes.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::Id;
using rpc::Message;
using rpc::Peer;
using rpc::Token;
using testing::IsEmpty;
using State = Mailbox::State;

constexpr int kServers = 4, kClients = 5, kJobs = 3;
constexpr int kVanishes = 2;  // number of the client that vanishes
constexpr auto kPatience = std::chrono::seconds(60);
// Server kDies dies and server kUnplugged loses the network, each when it has begun kLastCandidate candidates.
constexpr int kDies = 0, kUnplugged = 1;
constexpr int64_t kLastCandidate = 4;

std::vector<std::string> Names() {
  std::vector<std::string> names = {"tracker", "observer"};
  for (int s = 0; s < kServers; ++s) names.push_back("s" + std::to_string(s));
  for (int c = 0; c < kClients; ++c) names.push_back("c" + std::to_string(c));
  return names;
}

struct TrackerThread {
  explicit TrackerThread(InProcessNetwork& network) : node(network, "tracker") {
    node.Start(
        [this] {
          TrackerState::Options options;
          options.quantum_ms = 2000;  // short, so that holders yield to waiting clients
          options.send = [this](const Peer& peer, const Message& message) {
            if (!node.Send(peer, message)) gone.push_back(peer);
          };
          state = std::make_unique<TrackerState>(std::move(options), node.Now());
          alarm.Set(state->NextWake());
        },
        [this](const Peer& from, const Peer& to, const Message& message) {
          if (to == kDials)
            return Perform(state->OnDialAnswer({"server" + from.substr(1), {from}, ""}, message, node.Now()));
          Perform(state->On({.peer = from, .roles = rpc::kUnauthenticated}, message, node.Now()));
        });
  }
  void Perform(const TrackerState::Dials& dials) {
    for (const TrackerState::Dial& dial : dials) {
      if (!dial.endpoints.empty()) node.Send(dial.endpoints.front(), {"", rpc::Ping{}, {}}, "/dials");
    }
    for (const Peer& peer : std::exchange(gone, {})) Perform(state->OnUnreachable(peer, node.Now()));
    alarm.Set(state->NextWake());
  }

  inline static const Peer kDials = "tracker/dials";  // from which the tracker tries the addresses of servers
  std::unique_ptr<TrackerState> state;
  std::vector<Peer> gone;  // to which the state has sent in vain, in the present input
  rpc::Alarm alarm{[this] { return node.Now(); },
                   [this](int64_t delay, std::function<void()> f) { node.After(delay, std::move(f)); },
                   [this] { Perform(state->Wake(node.Now())); }};
  InProcessNode node;  // the last member, since its destructor joins the thread
};

// A candidate that a server executed, with its batch. Read after the server's thread has ended.
struct Execution {
  Id batch;
  std::string candidate;
};

struct ServerThread {
  ServerThread(InProcessNetwork& network, int s)
      : index(s), rng(100 + static_cast<uint64_t>(s)), node(network, Name()) {
    node.Start(
        [this] {
          rpc::ServerSession::Options options;
          options.server = "server" + std::to_string(index);
          options.incarnation = "1";
          options.device.key = "k";
          options.device.endpoint = Name();
          server = std::make_unique<ServerNode>(std::move(options), World());
        },
        [this](const Peer& from, const Peer&, const Message& message) {
          if (from == "tracker") return server->OnTracker(message);
          server->On({.peer = from, .roles = rpc::kUnauthenticated}, message);
        });
  }
  std::string Name() const { return "s" + std::to_string(index); }
  ServerNode::World World() {
    ServerNode::World world;
    world.now = [this] { return node.Now(); };
    world.after = [this](int64_t delay, std::function<void()> f) { node.After(delay, std::move(f)); };
    world.to_peer = [this](const Peer& peer, const Message& message) { node.Send(peer, message); };
    world.to_tracker = [this](const Message& message) {
      busy = server->Busy();  // a server reports each change
      node.Send("tracker", message);
    };
    world.on_start = [this](const ServerNode::Start& start) {
      executed.push_back({start.message.request, start.message.As<rpc::RunnerRequest>()->candidate.id});
      if (index <= kUnplugged && executed.size() == kLastCandidate) {
        node.Vanish(index == kDies ? State::kBroken : State::kSilent);
      }
    };
    world.run_ms = [this] { return 1 + rng.Below(150); };
    world.violation = [this](std::string_view promise, const std::string& text) {
      violations.push_back(Name() + ": " + std::string(promise) + ": " + text);
    };
    return world;
  }

  const int index;
  std::atomic<bool> busy{false};
  std::vector<Execution> executed;
  std::vector<std::string> violations;
  Rng rng;
  std::unique_ptr<ServerNode> server;
  InProcessNode node;
};

struct ClientThread {
  // All clients send their requests before they read any answer, so some must wait for a device.
  ClientThread(InProcessNetwork& network, int c, std::latch& all_have_asked)
      : network(network), index(c), rng(200 + static_cast<uint64_t>(c)), node(network, Name()) {
    node.Start(
        [this, &all_have_asked] {
          rpc::ClientSession::Options options;
          options.client = options.client_name = Name();
          options.key = "k";
          // No client gives up, however slow the machine is.
          options.wait_ms = options.tracker_silence_ms = int64_t{24} * 3600 * 1000;
          options.max_losses = 1 << 30;
          client = std::make_unique<ClientNode>(std::move(options), World());
          node.Every(100, [this] { CheckConnection(); });
          StartJob();
          all_have_asked.arrive_and_wait();
        },
        [this](const Peer& from, const Peer& to, const Message& message) {
          if (from == "tracker") {
            waited += message.As<rpc::LeaseQueued>() != nullptr;
            client->OnTracker(message);
          } else if (connection > 0 && to == Name() + Connection()) {
            client->OnServer(message);
          }
        });
  }
  std::string Name() const { return "c" + std::to_string(index); }
  std::string Connection() const { return "/" + std::to_string(connection); }
  void StartJob() {
    auto job = MakeJob(Name() + "." + std::to_string(jobs++) + ".", {.most = 20}, rng);
    wanted += job->candidates.size();
    client->Start(std::move(job));
  }
  void CheckConnection() {
    bool broke = connection > 0 && connected && network.At(server).state() == State::kBroken;
    if (broke) {
      connected = false;
      client->OnServerDisconnected();
    }
  }
  ClientNode::World World() {
    ClientNode::World world;
    world.now = [this] { return node.Now(); };
    world.after = [this](int64_t delay, std::function<void()> f) { node.After(delay, std::move(f)); };
    world.to_tracker = [this](const Message& message) { node.Send("tracker", message); };
    world.connect = [this](const std::string& endpoint) {
      server = endpoint;
      connection = ++connections;
      connected = false;
      node.After(2, [this, made = connection] {
        if (connection != made || network.At(server).state() != State::kOpen) return;
        connected = true;
        client->OnServerConnected();
      });
    };
    world.to_server = [this](const Message& message) {
      if (connection == 0) return;
      if (auto* request = message.As<rpc::MeasureRequest>()) batches[message.request] = {server, request->claim.token};
      node.Send(server, message, Connection());
    };
    world.drop_server = [this] { connection = 0; };
    world.on_result = [this](const rpc::TrialResult& result) {
      ++results;
      failed += result.status == TrialStatus::kInfrastructure;
      if (index == kVanishes && results == 3) node.Vanish(State::kBroken);
    };
    world.on_done = [this] {
      ++jobs_done;
      node.After(rng.Below(300), [this] {
        // Continues until the first two servers have ended, which they do during a job.
        bool any_up = network.At("s0").state() == State::kOpen || network.At("s1").state() == State::kOpen;
        if (jobs < kJobs || any_up) return StartJob();
        client->Close();
        done = true;
      });
    };
    world.violation = [this](std::string_view promise, const std::string& text) {
      violations.push_back(Name() + ": " + std::string(promise) + ": " + text);
    };
    return world;
  }

  InProcessNetwork& network;
  const int index;
  std::atomic<bool> done{false};
  size_t wanted = 0, results = 0, failed = 0;
  int jobs = 0, jobs_done = 0, waited = 0;
  std::map<Id, std::pair<std::string, Token>> batches;  // batch -> server and lease
  std::vector<std::string> violations;
  Rng rng;
  std::string server;
  int64_t connection = 0, connections = 0;  // the current connection (0: none), and the number of all so far
  bool connected = false;
  std::unique_ptr<ClientNode> client;
  InProcessNode node;
};

// Asks the tracker until `pleases` accepts its answer, for a minute at most. Returns the last answer.
rpc::StatusReply AskUntil(InProcessNetwork& network, const std::function<bool(const rpc::StatusReply&)>& pleases) {
  rpc::StatusReply reply;
  for (auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < kPatience;) {
    network.Send("observer", "tracker", {rpc::RandomId(), rpc::StatusRequest{}, {}});
    if (auto letter = network.At("observer").Take(network.When(network.Now() + 1000))) {
      Message message = InProcessNetwork::Open(*letter);
      if (auto* status = message.As<rpc::StatusReply>()) reply = *status;
      if (pleases(reply)) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return reply;
}

// Returns the states of the servers in order, such as "free free unreachable".
std::string States(const rpc::StatusReply& reply) {
  std::string text;
  for (const rpc::DeviceStatus& device : reply.devices) text += (text.empty() ? "" : " ") + device.state;
  return text;
}

bool NoLease(const rpc::StatusReply& reply) {
  for (const rpc::DeviceStatus& device : reply.devices) {
    if (!device.lease.empty()) return false;
  }
  return true;
}

// Checks that each server worked for one lease after another, that each lease belonged to one client on one server, and
// that each executed candidate belonged to the client with the lease.
void CheckExecutions(const std::vector<std::unique_ptr<ServerThread>>& servers,
                     const std::vector<std::unique_ptr<ClientThread>>& clients) {
  std::map<Token, std::pair<std::string, std::string>> holders;
  for (auto& server : servers) {
    Token last;
    for (const Execution& execution : server->executed) {
      int owners = 0;
      for (auto& client : clients) {
        auto batch = client->batches.find(execution.batch);
        if (batch == client->batches.end()) continue;
        ++owners;
        const auto& [where, token] = batch->second;
        EXPECT_EQ(where, server->Name());
        EXPECT_LE(last, token) << server->Name() << " works for a lease after a newer one";
        last = token;
        auto holder = holders.emplace(token, std::pair(client->Name(), where)).first->second;
        EXPECT_EQ(holder, std::pair(client->Name(), where));
        EXPECT_TRUE(execution.candidate.starts_with(client->Name() + ".")) << execution.candidate;
      }
      EXPECT_EQ(owners, 1) << execution.candidate;
    }
  }
}

TEST(InProcess, EveryJobEndsAndNothingIsLeft) {
  InProcessNetwork network(Names());
  TrackerThread tracker(network);
  std::vector<std::unique_ptr<ServerThread>> servers;
  for (int s = 0; s < kServers; ++s) servers.push_back(std::make_unique<ServerThread>(network, s));
  rpc::StatusReply status =
      AskUntil(network, [](const rpc::StatusReply& reply) { return States(reply) == "free free free free"; });
  ASSERT_EQ(States(status), "free free free free");

  std::latch all_have_asked(kClients);
  std::vector<std::unique_ptr<ClientThread>> clients;
  for (int c = 0; c < kClients; ++c) clients.push_back(std::make_unique<ClientThread>(network, c, all_have_asked));
  bool ended = false;
  AskUntil(network, [&](const rpc::StatusReply& reply) {
    for (auto& client : clients) {
      const bool vanishes = client->index == kVanishes;
      if (vanishes ? network.At(client->Name()).state() == State::kOpen : !client->done) return false;
    }
    for (auto& server : servers) {
      if (server->index > kUnplugged && server->busy) return false;
    }
    return ended = States(reply) == "unreachable unreachable free free" && NoLease(reply) && reply.queue.empty();
  });
  EXPECT_TRUE(ended) << "after " << kPatience.count() << " s";

  auto end = [](InProcessNode& node) {
    node.Stop();
    node.Join();
  };
  for (auto& client : clients) end(client->node);
  for (auto& server : servers) end(server->node);
  end(tracker.node);
  status = tracker.state->Status("", network.Now());
  EXPECT_TRUE(NoLease(status));
  EXPECT_THAT(status.queue, IsEmpty());
  EXPECT_GT(status.grants, kClients);

  int waited = 0;
  for (auto& client : clients) {
    SCOPED_TRACE(client->Name());
    EXPECT_THAT(client->violations, IsEmpty());
    EXPECT_EQ(client->failed, 0u);
    waited += client->waited;
    if (client->index == kVanishes) {
      EXPECT_EQ(client->results, 3u);
    } else {
      EXPECT_GE(client->jobs_done, kJobs);
      EXPECT_EQ(client->jobs_done, client->jobs);
      EXPECT_EQ(client->results, client->wanted);
    }
  }
  EXPECT_GT(waited, 0);
  for (auto& server : servers) {
    SCOPED_TRACE(server->Name());
    EXPECT_THAT(server->violations, IsEmpty());
    if (server->index <= kUnplugged) {
      EXPECT_EQ(server->executed.size(), static_cast<size_t>(kLastCandidate));
    }
  }
  CheckExecutions(servers, clients);
}

}  // namespace
}  // namespace autotune
