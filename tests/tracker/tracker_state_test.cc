#include "tracker/tracker_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rpc/pass_time.h"

namespace autotune {
namespace {

using rpc::Message;
using testing::ElementsAre;
using testing::HasSubstr;

// A tracker whose peers are names, and the last message to each of them.
struct World {
  explicit World(TrackerState::Options options = {}) : tracker(WithIds(std::move(options)), 0) {}
  static TrackerState::Options WithIds(TrackerState::Options options) {
    options.new_id = [n = 0]() mutable { return "id" + std::to_string(++n) + "-of-a-lease"; };
    return options;
  }
  void Take(TrackerState::Output output) {
    for (auto& [peer, message] : output) {
      if (!message.As<rpc::Ping>()) last[peer] = message;
    }
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
    Take(tracker.On(name, {"", report, {}}, now));
  }
  void Ask(const std::string& client, const std::string& key, const std::string& request, int64_t wait_ms = 600000,
           std::vector<std::string> exclude = {}) {
    rpc::LeaseRequest wish{client, client, key, exclude, "", "", wait_ms};
    last.erase(client);
    Take(tracker.On(client, {request, wish, {}}, now));
  }
  void Say(const std::string& peer, rpc::Body body) {
    last.erase(peer);
    Take(tracker.On(peer, {"r", std::move(body), {}}, now));
  }
  void Pass(int64_t ms, std::vector<std::string> alive = {}) {
    for (int64_t end = now + ms; now < end;) {
      test::PassTime(tracker, now, 100, [this](auto output) { Take(std::move(output)); });
      for (const std::string& name : alive) Report(name, "cpu");
    }
  }
  std::string RefusalOf(const std::string& peer) {
    auto* refusal = Last<rpc::Refusal>(peer);
    return refusal ? refusal->code + ": " + refusal->text : "";
  }

  TrackerState tracker;
  int64_t now = 0;
  std::map<std::string, Message> last;
};

// Otherwise one report would make the tokens of all later leases too low, past restarts of the tracker.
TEST(TrackerState, AReportWithAnImpossibleTokenIsRefused) {
  World w;
  for (const rpc::Token& token : {rpc::Token{INT64_MAX, 0}, rpc::Token{-1, 0}, rpc::Token{0, -1}}) {
    w.Report("stranger", "cpu", {}, "1", token);
    EXPECT_THAT(w.RefusalOf("stranger"), HasSubstr("malformed"));
  }
  EXPECT_EQ(w.tracker.epoch(), 1);
  const int64_t most = int64_t{1} << 53;
  w.Report("stranger", "cpu", {}, "1", {most, 7});
  EXPECT_EQ(w.tracker.epoch(), most + 1);
  w.Report("s1", "cpu", {}, "1", {most + 1, 0});  // what an honest server sees then
  EXPECT_EQ(w.RefusalOf("s1"), "");
}

TEST(TrackerState, WhatStatusShowsEndsNoLease) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  const rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  ASSERT_GT(lease.size(), 8u);
  const rpc::StatusReply status = w.tracker.Status("cpu", w.now);
  w.Say("stranger", rpc::LeaseRelease{status.devices.at(0).lease});
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a"));
  w.Say("a", rpc::LeaseRelease{lease});
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("lease_lost"));
}

TEST(TrackerState, LongIdsAreNotKept) {
  World w;
  w.Say("a", rpc::LeaseWithdraw{std::string(65, 'x')});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("too long"));
  w.Say("a", rpc::LeaseWithdraw{std::string(64, 'x')});
  EXPECT_TRUE(w.Last<rpc::LeaseReleased>("a"));
}

TEST(TrackerState, KeysAreForgottenWithTheirServers) {
  World w({.forget_ms = 60000});
  w.Report("s1", "rare");
  w.Pass(50000);
  EXPECT_EQ(w.tracker.Status("", w.now).absent_keys.count("rare"), 1u);
  w.Pass(11000);
  EXPECT_EQ(w.tracker.Status("", w.now).absent_keys.count("rare"), 0u);
}

// What servers and clients sent while the tracker stood still is unread when it goes on.
TEST(TrackerState, AStopOfTheTrackerEndsNoLease) {
  World w;
  std::vector<rpc::Id> leases;
  for (int i = 0; i < 100; ++i) {
    w.Report("s" + std::to_string(i), "cpu");
    w.Ask("c" + std::to_string(i), "cpu", "r" + std::to_string(i));
    leases.push_back(w.Last<rpc::LeaseGranted>("c" + std::to_string(i))->lease);
  }
  w.Ask("late", "cpu", "rl");
  w.Pass(2000);
  w.now += 3600 * 1000;
  w.Take(w.tracker.Wake(w.now));
  for (int i = 0; i < 100; ++i) {
    w.Say("c" + std::to_string(i), rpc::LeaseRenew{leases[static_cast<size_t>(i)]});
    EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("c" + std::to_string(i))) << i;
  }
  w.Ask("late", "cpu", "rl");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("late")) << "the client has kept its place";
  w.Pass(11000);  // a silence of the others, while the tracker runs
  w.Say("c0", rpc::LeaseRenew{leases[0]});
  EXPECT_THAT(w.RefusalOf("c0"), HasSubstr("lease_lost"));
}

TEST(TrackerState, GrantsInTheOrderOfTheRequests) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  auto* granted = w.Last<rpc::LeaseGranted>("a");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->device.endpoint, "ipc:///s1");
  rpc::Id lease = granted->lease;
  rpc::Token first = granted->token;
  w.Ask("b", "cpu", "rb");
  w.Ask("c", "cpu", "rc");
  ASSERT_TRUE(w.Last<rpc::LeaseQueued>("c"));
  EXPECT_EQ(w.Last<rpc::LeaseQueued>("c")->position, 2);
  EXPECT_THAT(w.Last<rpc::LeaseQueued>("c")->text, HasSubstr("1 of 1 devices `cpu` busy; place 2"));
  ASSERT_EQ(w.Last<rpc::LeaseQueued>("c")->holders.size(), 1u);
  EXPECT_EQ(w.Last<rpc::LeaseQueued>("c")->holders[0].client_name, "a");
  w.Say("a", rpc::LeaseRelease{lease});
  EXPECT_TRUE(w.Last<rpc::LeaseReleased>("a"));
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("b"));
  EXPECT_GT(w.Last<rpc::LeaseGranted>("b")->token, first);
  EXPECT_FALSE(w.Last<rpc::LeaseGranted>("c"));
}

TEST(TrackerState, ARepeatedRequestGetsTheSameAnswer) {
  World w;
  w.Report("s1", "cpu");
  w.Report("s2", "cpu");
  w.Ask("a", "cpu", "ra");
  rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  w.Ask("a", "cpu", "ra");
  EXPECT_EQ(w.Last<rpc::LeaseGranted>("a")->lease, lease);
  w.Ask("a", "cpu", "rb");
  EXPECT_NE(w.Last<rpc::LeaseGranted>("a")->lease, lease);
  // The lease is over: a late duplicate of the request must not take a device.
  w.Say("a", rpc::LeaseRelease{lease});
  w.Ask("a", "cpu", "ra");
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("lease_lost"));
}

TEST(TrackerState, LeasesExpireUnlessRenewed) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  w.Pass(8000, {"s1"});
  w.Say("a", rpc::LeaseRenew{lease});
  ASSERT_TRUE(w.Last<rpc::LeaseRenewed>("a"));
  EXPECT_FALSE(w.Last<rpc::LeaseRenewed>("a")->yield);
  w.Pass(8000, {"s1"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices[0].state, "busy");
  w.Pass(3000, {"s1"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices[0].state, "free");
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("lease_lost"));
  EXPECT_EQ(w.tracker.Status("", w.now).expired, 1);
}

TEST(TrackerState, AHolderYieldsAfterItsQuantumIfOthersWait) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  for (int i = 0; i < 11; ++i) {
    w.Pass(3000, {"s1"});
    w.Say("a", rpc::LeaseRenew{lease});
    EXPECT_FALSE(w.Last<rpc::LeaseRenewed>("a")->yield);
  }
  w.Ask("b", "cpu", "rb");
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a")->yield);
}

// A client that ignores the requests to yield loses the device.
TEST(TrackerState, AHolderThatDoesNotYieldIsRevoked) {
  for (const bool runs : {false, true}) {  // a candidate whose deadline is later than the time to yield
    World w;
    w.Report("s1", "cpu");
    w.Ask("a", "cpu", "ra");
    const rpc::LeaseGranted granted = *w.Last<rpc::LeaseGranted>("a");
    int64_t deadline = 31000 + 14000;  // when a candidate must have ended
    const auto hold = [&](int64_t until) {
      while (w.now < until) {
        w.Pass(1000);
        w.Say("a", rpc::LeaseRenew{granted.lease});
        w.Ask("b", "cpu", "rb");
        const int64_t left = runs && w.now > 25000 ? std::max<int64_t>(0, deadline - w.now) : 0;
        w.Report("s1", "cpu", {{granted.lease, granted.token, "a", "a", "", "", w.now, left}});
      }
    };
    hold(29000);
    EXPECT_THAT(w.Last<rpc::ReportReply>("s1")->yield, ElementsAre()) << "within the quantum";
    hold(31000);
    EXPECT_THAT(w.Last<rpc::ReportReply>("s1")->yield, ElementsAre(granted.lease));
    hold(39000);
    EXPECT_FALSE(w.Last<rpc::LeaseGranted>("b"));
    hold(42000);
    EXPECT_EQ(w.Last<rpc::LeaseGranted>("b") != nullptr, !runs);
    hold(45000);
    EXPECT_EQ(w.Last<rpc::LeaseGranted>("b") != nullptr, !runs) << "the result has a second to arrive";
    hold(47000);
    EXPECT_TRUE(w.Last<rpc::LeaseGranted>("b"));
    EXPECT_THAT(w.Last<rpc::ReportReply>("s1")->revoked, ElementsAre(granted.lease));
  }
}

TEST(TrackerState, AHolderKeepsItsDeviceIfNobodyWaitsAnyMore) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  const rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  for (int second = 0; second < 60; ++second) {
    w.Pass(1000, {"s1"});
    w.Say("a", rpc::LeaseRenew{lease});
    EXPECT_EQ(w.Last<rpc::LeaseRenewed>("a")->yield, second >= 30 && second < 35) << second;
    if (second >= 29 && second < 35) w.Ask("b", "cpu", "rb");
    if (second == 34) w.Say("b", rpc::LeaseWithdraw{"rb"});
  }
}

// Otherwise an unknown key would cost the time in which a restarted tracker learns of its servers.
TEST(TrackerState, ARestartedTrackerRefusesAnUnknownKeyAtOnce) {
  World w({.epoch = 2, .recovering = true, .keys = {{"rpi4", 5000}}});
  w.Ask("a", "rpi5", "r1");
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("unknown_key"));
  w.Ask("b", "rpi4", "r2");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("b")) << "it was known before";
  w.Report("s1", "rpi5");
  w.Ask("a", "rpi5", "r3");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  EXPECT_EQ(w.tracker.KeyAges(w.now), (std::map<std::string, int64_t>{{"rpi4", 5000}, {"rpi5", 0}}));
}

TEST(TrackerState, EventsTellWhatHappensToDevices) {
  std::vector<std::string> events;
  World w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
  const auto expect = [&](const std::string& line) {
    EXPECT_THAT(events, ElementsAre(line));
    events.clear();
  };
  w.Report("s1", "cpu");
  expect("`cpu` (server s1) registered at ipc:///s1");
  w.Report("s1", "cpu");
  EXPECT_THAT(events, ElementsAre());
  w.Ask("a", "cpu", "ra");
  expect("`cpu` (server s1) leased to a");
  w.Pass(3000, {"s1"});
  w.Say("a", rpc::LeaseRelease{w.tracker.Status("", w.now).devices[0].lease});
  EXPECT_THAT(events, ElementsAre()) << "a shortened id ends nothing";
  w.Say("a", rpc::LeaseWithdraw{"ra"});
  expect("`cpu` (server s1) returned by a after 3 s");
  w.Ask("a\nb", "cpu", "rb");
  expect("`cpu` (server s1) leased to a\\x0ab");
  w.Pass(10000, {"s1"});
  expect("`cpu` (server s1) lost by a\\x0ab after 10 s: it expired, since the client did not renew it");
  w.Pass(7000);
  expect("`cpu` (server s1) is unreachable: it stopped reporting");
  w.Report("s1", "cpu");
  expect("`cpu` (server s1) registered at ipc:///s1");
  w.Say("s1", rpc::ServerGoodbye{"s1", "1"});
  expect("`cpu` (server s1) left");
}

TEST(TrackerState, AKeyWithOtherCharactersIsRefused) {
  World w;
  for (const std::string key : {"", "a b", "x<y>", "k\n", "caf\xc3\xa9"}) {
    w.Report("s1", key);
    EXPECT_THAT(w.RefusalOf("s1"), HasSubstr("a key has")) << key;
    w.Ask("a", key, "ra");
    EXPECT_THAT(w.RefusalOf("a"), HasSubstr("a key has")) << key;
  }
  w.Report("s1", "Pi-4_b:1.5");
  EXPECT_EQ(w.RefusalOf("s1"), "");
}

// One client waits, so one of two holders yields: the one that has held longest, and only after its quantum.
TEST(TrackerState, AsManyYieldAsWait) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  rpc::Id first = w.Last<rpc::LeaseGranted>("a")->lease;
  w.now = 5000;
  w.Report("s1", "cpu");
  w.Report("s2", "cpu");
  w.Ask("b", "cpu", "rb");
  rpc::Id second = w.Last<rpc::LeaseGranted>("b")->lease;
  auto yields = [&](const std::string& holder, const rpc::Id& lease) {
    w.Say(holder, rpc::LeaseRenew{lease});
    auto* renewed = w.Last<rpc::LeaseRenewed>(holder);
    return renewed && renewed->yield;
  };
  auto hold = [&](int64_t ms) {
    for (int64_t end = w.now + ms; w.now < end;) {
      w.Pass(2500);
      w.Report("s1", "cpu");
      w.Report("s2", "cpu");
      yields("a", first), yields("b", second);
    }
  };
  hold(35000);
  w.Ask("c", "cpu", "rc");
  EXPECT_TRUE(yields("a", first));
  EXPECT_FALSE(yields("b", second));
  w.Ask("d", "cpu", "rd");
  EXPECT_TRUE(yields("b", second));
  // A holder that asks for a second device makes another holder yield, not itself.
  w.Say("c", rpc::LeaseWithdraw{"rc"});
  w.Say("d", rpc::LeaseWithdraw{"rd"});
  w.Ask("a", "cpu", "more");
  EXPECT_FALSE(yields("a", first));
  EXPECT_TRUE(yields("b", second));
  // The holder's own requests at the head of the queue do not hide the requests of others behind them.
  w.Ask("a", "cpu", "even more");
  w.Ask("c", "cpu", "rc2");
  EXPECT_TRUE(yields("a", first));
  EXPECT_TRUE(yields("b", second));
}

TEST(TrackerState, UnknownKeys) {
  World w;
  w.Report("s1", "rpi4");
  w.Report("s2", "rpi4");
  w.Ask("a", "rp4", "early");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));  // just after the start, the key's server may still arrive
  w.Pass(2900, {});
  EXPECT_EQ(w.RefusalOf("a"), "");
  w.Pass(200, {});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("unknown_key: no device has the key `rp4`; did you mean `rpi4`"));
  w.now = 5000;
  w.Report("s1", "rpi4");
  w.Ask("a", "rp4", "r1");
  EXPECT_EQ(w.RefusalOf("a"), "unknown_key: no device has the key `rp4`; did you mean `rpi4` (2 free)?");
  w.Ask("a", "zebra", "r2");
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("no device has the key `zebra`; there are `rpi4` (2 free)"));
  World empty;
  empty.now = 5000;
  empty.Ask("a", "rpi4", "r1");
  EXPECT_THAT(empty.RefusalOf("a"), HasSubstr("no other device is connected; start one: rpc_server"));
}

TEST(TrackerState, AnAbsentDeviceIsWaitedFor) {
  World w;
  w.Report("s1", "cpu");
  w.Pass(130000);
  w.Ask("a", "cpu", "ra", 4000);
  EXPECT_THAT(w.Last<rpc::LeaseQueued>("a")->text, HasSubstr("no device `cpu` is connected; last seen 2 min ago"));
  w.Pass(4100);
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("timed_out: no device became free in time: no device `cpu` is connected"));
  w.Ask("b", "cpu", "rb");
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("b"));
}

// A key is not unknown if its server arrives soon after the tracker's start.
TEST(TrackerState, AServerThatArrivesEarlyEnoughIsWaitedFor) {
  World w;
  w.Ask("a", "cpu", "ra");
  w.now = 2000;
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  w.Ask("b", "cpu", "rb");
  w.Pass(3000, {"s1"});
  EXPECT_EQ(w.RefusalOf("b"), "");
}

TEST(TrackerState, ALostTimeOutIsToldAgain) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  w.Ask("b", "cpu", "rb", 2000);
  w.Pass(2100, {"s1"});
  EXPECT_THAT(w.RefusalOf("b"), HasSubstr("timed_out"));
  w.Ask("b", "cpu", "rb", 2000);  // repeated, since the refusal was lost
  EXPECT_THAT(w.RefusalOf("b"), HasSubstr("timed_out: no device became free in time: 1 of 1"));
  EXPECT_TRUE(w.tracker.Status("", w.now).queue.empty());
}

TEST(TrackerState, AClientThatIsSilentLeavesTheQueue) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  w.Ask("gone", "cpu", "rg");
  w.Pass(5200, {"s1"});
  EXPECT_TRUE(w.tracker.Status("", w.now).queue.empty());
  w.Ask("b", "cpu", "rb");
  w.Say("b", rpc::LeaseWithdraw{"rb"});
  EXPECT_TRUE(w.tracker.Status("", w.now).queue.empty());
}

TEST(TrackerState, AWithdrawnGrantIsReleased) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  w.Say("a", rpc::LeaseWithdraw{"ra"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices[0].state, "free");
}

TEST(TrackerState, AFailedServerIsAvoidedIfThereIsAnother) {
  World w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "r1", 60000, {"s1"});
  // There is only this server, but it must first show that it is alive.
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  w.now = 1000;
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  World two;
  two.Report("s1", "cpu");
  two.Report("s2", "cpu");
  two.Ask("a", "cpu", "r1", 60000, {"s1"});
  ASSERT_TRUE(two.Last<rpc::LeaseGranted>("a"));
  EXPECT_EQ(two.Last<rpc::LeaseGranted>("a")->server, "s2");
}

TEST(TrackerState, DeadServersAreNotGranted) {
  World w;
  w.Report("s1", "cpu");
  w.Take(w.tracker.OnUnreachable("s1"));
  w.Ask("a", "cpu", "ra");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  EXPECT_EQ(w.tracker.Status("", w.now).devices[0].state, "unreachable");
  w.Report("s1", "cpu");
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  rpc::Id lease = w.Last<rpc::LeaseGranted>("a")->lease;
  // A new incarnation does not know the lease of the old one.
  w.Report("s1", "cpu", {}, "2");
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("lease_lost"));
  w.Say("s1", rpc::ServerGoodbye{"s1", "2"});
  EXPECT_TRUE(w.tracker.Status("", w.now).devices.empty());
}

TEST(TrackerState, AfterARestartLeasesAreAdoptedAndNothingIsGrantedForOneTimeToLive) {
  TrackerState::Options options;
  options.epoch = 2;
  options.recovering = true;
  World w(options);
  rpc::HeldLease held{"old", {1, 7}, "a", "a", "", "", 5000};
  w.Say("a", rpc::LeaseRenew{"old"});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a"));  // the lease's server may not have reported yet
  w.Report("s1", "cpu", {held});
  EXPECT_TRUE(w.Last<rpc::ReportReply>("s1")->revoked.empty());
  w.Report("s2", "cpu");
  w.Ask("b", "cpu", "rb");
  EXPECT_THAT(w.Last<rpc::LeaseQueued>("b")->text, HasSubstr("recovering"));
  for (int i = 0; i < 4; ++i) {
    w.Pass(2500);
    w.Say("a", rpc::LeaseRenew{"old"});
    EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a"));
    w.Report("s1", "cpu", {held});
    w.Report("s2", "cpu");
    if (i < 3) w.Ask("b", "cpu", "rb");
  }
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("b"));
  EXPECT_EQ(w.Last<rpc::LeaseGranted>("b")->server, "s2");
  EXPECT_EQ(w.Last<rpc::LeaseGranted>("b")->token.epoch, 2);
  // Later, a lease that this tracker has not granted is revoked.
  w.Report("s3", "cpu", {{"ghost", {1, 3}, "x", "x", "", "", 0}});
  EXPECT_EQ(w.Last<rpc::ReportReply>("s3")->revoked, std::vector<std::string>{"ghost"});
}

TEST(TrackerState, TokensGrowEvenIfTheEpochWasLost) {
  World w;  // epoch 1
  w.Report("s1", "cpu", {}, "1", {6, 3});
  EXPECT_EQ(w.tracker.epoch(), 7);
  w.Pass(10100, {"s1"});
  w.Ask("a", "cpu", "ra");
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  EXPECT_GT(w.Last<rpc::LeaseGranted>("a")->token, (rpc::Token{6, 3}));
}

TEST(TrackerState, AFailedKeyIsRefusedWithTheCause) {
  World w;
  w.Report("s1", "local");
  w.Ask("a", "local", "ra");
  w.Ask("b", "local", "rb");
  w.Take(w.tracker.FailKey("local", "it exploded", w.now));
  EXPECT_EQ(w.RefusalOf("b"), "key_failed: it exploded");
  w.Ask("c", "local", "rc");
  EXPECT_EQ(w.RefusalOf("c"), "key_failed: it exploded");
}

TEST(TrackerState, StatusTellsWhoHoldsAndWhoWaits) {
  World w;
  w.Report("s1", "cpu");
  w.Report("s2", "gpu");
  w.Ask("a", "cpu", "ra");
  w.now = 1500;
  w.Ask("b", "cpu", "rb");
  w.now = 2000;
  auto status = w.tracker.Status("", w.now);
  ASSERT_EQ(status.devices.size(), 2u);
  EXPECT_EQ(status.devices[0].state, "busy");
  EXPECT_EQ(status.devices[0].client_name, "a");
  EXPECT_EQ(status.devices[0].since_ms, 2000);
  EXPECT_EQ(status.devices[1].state, "free");
  ASSERT_EQ(status.queue.size(), 1u);
  EXPECT_EQ(status.queue[0].client_name, "b");
  EXPECT_EQ(status.queue[0].waiting_ms, 500);
  EXPECT_EQ(w.tracker.Status("gpu", w.now).devices.size(), 1u);
}

TEST(TrackerState, WhatDoesNotBelongHereIsRefused) {
  World w;
  w.Say("x", rpc::MeasureAccepted{});
  EXPECT_THAT(w.RefusalOf("x"), HasSubstr("unexpected: a tracker does not take a measure_accepted"));
  w.Say("x", rpc::Refusal{"a", "b"});
  EXPECT_FALSE(w.last.count("x"));  // a refusal must never be answered
  w.Say("x", rpc::Ping{"hello"});
  EXPECT_EQ(w.Last<rpc::Pong>("x")->payload, "hello");
  w.Say("x", rpc::ServerReport{});
  EXPECT_THAT(w.RefusalOf("x"), HasSubstr("malformed"));
  w.Say("x", rpc::LeaseRequest{});
  EXPECT_THAT(w.RefusalOf("x"), HasSubstr("malformed"));
}

}  // namespace
}  // namespace autotune
