// Attacks by local processes that connect to the tracker or to a device server: raw bytes, and messages of the
// protocol.
#include <sys/resource.h>

#include "rpc/message.h"
#include "support/json.h"
#include "support/rng.h"
#include "tests/draws.h"
#include "tests/hostile/attack.h"
#include "tests/hostile/hostile.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
using rpc::Message;

class HostilePeers : public Hostile {
 protected:
  std::vector<std::string> Listeners() {
    return {Tracker(), DeviceOf("victim").endpoint, DeviceOf("bystander").endpoint};
  }
  // Makes an attack on each process that listens.
  void OnAll(const std::string& attack, const std::function<void(const std::string& endpoint)>& make) {
    for (const std::string& endpoint : Listeners()) make(endpoint);
    ExpectUnharmed(attack);
  }
  void On(const std::string& attack, const std::string& endpoint, const std::function<void(Peer&)>& make) {
    Peer peer(endpoint);
    EXPECT_TRUE(peer.connected()) << attack;
    make(peer);
    ExpectUnharmed(attack);
  }
  static rpc::ServerReport Report(const std::string& server, const std::string& key = "victim") {
    rpc::ServerReport report;
    report.server = server;
    report.incarnation = "made up";
    report.device.key = key;
    report.device.endpoint = "ipc:///nowhere";
    return report;
  }
};

// libzmq aborts the process if it stops reading from a peer, whose queue is full, and the peer leaves.
TEST_F(HostilePeers, FloodsOfThoseWhoLeaveHarmNobody) {
  const int floods = test::DrawsAll() ? 30 : 8;
  for (const bool pings : {true, false}) {
    OnAll(pings ? "floods with heartbeats, by peers that leave" : "floods by peers that leave",
          [&](const std::string& endpoint) {
            for (int flood = 0; flood < floods; ++flood) {
              Peer peer(endpoint);
              for (int i = 0; i < 4000 && peer.Send({"f", rpc::StatusRequest{}, {}}); ++i)
                if (pings) peer.Ping();
            }
          });
  }
}

// Each connection takes memory, which is no unfinished message.
TEST_F(HostilePeers, AThousandConnectionsStay) {
  rlimit descriptors{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 1000; ++i) {
    peers.push_back(std::make_unique<Peer>(Tracker()));
    ASSERT_TRUE(peers.back()->connected());
    peers.back()->Send({"s", rpc::StatusRequest{}, {}});
  }
  EXPECT_TRUE(Soon([&] { return rpc::QueryStatus(Tracker()).ok(); }));
  EXPECT_TRUE(std::ranges::all_of(peers, [](auto& peer) { return peer->Ping(); })) << "connections were closed";
  peers.clear();
  ExpectUnharmed("1,000 connections");
}

TEST_F(HostilePeers, RawBytesHarmNobody) {
  Rng rng(5);
  OnAll("garbage", [&](const std::string& endpoint) {
    for (int i = 0; i < 200; ++i) {
      Peer peer(endpoint, rng.Below(2) == 0);
      std::string bytes;
      for (int64_t n = rng.Below(300); n > 0; --n) bytes += static_cast<char>(rng.Next());
      peer.Bytes(bytes);
    }
  });
  std::vector<Peer> idle;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const int many = limit.rlim_max > 6000 ? 1500 : 300;  // more than the usual limit of descriptors, if it can be raised
  OnAll(std::to_string(many) + " connections that stay silent", [&](const std::string& endpoint) {
    for (int i = 0; i < many; ++i) idle.emplace_back(endpoint, false);
  });
  idle.clear();
  OnAll("half a greeting", [&](const std::string& endpoint) {
    idle.emplace_back(endpoint, false);
    idle.back().Bytes(std::string("\xff\0\0\0", 4));
  });
  idle.clear();
  OnAll("frames that announce 2^62 bytes", [&](const std::string& endpoint) {
    for (int i = 0; i < 100; ++i)
      Peer(endpoint).Bytes(std::string("\2", 1) + Number(size_t{1} << 62, 8) + "some of it");
  });
  OnAll("frames that announce 5 MiB", [&](const std::string& endpoint) {
    for (int i = 0; i < 100; ++i) Peer(endpoint).Bytes(std::string("\2", 1) + Number(5 << 20, 8) + "some of it");
  });
  OnAll("200,000 frames in a message", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    std::string frames;
    for (int i = 0; i < 200000; ++i) frames += std::string("\1\0", 2);
    peer.Bytes(frames + std::string("\0\0", 2));
  });
  OnAll("10,000 messages without a header", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    for (int i = 0; i < 10000; ++i) peer.Bytes(std::string("\0\3abc", 5));
  });
  OnAll("an HTTP request",
        [&](const std::string& endpoint) { Peer(endpoint, false).Bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); });
  OnAll("bodies nested 100,000 deep", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    for (int i = 0; i < 10; ++i) {
      peer.Frame(std::string(100000, '\x81'), true);
      peer.Frame(std::string(100000, '\xa1'), false);
    }
  });
  OnAll("lists that announce 2^60 elements", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    for (int i = 0; i < 100; ++i)
      peer.Frame("\x9b" + Number(size_t{1} << 60, 8), true) && peer.Frame("\xbb" + Number(size_t{1} << 60, 8), false);
  });
  OnAll("another major version", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    for (int i = 0; i < 1000; ++i)
      peer.Frame(Json(Json::Object{{"major", 99}, {"kind", "ping"}, {"request", "r"}}).Cbor(), true) &&
          peer.Frame(Json(Json::Object{}).Cbor(), false);
  });
  OnAll("a peer that sends and never reads", [&](const std::string& endpoint) {
    Peer peer(endpoint);
    for (int i = 0; i < 20000; ++i) {
      if (!peer.SendAs("ping", {{"payload", std::string(1000, 'x')}})) break;
    }
  });
  std::printf("%d attacks\n", attacks_);
}

// Frames of messages that never end, which libzmq keeps. The process then closes all connections and listens anew.
TEST_F(HostilePeers, UnfinishedMessagesHarmNobody) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not tell what is allocated";
  constexpr int64_t kMost = 128 << 20;                  // bytes above rest
  const int mebibytes = test::DrawsAll() ? 1000 : 300;  // six times what makes a process listen anew, or more
  const std::vector<std::string> endpoints = Listeners();
  const std::vector<pid_t> processes = {TrackerPid(), PidOf("victim"), PidOf("bystander")};
  for (size_t i = 0; i < endpoints.size(); ++i) {
    for (const int connections : {1, 300}) {
      // A busy machine may keep the process from looking, so the best of three attempts counts.
      int64_t most = INT64_MAX;
      for (int attempt = 0; attempt < 3 && most > kMost; ++attempt)
        most = std::min(most, MostWhileUnfinished(endpoints[i], processes[i], connections, mebibytes));
      EXPECT_LE(most, kMost);
      ExpectUnharmed(std::to_string(mebibytes) + " MiB of unfinished messages, " + std::to_string(connections) +
                     " connections, " + std::to_string(most >> 20) + " MiB");
    }
  }
  std::printf("%d attacks\n", attacks_);
}

// The tracker dials an address at which a program answers without end. No other connection is closed for it.
TEST_F(HostilePeers, AnAnswerWithoutEndHarmsNobody) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not tell what is allocated";
  constexpr int64_t kMost = 128 << 20;  // bytes above rest
  const std::string path = folder_ + "/flood", frame(4000, 'x');
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, 107);
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  Peer reporter(Tracker());
  rpc::ServerReport report = Report("flood", "flood");
  report.device.endpoint = "ipc://" + path;
  reporter.Send({"", report, {}});
  const int64_t rest = MemoryOf(TrackerPid());
  int64_t most = 0;
  Peer answering(UniqueFd(accept(listener.get(), nullptr, nullptr)));
  for (int frames = 0; frames < 1 << 20 && answering.Frame(frame, true); ++frames) {
    if (frames % 64 == 0) most = std::max(most, MemoryOf(TrackerPid()) - rest);
  }
  EXPECT_LE(most, kMost);
  ExpectUnharmed("an answer without end to a dial, " + std::to_string(most >> 20) + " MiB");
  EXPECT_EQ(Log().find("closing all connections"), std::string::npos) << Log();
  EXPECT_TRUE(reporter.connected());
  std::printf("%d attacks\n", attacks_);
}

TEST_F(HostilePeers, MessagesToTheTrackerHarmNobody) {
  const rpc::DeviceStatus victim = DeviceOf("victim"), bystander = DeviceOf("bystander");
  On("50 withdrawals with ids of 2 MiB", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 50; ++i) peer.SendAs("lease_withdraw", {{"withdrawn", std::string(2 << 20, 'x')}});
  });
  On("5,000 requests for the status", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 5000; ++i) peer.Send({"s" + std::to_string(i), rpc::StatusRequest{}, {}});
  });
  On("20,000 servers that do not exist", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 20000; ++i) peer.Send({"", Report("made-up-" + std::to_string(i)), {}});
  });
  // The tracker dials each of them.
  On("a server at another address in each of 5,000 reports", Tracker(), [&](Peer& peer) {
    for (int i = 0; i < 5000; ++i) {
      rpc::ServerReport report = Report("stranger", "strange");
      const std::string addresses[] = {"ipc:///tmp/nobody-" + std::to_string(i),   Tracker(),   bystander.endpoint,
                                       "tcp://127.0.0.1:" + std::to_string(1 + i), "udp://x y", ""};
      report.device.endpoint = addresses[i % std::size(addresses)];
      peer.Send({"", report, {}});
    }
  });
  On("20,000 keys that nobody has", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 20000; ++i)
      peer.Send({"", Report("keyed-" + std::to_string(i), "key-" + std::to_string(i)), {}});
  });
  On("reports with errors of 3 MiB", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 2; ++i)
      peer.SendAs("server_report", {{"server", "s"}, {"incarnation", "i"}, {"last_error", std::string(3 << 20, 'x')}});
  });
  On("a report with 100,000 leases", Tracker(), [](Peer& peer) {
    peer.SendAs("server_report",
                {{"server", "s"}, {"incarnation", "i"}, {"leases", Json::Array(100000, Json(Json::Object{}))}});
  });
  On("a report with negative numbers", Tracker(), [](Peer& peer) {
    rpc::ServerReport report = Report("stranger");
    report.highest = {-5, -5};
    report.device.memory_bytes = INT64_MIN;
    report.leases = {{.lease = "l", .token = {-1, -1}, .client = "c", .held_ms = INT64_MIN, .deadline_ms = INT64_MAX}};
    report.trials = {{"ok", INT64_MIN}};
    peer.Send({"", report, {}});
  });
  On("a report in the name of the attacked server", Tracker(), [&](Peer& peer) {
    for (int i = 0; i < 100; ++i) peer.Send({"", Report(victim.server), {}});
  });
  On("a report in the name of the bystander's server", Tracker(), [&](Peer& peer) {
    for (int i = 0; i < 100; ++i) peer.Send({"", Report(bystander.server, "bystander"), {}});
  });
  On("a goodbye in the name of other servers", Tracker(), [&](Peer& peer) {
    for (const std::string& server : {victim.server, bystander.server})
      peer.Send({"", rpc::ServerGoodbye{server, "made up"}, {}});
  });
  On("the release of a lease that the status shows", Tracker(), [&](Peer& peer) {
    peer.Send({"r", rpc::LeaseRelease{bystander.lease}, {}});
    peer.Send({"r", rpc::LeaseRelease{""}, {}});
  });
  On("the renewal of a lease that the status shows", Tracker(), [&](Peer& peer) {
    peer.Send({"r", rpc::LeaseRenew{bystander.lease}, {}});
  });
  On("20,000 requests for leases", Tracker(), [](Peer& peer) {
    for (int i = 0; i < 20000; ++i) {
      rpc::LeaseRequest request{.client = "c" + std::to_string(i), .key = "open", .wait_ms = INT64_MAX};
      peer.Send({"request" + std::to_string(i), request, {}});
      peer.Send({"w" + std::to_string(i), rpc::LeaseWithdraw{"request" + std::to_string(i)}, {}});
    }
  });
  On("keys with markup", Tracker(), [](Peer& peer) {
    for (const char* key : {"a b<script>", "", "\033[2J", "x\ny"}) {
      peer.Send({"", Report("stranger", key), {}});
      peer.Send({"r", rpc::LeaseRequest{.client = "c", .key = key}, {}});
    }
  });
  On("requests for a status of 20,000 keys", Tracker(), [](Peer& peer) {
    const int many = test::DrawsAll() ? 5000 : 200;  // each answer takes milliseconds
    for (int i = 0; i < many; ++i) peer.Send({"s" + std::to_string(i), rpc::StatusRequest{}, {}});
  });
  On("messages of a runner", Tracker(), [](Peer& peer) {
    peer.Send({"r", rpc::RunnerHello{1, ""}, {}});
    peer.Send({"r", rpc::RunnerResult{}, {}});
  });
  On("texts that are not UTF-8", Tracker(), [](Peer& peer) {
    peer.SendAs("server_report", {{"server", "\xff\xfe"}, {"incarnation", "\xc0"}, {"last_error", "\x80"}});
  });
  // In the first 10 s of its life, a tracker lets reports of later tokens begin its recovery anew.
  const auto is_old = [&] {
    const auto status = rpc::QueryStatus(Tracker(), "", 5);
    return status.ok() && status->uptime_ms > 10000;
  };
  ASSERT_TRUE(Soon(is_old)) << Log();
  On("a report with the epoch 2^63 - 1", Tracker(), [](Peer& peer) {
    rpc::ServerReport report = Report("stranger");
    report.highest = {INT64_MAX, INT64_MAX};
    peer.Send({"", report, {}});
  });
  On("a report with a lease of the epoch 2^63 - 1", Tracker(), [](Peer& peer) {
    rpc::ServerReport report = Report("stranger");
    report.leases = {{.lease = "l", .token = {INT64_MAX, 1}, .client = "c"}};
    peer.Send({"", report, {}});
  });
  On("epochs that rise in 2,000 reports", Tracker(), [](Peer& peer) {
    for (int64_t i = 0; i < 2000; ++i) {
      rpc::ServerReport report = Report("stranger");
      report.highest = {i + 2, 1};
      peer.Send({"", report, {}});
    }
  });
  const auto status = rpc::QueryStatus(Tracker(), "", 5);
  ASSERT_TRUE(status.ok());
  EXPECT_GT(status->grants, 0);
  std::printf("%d attacks\n", attacks_);
}

TEST_F(HostilePeers, MessagesToAServerHarmNobody) {
  for (const char* key : {"victim", "bystander"}) {
    const rpc::DeviceStatus device = DeviceOf(key);
    const std::string to = std::string(" to the server of ") + key;
    On("a claim with the epoch 2^63 - 1" + to, device.endpoint, [&](Peer& peer) {
      rpc::LeaseClaim claim{.lease = "l", .token = {INT64_MAX, INT64_MAX}, .ttl_ms = INT64_MAX, .client = "c"};
      for (const Message& message :
           {Message{"r", rpc::ClientBeat{claim, ""}, {}}, Message{"r", rpc::LeaseEnd{claim}, {}},
            Message{"r", rpc::MeasureRequest{claim, {}, {}, false}, {}}})
        peer.Send(message);
    });
    On("claims with old tokens" + to, device.endpoint, [&](Peer& peer) {
      for (int64_t i = -100; i < 100; ++i) {
        rpc::LeaseClaim claim{.lease = device.lease, .token = {0, i}, .ttl_ms = 1000, .client = "c"};
        peer.Send({"r", rpc::LeaseEnd{claim}, {}});
        peer.Send({"r", rpc::BatchCancel{claim, "b"}, {}});
      }
    });
    On("acknowledgements of others' results" + to, device.endpoint, [&](Peer& peer) {
      for (int i = 0; i < 1000; ++i) peer.Send({"r", rpc::ResultAck{"b", std::to_string(i % 64)}, {}});
    });
    On("messages of a tracker and a runner" + to, device.endpoint, [&](Peer& peer) {
      peer.Send({"r", rpc::ReportReply{.revoked = {device.lease}, .yield = {device.lease}}, {}});
      peer.Send({"r", rpc::RunnerResult{}, {}});
      peer.Send({"r", rpc::Refusal{"stale_lease", "x"}, {}});
    });
    On("5,000 pings" + to, device.endpoint, [&](Peer& peer) {
      for (int i = 0; i < 5000; ++i) peer.Send({"p", rpc::Ping{std::string(4000, 'x')}, {}});
    });
  }
  std::printf("%d attacks\n", attacks_);
}
#endif

}  // namespace
}  // namespace autotune
