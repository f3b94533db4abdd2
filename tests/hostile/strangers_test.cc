// Attacks over TCP. Each fails and harms nobody; strangers_twins_test.cc shows that it succeeds without its rule.
#include <sys/resource.h>

#include "rpc/rules.h"
#include "support/rng.h"
#include "tests/draws.h"
#include "tests/hostile/strangers.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class HostileStrangers : public StrangersFarm {
 protected:
  void SetUp() override {
    StrangersFarm::SetUp();
    lease_ = DeviceOf("bystander").lease;
    for (const auto& [name, process] : Processes()) rest_[name] = Descriptors(process);
  }
  void StartProcesses() override { StartMembers(); }

  std::map<std::string, pid_t> Processes() {
    return {{"tracker", TrackerPid()}, {"victim", PidOf("victim")}, {"bystander", PidOf("bystander")}};
  }
  std::string EndpointOf(const std::string& name) {
    return "tcp://127.0.0.1:" + rpc::PortOf(name == "tracker" ? TrackerPort() : DeviceOf(name).endpoint);
  }
  static int Descriptors(pid_t process) {
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(process) + "/fd");
    return static_cast<int>(std::distance(begin(all), end(all)));
  }
  // Seconds of processor time that a process has used.
  static double CpuSeconds(pid_t process) {
    const std::string stat = test::ReadAll("/proc/" + std::to_string(process) + "/stat");
    std::istringstream rest(stat.substr(stat.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) rest >> skipped;
    double user = 0, system = 0;
    rest >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  // Makes an attack on each process, or on one. Then its connections must be gone within 6 s, even if the attacker
  // keeps its end, and the bystander must have worked all the time, with one lease.
  void Attack(const std::string& attack, const std::function<void(const std::string& endpoint, pid_t process)>& make,
              const std::string& only = "") {
    const int good = Good();
    for (const auto& [name, process] : Processes())
      if (only.empty() || name == only) make(EndpointOf(name), process);
    const int64_t begin = BootMillis();
    for (const auto& [name, process] : Processes()) {
      constexpr int kOfClients = 12;  // of those who measure just now
      EXPECT_TRUE(Soon([&] { return Descriptors(process) <= rest_[name] + kOfClients; }, Bar(6)))
          << attack << ": " << name;
    }
    const double seconds = static_cast<double>(BootMillis() - begin) / 1000;
    EXPECT_LE(seconds, Bar(6) + 0.5) << attack;
    EXPECT_TRUE(Soon([&] { return Good() > good; }, Bar(5))) << attack << ": the bystander waits";
    const rpc::StatusReply status = rpc::QueryStatus(Tracker(), "", 5).value();
    EXPECT_EQ(status.devices.size(), 2u) << attack;
    EXPECT_TRUE(status.queue.empty()) << attack;
    EXPECT_TRUE(status.holds.empty()) << attack;
    ExpectUnharmed(attack);
    EXPECT_EQ(DeviceOf("bystander").lease, lease_) << attack;
    held_.clear();
  }
  // Sends bytes over a connection, and returns the answer. Keeps the connection.
  std::string Answer(const std::string& endpoint, const std::string& bytes, int64_t milliseconds) {
    held_.emplace_back(endpoint, false).Bytes(bytes);
    return held_.back().Receive(milliseconds);
  }
  // Returns what the tracker uses of a processor while something happens, in percent.
  double CpuDuring(const std::function<void()>& something) {
    const double before = CpuSeconds(TrackerPid());
    const int64_t begin = BootMillis();
    something();
    return 1e5 * (CpuSeconds(TrackerPid()) - before) / static_cast<double>(BootMillis() - begin);
  }
  // Returns what an attack adds to what the tracker uses for the bystander.
  // On a crowded machine, the same work takes longer, so the best of three attempts counts.
  double CpuOf(const std::function<void()>& attack) {
    double best = kMostCpu;
    for (int attempt = 0; attempt < (test::DrawsAll() ? 3 : 1) && best >= kMostCpu; ++attempt) {
      const double rest = CpuDuring([this] { usleep(static_cast<useconds_t>(seconds_) * 300000); });
      const double cpu = CpuDuring(attack) - rest;
      best = attempt == 0 ? cpu : std::min(best, cpu);
    }
    return best;
  }
  static constexpr double kMostCpu = 5;  // percent of a processor
  static std::string Percent(double percent) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %% CPU", percent);
    return text;
  }

  std::vector<Peer> held_;
  const int seconds_ = test::DrawsAll() ? 30 : 2;  // of a long attack

 private:
  rpc::Id lease_;
  std::map<std::string, int> rest_;
};

TEST_F(HostileStrangers, WithoutKeysLearnNothing) {
  const std::string ask = [] {
    std::string bytes;
    const rpc::Frames frames = rpc::Encode({"r", rpc::StatusRequest{}, {}});
    for (size_t i = 0; i < frames.size(); ++i)
      bytes += Number(i + 1 < frames.size(), 1) + Number(frames[i]->size(), 1) + std::string(*frames[i]);
    return bytes;
  }();
  const std::string ready = std::string("\4\x1a\5READY\xbSocket-Type\0\0\0\6DEALER", 28);
  const std::string plain = std::string("\4\x0c\5HELLO\1a\1b", 12), old = std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10);
  const std::map<std::string, std::string> dialects = {
      {"NULL", Greeting("NULL") + ready + ask},
      {"PLAIN", Greeting("PLAIN") + plain + ask},
      {"CURVE without a HELLO", Greeting("CURVE") + ready + ask},
      {"ZMTP 1.0", std::string("\1\0", 2) + ask},
      {"ZMTP 2.0", old + std::string("\1\5\0\0", 4) + ask},
  };
  for (const auto& [name, bytes] : dialects) {
    Attack("no key, " + name, [&](const std::string& endpoint, pid_t) {
      const std::string answer = Answer(endpoint, bytes, 300);
      EXPECT_THAT(answer, Not(AnyOf(HasSubstr("READY"), HasSubstr("status_reply"), HasSubstr("victim")))) << name;
      EXPECT_LT(answer.size(), 200u) << name;
    });
  }
  Rng rng(7);
  Attack("raw garbage", [&](const std::string& endpoint, pid_t) {
    for (int i = 0; i < 300; ++i) {
      std::string bytes = rng.Below(2) ? Greeting("CURVE") : "";
      for (int64_t n = rng.Below(600); n > 0; --n) bytes += static_cast<char>(rng.Next());
      Peer(endpoint, false).Bytes(bytes);
    }
  });
}

TEST_F(HostileStrangers, HandshakesThatNeverEndAreEnded) {
  // Somebody has seen all packets of a member.
  std::map<std::string, std::string> seen;
  for (const auto& [name, process] : Processes()) {
    Relay relay(EndpointOf(name));
    rpc::Address eve = name == "tracker" ? As("eve") : ServerAs(name, "eve");
    eve.endpoints = {relay.endpoint()};
    EXPECT_TRUE(Caller(eve).Connects());
    seen[EndpointOf(name)] = relay.End();
  }
  constexpr size_t kGreeting = 64, kHello = 202;
  const int many = test::DrawsAll() ? 500 : 50;
  const std::string half = Greeting("CURVE").substr(0, 20);
  Attack(std::to_string(many) + " half-open handshakes, and half a greeting", [&](const std::string& endpoint, pid_t) {
    for (int i = 0; i < 50; ++i) held_.emplace_back(endpoint, false).Bytes(half);
    for (int i = 0; i < many; ++i)
      held_.emplace_back(endpoint, false).Bytes(seen[endpoint].substr(0, kGreeting + kHello));
    EXPECT_THAT(held_.back().Receive(2000, "WELCOME"), HasSubstr("WELCOME"));
  });
  Attack("a member's packets, sent again", [&](const std::string& endpoint, pid_t) {
    ASSERT_GT(seen[endpoint].size(), kGreeting + kHello);
    for (int i = 0; i < 10; ++i) {
      Peer& peer = held_.emplace_back(endpoint, false);
      peer.Bytes(seen[endpoint].substr(0, kGreeting + kHello));
      EXPECT_THAT(peer.Receive(2000, "WELCOME"), HasSubstr("WELCOME"));
      peer.Bytes(seen[endpoint].substr(kGreeting + kHello));
      EXPECT_THAT(peer.Receive(200), Not(HasSubstr("READY")));
    }
  });
}

TEST_F(HostileStrangers, UnfinishedMessagesTakeLittleMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not tell what is allocated";
  constexpr int64_t kMost = 128 << 20;  // bytes above rest
  const int mebibytes = test::DrawsAll() ? 1000 : 200;
  Attack(std::to_string(mebibytes) + " MiB of messages that strangers do not finish",
         [&](const std::string& endpoint, pid_t process) {
           EXPECT_LE(GrowthByStrangers(endpoint, process, mebibytes), kMost) << endpoint;
         });
}

// ZeroMQ allocates a message when its size arrives. If that counted as memory, a few strangers could have all
// connections closed again and again.
TEST_F(HostileStrangers, AnnouncedMessagesDisturbNobody) {
  const std::string announced = Greeting("CURVE") + std::string("\6", 1) + Number(4 << 20, 8);
  Attack("32 connections that announce 4 MiB, for " + std::to_string(seconds_) + " s",
         [&](const std::string& endpoint, pid_t) { HoldIdle(endpoint, 32, seconds_, {}, announced); });
  EXPECT_EQ(Log().find("closing all connections"), std::string::npos) << Log();
}

TEST_F(HostileStrangers, WrongKeysCostLittle) {
  WrongKeys crowd;
  double cpu = 0;
  const auto call = [&](const std::string& endpoint, pid_t) {
    cpu = CpuOf([&] { crowd = CallWithWrongKeys(endpoint, As("eve").public_key, 100, seconds_); });
  };
  Attack("100 wrong keys a second for " + std::to_string(seconds_) + " s", call, "tracker");
  EXPECT_EQ(crowd.let_in, 0);
  EXPECT_EQ(crowd.heard, 0);
  EXPECT_GE(crowd.made, (test::DrawsAll() ? 80 : 8) * seconds_);
  EXPECT_GE(crowd.refused, crowd.made * 4 / 10) << "all who know the tracker's key";
  std::printf("  of the tracker: %s\n", Percent(cpu).c_str());
  EXPECT_LT(cpu, test::DrawsAll() && !kSanitized ? kMostCpu : 100);
}

TEST_F(HostileStrangers, IdleConnectionsCostLittle) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int wanted = test::DrawsAll() ? 5000 : 500;
  const bool many = limit.rlim_max >= static_cast<rlim_t>(wanted) + 1000;
  if (!many) {
    std::printf("  skipped: %d connections need a hard limit of descriptors (ulimit -Hn) of %d\n", wanted,
                wanted + 1000);
    return;
  }
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  double cpu = 0;
  int most = 0;
  Attack(
      std::to_string(wanted) + " idle connections for " + std::to_string(seconds_) + " s",
      [&](const std::string& endpoint, pid_t process) {
        cpu =
            CpuOf([&] { HoldIdle(endpoint, wanted, seconds_, [&] { most = std::max(most, Descriptors(process)); }); });
      },
      "tracker");
  EXPECT_GE(most, wanted * 9 / 10);
  std::printf("  of the tracker: %s, with up to %d descriptors\n", Percent(cpu).c_str(), most);
  EXPECT_LT(cpu, test::DrawsAll() && !kSanitized ? kMostCpu : 100);
}

TEST_F(HostileStrangers, MembersDoNothingThatTheyMayNot) {
  const rpc::DeviceStatus bystander = DeviceOf("bystander");
  const auto refused = [](Caller& caller, rpc::Body body) {
    const std::string kind(rpc::KindOf(body));
    const std::optional<rpc::Message> answer = caller.Ask(std::move(body));
    ASSERT_TRUE(answer && answer->As<rpc::Refusal>()) << kind;
    EXPECT_EQ(answer->As<rpc::Refusal>()->code, rpc::code::kForbidden) << kind;
  };
  rpc::ServerReport report{.server = rpc::RandomId(), .incarnation = "i"};
  report.device = {.key = "victim", .endpoint = "tcp://127.0.0.1:1"};
  const rpc::DeviceHold lock{.pattern = "*", .how = rpc::hold::kLock};
  const rpc::LeaseRequest wish{.client = "c", .key = "victim", .wait_ms = 1000};
  std::map<std::string, std::vector<rpc::Body>> wrong = {
      {"spare", {wish, rpc::LeaseRenew{"l"}, rpc::LeaseRelease{"l"}, rpc::LeaseWithdraw{"r"}}},
      {"eve", {report, rpc::ServerGoodbye{report.server, "i"}}},
      {"root", {wish, report, rpc::ServerGoodbye{report.server, "i"}}}};
  const std::vector<rpc::Body> of_admins = {lock,
                                            rpc::LeaseRevoke{bystander.lease},
                                            rpc::MemberInvite{"mallory", "admin", joins_.at("eve").keys.public_key},
                                            rpc::MemberRevoke{"alice"},
                                            rpc::MembersRequest{},
                                            rpc::KeyRotate{1}};
  for (auto& [member, bodies] : wrong)
    if (member != "root") bodies.insert(bodies.end(), of_admins.begin(), of_admins.end());
  for (const auto& [member, bodies] : wrong) {
    Attack(
        "messages of other roles, by " + joins_.at(member).role,
        [&](const std::string&, pid_t) {
          Caller caller(As(member));
          for (const rpc::Body& body : bodies) refused(caller, body);
        },
        "tracker");
  }
  Attack(
      "messages of a tracker, to servers",
      [&](const std::string& endpoint, pid_t) {
        Caller caller(To(endpoint, joins_.at(endpoint == EndpointOf("victim") ? "victim" : "bystander").keys.public_key,
                         joins_.at("eve").keys));
        refused(caller, rpc::ReportReply{.revoked = {bystander.lease}});
      },
      "bystander");
  Attack(
      "a member that is revoked while it holds a device",
      [&](const std::string&, pid_t) { EXPECT_THAT(WhatARevokedMemberGets(), testing::IsEmpty()); }, "tracker");
  Attack(
      "a server's key that asks for a device", [&](const std::string&, pid_t) { EXPECT_FALSE(LeaseForAServer()); },
      "tracker");
  Attack(
      "a grant of another member", [&](const std::string&, pid_t) { EXPECT_FALSE(StolenGrant("eve")); }, "tracker");
  Attack(
      "a grant of a member, used with a server's key",
      [&](const std::string&, pid_t) { EXPECT_FALSE(StolenGrant("spare")); }, "tracker");
  Attack(
      "an own grant after its end", [&](const std::string&, pid_t) { EXPECT_FALSE(ReplayedGrant()); }, "tracker");
}
#endif

}  // namespace
}  // namespace autotune
