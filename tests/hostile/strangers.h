// Attacks on a farm over TCP: by strangers, and by members who do what they may not. For tests only.
#pragma once
#include <list>
#include <map>
#include <vector>

#include "rpc/join_file.h"
#include "rpc/transport.h"
#include "support/loop.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/hostile.h"
#include "tests/tracker/invite.h"
#include "tracker/members.h"

namespace autotune {

// The begin of a connection: version and mechanism.
inline std::string Greeting(const std::string& mechanism) {
  std::string greeting = std::string("\xff\0\0\0\0\0\0\0\0\x7f\3\0", 12) + mechanism;
  greeting.resize(64, '\0');
  return greeting;
}

// Somebody who connects to a listener with keys, as a member does, and waits for each answer.
class Caller {
 public:
  explicit Caller(rpc::Address address) {
    auto socket = rpc::DealerSocket::Connect(loop_, address,
                                             {.on_message =
                                                  [this](rpc::Message message) {
                                                    latest_ = std::move(message);
                                                    loop_.Stop();
                                                  },
                                              .on_connected =
                                                  [this] {
                                                    connected_ = true;
                                                    loop_.Stop();
                                                  }});
    EXPECT_TRUE(socket.ok()) << socket.error().Text();
    socket_ = std::move(*socket);
  }
  // Returns whether the handshake succeeds.
  bool Connects() {
    Run([this] { return connected_ || socket_->refused() != rpc::DealerSocket::Refused::kNo; });
    return connected_;
  }
  // Returns the answer. There is none if the handshake fails.
  std::optional<rpc::Message> Ask(rpc::Body body, std::vector<Blob> blobs = {}) {
    if (!Connects()) return std::nullopt;
    const rpc::Id request = rpc::RandomId();
    latest_.reset();
    socket_->Send({request, std::move(body), std::move(blobs)});
    Run([&] { return latest_ && latest_->request == request; });
    return latest_;
  }
  void Tell(rpc::Body body) {
    if (Connects()) socket_->Send({"", std::move(body), {}});
  }
  // Asks for a device, and waits in the queue for it.
  std::optional<rpc::LeaseGranted> Lease(const std::string& key) {
    if (!Connects()) return std::nullopt;
    latest_.reset();
    const rpc::LeaseRequest wish{.client = rpc::RandomId(), .client_name = "attacker", .key = key, .wait_ms = 2000};
    socket_->Send({rpc::RandomId(), wish, {}});
    Run([this] { return latest_ && !latest_->As<rpc::LeaseQueued>(); });
    const auto* granted = latest_ ? latest_->As<rpc::LeaseGranted>() : nullptr;
    return granted ? std::optional(*granted) : std::nullopt;
  }
  template <class T>
  bool Gets(rpc::Body body) {
    const std::optional<rpc::Message> answer = Ask(std::move(body));
    return answer && answer->As<T>();
  }

 private:
  template <class F>
  void Run(F done) {
    constexpr int64_t kPatienceMs = 3000;
    const auto look = loop_.Every(10, [&] { loop_.Stop(); });
    for (const int64_t end = BootMillis() + kPatienceMs; !done() && BootMillis() < end;) loop_.Run();
  }
  Loop loop_;
  std::unique_ptr<rpc::DealerSocket> socket_;
  std::optional<rpc::Message> latest_;
  bool connected_ = false;
};

// Hands on the bytes of one connection to a listener, and keeps those that went there.
class Relay {
 public:
  explicit Relay(std::string target) : target_(std::move(target)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~Relay() { End(); }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  // Ends the connection, and returns the bytes.
  const std::string& End() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return seen_;
  }

 private:
  void Run() {
    const UniqueFd target = Dial(target_);
    UniqueFd caller;
    while (!stop_) {
      pollfd ends[] = {{caller ? caller.get() : listener_.get(), POLLIN, 0}, {target.get(), POLLIN, 0}};
      if (poll(ends, caller ? 2 : 1, 20) <= 0) continue;
      if (!caller) {
        caller.Reset(accept(listener_.get(), nullptr, nullptr));
        continue;
      }
      for (const int from : {0, 1}) {
        char bytes[4096];
        const ssize_t n = ends[from].revents ? recv(ends[from].fd, bytes, sizeof bytes, MSG_DONTWAIT) : -1;
        if (n == 0) return;
        if (n < 0) continue;
        if (from == 0) seen_.append(bytes, static_cast<size_t>(n));
        if (send(ends[1 - from].fd, bytes, static_cast<size_t>(n), MSG_NOSIGNAL) != n) return;
      }
    }
  }
  const std::string target_;
  const UniqueFd listener_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
  std::string seen_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct WrongKeys {
  int made = 0, refused = 0, let_in = 0, heard = 0;
};
// Connects so many times a second: in turn with a new key, and also without the listener's key.
inline WrongKeys CallWithWrongKeys(const std::string& endpoint, const std::string& key, int rate, int seconds) {
  struct Call {
    std::unique_ptr<rpc::DealerSocket> socket;
    int64_t ends = 0;
  };
  WrongKeys sum;
  Loop loop;
  std::list<Call> calls;
  const auto call = loop.Every(1000 / rate, [&] {
    std::erase_if(calls, [&](const Call& each) {
      const bool refused = each.socket->refused() != rpc::DealerSocket::Refused::kNo;
      sum.refused += refused;
      return refused || BootMillis() > each.ends;
    });
    const bool knows = ++sum.made % 2;
    const std::string listener = knows ? key : rpc::NewCurveKeys().public_key;
    const int64_t patience = knows ? 2000 : 40;  // who has the wrong key of the listener tries again after 50 ms
    auto socket = rpc::DealerSocket::Connect(
        loop, {{endpoint}, listener, rpc::NewCurveKeys()},
        {.on_message = [&](const rpc::Message&) { ++sum.heard; }, .on_connected = [&] { ++sum.let_in; }});
    if (socket.ok()) calls.push_back({std::move(*socket), BootMillis() + patience});
  });
  const auto end = loop.After(int64_t{1000} * seconds, [&] { loop.Stop(); });
  loop.Run();
  return sum;
}

inline bool IsClosed(const UniqueFd& connection) {
  pollfd end{connection.get(), POLLRDHUP, 0};
  return !connection || (poll(&end, 1, 0) == 1 && end.revents);
}
// Holds so many connections, over which it sends `begin` only. One that is closed is made again.
inline void HoldIdle(const std::string& endpoint, int many, int seconds, const std::function<void()>& look,
                     const std::string& begin = "") {
  std::vector<UniqueFd> idle(static_cast<size_t>(many));
  for (const int64_t end = BootMillis() + int64_t{1000} * seconds; BootMillis() < end; usleep(100000)) {
    for (UniqueFd& connection : idle)
      if (IsClosed(connection) && (connection = Dial(endpoint)))
        send(connection.get(), begin.data(), begin.size(), MSG_NOSIGNAL);
    if (look) look();
  }
}

// Connects as strangers, and sends so many MiB of messages of 4 MiB, but the last byte of each. Returns the largest
// growth of the listener.
inline int64_t MostByStrangers(const std::string& endpoint, const std::function<int64_t()>& memory, int mebibytes) {
  const std::string part(1 << 20, 'x'), begin = Greeting("CURVE") + std::string("\6", 1) + Number(4 << 20, 8);
  const int64_t rest = memory();
  int64_t most = 0;
  std::vector<Peer> peers;
  for (int sent = 0; sent < mebibytes; ++sent) {
    if (sent % 4 == 0) peers.emplace_back(endpoint, false).Bytes(begin);
    peers.back().Bytes(sent % 4 == 3 ? part.substr(1) : part);
    usleep(2000);
    most = std::max(most, memory() - rest);
  }
  return most;
}

#if defined(__x86_64__)
// A farm of members: a tracker at 127.0.0.1, two servers, and clients.
class StrangersFarm : public Hostile {
 protected:
  // Starts a tracker and the servers `victim` and `bystander`. Each may lack rules, by name (rpc/rules.h).
  void StartMembers(const std::map<std::string, std::string>& lacks = {}) {
    for (const auto& [name, role] :
         {std::pair("victim", rpc::Role::kServer), std::pair("bystander", rpc::Role::kServer),
          std::pair("spare", rpc::Role::kServer), std::pair("alice", rpc::Role::kClient),
          std::pair("eve", rpc::Role::kClient), std::pair("root", rpc::Role::kAdmin)})
      joins_[name] = Invite(State(), name, role).value();
    const std::string breakable = std::string(AUTOTUNE_BINARY_DIR) + "/tests/breakable_farm";
    const auto rules_of = [&](const std::string& key) { return lacks.contains(key) ? lacks.at(key) : std::string(); };
    if (lacks.empty()) {
      LaunchTracker({kTools + "/rpc_tracker", "--listen", Endpoint(), "--listen", "127.0.0.1:0", "--state", State()});
    } else {
      LaunchTracker({breakable, rules_of("tracker"), "tracker", Tracker(), State(), "127.0.0.1:0"});
    }
    ASSERT_TRUE(Soon([&] { return Count("", "") == 0; })) << Log();
    for (auto& [name, join] : joins_) join.tracker = ReadFarmMembers(State())->endpoints;
    for (const std::string key : {"victim", "bystander"}) {
      const std::string path = folder_ + "/" + key + ".join";
      ASSERT_TRUE(ReplaceFileDurably(path, joins_[key].Text()).ok());
      if (lacks.empty()) {
        LaunchServer(key, {kTools + "/rpc_server", "--join", path, "--key", key, "--state", folder_ + "/" + key,
                           "--listen", "127.0.0.1:0", "--shared-host", "--memory-limit=0.25"});
      } else {
        LaunchServer(key, {breakable, rules_of(key), "server", path, key, folder_ + "/" + key, kTools + "/rpc_server",
                           "--runner", "--memory-limit=0.25"});
      }
    }
  }
  rpc::Address TrackerAddress() const override { return joins_.at("alice").TrackerAddress(); }
  std::string State() const { return folder_ + "/state"; }
  int64_t GrowthByStrangers(const std::string& endpoint, pid_t process, int mebibytes) {
    return MostByStrangers(
        endpoint, [&] { return MemoryOf(process); }, mebibytes);
  }
  std::string TrackerPort() const { return joins_.at("alice").tracker.front(); }
  rpc::Address To(const std::string& endpoint, const std::string& listener_key, const rpc::CurveKeys& own) const {
    return {{"tcp://127.0.0.1:" + rpc::PortOf(endpoint)}, listener_key, own};
  }
  rpc::Address As(const std::string& member) const { return joins_.at(member).TrackerAddress(); }
  // The server of a key, as `member` reaches it.
  rpc::Address ServerAs(const std::string& key, const std::string& member) {
    return To(DeviceOf(key).endpoint, joins_.at(key).keys.public_key, joins_.at(member).keys);
  }
  static rpc::LeaseClaim ClaimOf(const rpc::LeaseGranted& granted) {
    return {.lease = granted.lease,
            .token = granted.token,
            .ttl_ms = granted.ttl_ms,
            .client = "c",
            .client_name = "attacker",
            .incarnation = granted.incarnation,
            .proof = granted.proof};
  }

  // --- Attacks. Each returns whether it succeeds. ---
  // Somebody without keys asks for the status.
  bool PlainStatus() {
    Peer peer("tcp://127.0.0.1:" + rpc::PortOf(TrackerPort()));
    peer.Send({"r", rpc::StatusRequest{}, {}});
    return peer.Receive(500).find("status_reply") != std::string::npos;
  }
  bool StatusAs(const rpc::CurveKeys& keys) {
    return Caller(To(TrackerPort(), joins_.at("alice").tracker_key, keys)).Gets<rpc::StatusReply>(rpc::StatusRequest{});
  }
  // A member is revoked while it holds a device. Afterwards it asks for the status, for a device, and goes on with its
  // lease. Its device must be free at once in any case.
  std::vector<std::string> WhatARevokedMemberGets() {
    const rpc::CurveKeys keys = Invite(State(), "mallory", rpc::Role::kClient).value().keys;
    std::optional<Caller> mallory;
    EXPECT_TRUE(
        Soon([&] { return mallory.emplace(To(TrackerPort(), As("eve").public_key, keys)).Connects(); }, Bar(5)));
    const std::optional<rpc::LeaseGranted> granted = mallory->Lease("victim");
    Caller server(To(DeviceOf("victim").endpoint, joins_.at("victim").keys.public_key, keys));
    EXPECT_TRUE(granted && server.Gets<rpc::ServerBeat>(rpc::ClientBeat{ClaimOf(*granted), ""}));
    EXPECT_TRUE(RevokeMember(State(), "mallory").ok());
    EXPECT_TRUE(Soon([&] { return Count("victim") == 1; }, Bar(3))) << "the device of a revoked member is not free";
    std::vector<std::string> gets;
    if (mallory->Gets<rpc::StatusReply>(rpc::StatusRequest{})) gets.push_back("the status");
    if (const auto again = mallory->Lease("victim")) {
      gets.push_back("a device");
      mallory->Ask(rpc::LeaseRelease{again->lease});
    }
    if (granted && server.Gets<rpc::ServerBeat>(rpc::ClientBeat{ClaimOf(*granted), ""})) gets.push_back("its lease");
    return gets;
  }
  // The key of a server asks for a device.
  bool LeaseForAServer() {
    Caller spare(As("spare"));
    const std::optional<rpc::LeaseGranted> granted = spare.Lease("victim");
    if (granted) spare.Ask(rpc::LeaseRelease{granted->lease});
    return granted.has_value();
  }
  // Somebody else uses a grant that alice has.
  bool StolenGrant(const std::string& thief) {
    Caller alice(As("alice"));
    const std::optional<rpc::LeaseGranted> granted = alice.Lease("victim");
    EXPECT_TRUE(granted);
    if (!granted) return false;
    const bool succeeds =
        Caller(ServerAs("victim", thief)).Gets<rpc::ServerBeat>(rpc::ClientBeat{ClaimOf(*granted), ""});
    alice.Ask(rpc::LeaseRelease{granted->lease});
    return succeeds;
  }
  // The owner of a grant uses it again when the lease has ended.
  bool ReplayedGrant() {
    Caller alice(As("alice"));
    const std::optional<rpc::LeaseGranted> granted = alice.Lease("victim");
    EXPECT_TRUE(granted);
    if (!granted) return false;
    Caller server(ServerAs("victim", "alice"));
    EXPECT_TRUE(server.Gets<rpc::ServerBeat>(rpc::ClientBeat{ClaimOf(*granted), ""}));
    server.Tell(rpc::LeaseEnd{ClaimOf(*granted)});
    alice.Ask(rpc::LeaseRelease{granted->lease});
    return server.Gets<rpc::ServerBeat>(rpc::ClientBeat{ClaimOf(*granted), ""});
  }

  std::map<std::string, rpc::JoinFile> joins_;  // by member
};
#endif

}  // namespace autotune
