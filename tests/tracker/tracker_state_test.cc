// Leases and queues of a tracker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Otherwise one report would make the tokens of all later leases too low, past restarts of the tracker.
// What servers and clients sent while the tracker stood still is unread when it goes on.
TEST(TrackerState, AStopOfTheTrackerEndsNoLease) {
  TrackerWorld w({.between_dials_ms = 0});
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

// A client that needs devices of one kind does not get others of their key, and takes none from their holders.
TEST(TrackerState, UnfitDevicesGoToOthers) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  const auto ask = [&](const std::string& client, std::vector<rpc::Id> unfit) {
    rpc::LeaseRequest wish{.client = client, .client_name = client, .key = "cpu", .wait_ms = 600000};
    wish.unfit = std::move(unfit);
    w.last.erase(client);
    w.Take(w.tracker.On(TrackerWorld::As(client), {"r" + client, wish, {}}, w.now));
  };
  ask("a", {"s1"});
  ASSERT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  EXPECT_THAT(w.Last<rpc::LeaseQueued>("a")->text, HasSubstr("1 unfit for this run"));
  ask("b", {});
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("b")) << "who can use it does not wait for who cannot";
  const rpc::Id lease = w.Last<rpc::LeaseGranted>("b")->lease;
  const auto yields_after_its_quantum = [&] {
    for (int second = 0; second < 40; ++second) {
      w.Pass(1000, {"s1"});
      ask("a", {"s1"});
      w.Say("b", rpc::LeaseRenew{lease});
      if (!w.Last<rpc::LeaseRenewed>("b")) return true;
      if (w.Last<rpc::LeaseRenewed>("b")->yield) return true;
    }
    return false;
  };
  EXPECT_FALSE(yields_after_its_quantum());
  w.Report("s2", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  ask("c", {});
  for (int second = 0; second < 3; ++second) {
    w.Pass(1000, {"s1", "s2"});
    ask("c", {});
  }
  w.Say("b", rpc::LeaseRenew{lease});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("b")->yield) << "another client that waits can use it";
}

TEST(TrackerState, GrantsInTheOrderOfTheRequests) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  auto* granted = w.Last<rpc::LeaseGranted>("a");
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->device->endpoint, "ipc:///s1");
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
  TrackerWorld w;
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
  TrackerWorld w;
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
  TrackerWorld w;
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
    TrackerWorld w;
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
  TrackerWorld w;
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
// One peer must not fill the tracker's memory with servers that it makes up.
// One client waits, so one of two holders yields: the one that has held longest, and only after its quantum.
TEST(TrackerState, AsManyYieldAsWait) {
  TrackerWorld w;
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

// A key is not unknown if its server arrives soon after the tracker's start.
TEST(TrackerState, ALostTimeOutIsToldAgain) {
  TrackerWorld w;
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
  TrackerWorld w;
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
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  w.Say("a", rpc::LeaseWithdraw{"ra"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices[0].state, "free");
}

TEST(TrackerState, AFailedServerIsAvoidedIfThereIsAnother) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "r1", 60000, {"s1"});
  // There is only this server, but it must first show that it is alive.
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  w.now = 1000;
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  TrackerWorld two;
  two.Report("s1", "cpu");
  two.Report("s2", "cpu");
  two.Ask("a", "cpu", "r1", 60000, {"s1"});
  ASSERT_TRUE(two.Last<rpc::LeaseGranted>("a"));
  EXPECT_EQ(two.Last<rpc::LeaseGranted>("a")->server, "s2");
}

TEST(TrackerState, AQuarantinedDeviceIsGrantedToNobody) {
  TrackerWorld w;
  rpc::ServerReport report{
      .server = "s1", .incarnation = "1", .device = {.key = "gpu", .endpoint = "ipc:///s1"}, .quarantine = "bit flip"};
  w.Say("s1", report);
  w.Ask("a", "gpu", "ra");
  ASSERT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  w.Pass(2000);
  w.Ask("a", "gpu", "ra");
  EXPECT_EQ(w.Last<rpc::LeaseQueued>("a")->text, "0 of 1 devices `gpu` busy, 1 quarantined; place 1 in the queue");
  const rpc::DeviceStatus shown = w.tracker.Status("", w.now).devices.at(0);
  EXPECT_EQ(shown.state, "quarantined");
  EXPECT_EQ(shown.why, "bit flip");
  report.quarantine = "";
  report.ready = true;
  w.Say("s1", report);
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).why, "");
}

TEST(TrackerState, DeadServersAreNotGranted) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Take(w.tracker.OnUnreachable("s1", w.now));
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
  TrackerWorld w(options);
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

TEST(TrackerState, AGrantDescribesTheDeviceAsOfItsLatestReport) {
  TrackerWorld w;
  rpc::ServerReport report{.server = "s1", .incarnation = "1", .ready = true};
  report.device.key = "cpu";
  report.device.endpoint = "ipc:///s1";
  for (const char* model : {"board", "board", "another board"}) {
    report.device.model = model;
    w.Take(w.tracker.On(w.As("s1"), {"", report, {}}, w.now));
    w.Ask("a", "cpu", "r" + std::to_string(++w.now));
    const auto* granted = w.Last<rpc::LeaseGranted>("a");
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->device->model, model);
    EXPECT_EQ(granted->device.cbor(), ToCbor(report.device));
    w.Say("a", rpc::LeaseRelease{granted->lease, ""});
  }
}

TEST(TrackerState, TokensGrowEvenIfTheEpochWasLost) {
  TrackerWorld w;  // epoch 1
  w.Report("s1", "cpu", {}, "1", {6, 3});
  EXPECT_EQ(w.tracker.epoch(), 7);
  w.Pass(10100, {"s1"});
  w.Ask("a", "cpu", "ra");
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  EXPECT_GT(w.Last<rpc::LeaseGranted>("a")->token, (rpc::Token{6, 3}));
}

}  // namespace
}  // namespace autotune
