// Drains, locks and revocations: what administrators ask of a tracker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A tracker that an administrator asks.
struct HoldWorld : TrackerWorld {
  using TrackerWorld::TrackerWorld;
  void Admin(rpc::Body body) {
    last.erase("admin");
    Take(tracker.On(As("admin"), {"admin" + std::to_string(++requests), std::move(body), {}}, now));
  }
  void Hold(const std::string& how, const std::string& pattern, int64_t for_ms = 0, const std::string& note = "") {
    Admin(rpc::DeviceHold{pattern, how, for_ms, note, "ann@lab"});
  }
  rpc::DeviceStatus Device(size_t i = 0) { return tracker.Status("", now).devices.at(i); }
  rpc::Id Lease(const std::string& client, const std::string& key) {
    Ask(client, key, "of-" + client);
    const auto* granted = Last<rpc::LeaseGranted>(client);
    return granted ? granted->lease : "";
  }
  // Reports that the server's candidate runs, or that none does, for the lease.
  void Work(const std::string& server, const std::string& key, const rpc::Id& lease, bool runs) {
    rpc::HeldLease held;
    held.lease = lease;
    held.deadline_ms = runs ? 10000 : 0;
    Report(server, key, {held});
  }
  int requests = 0;
};

TEST(TrackerHolds, AHeldDeviceIsGrantedToNobody) {
  for (const std::string how : {"", "drain", "lock"}) {
    HoldWorld w;
    w.Report("s1", "pi4-1");
    w.Report("s2", "cpu");
    if (!how.empty()) w.Hold(how, "pi4-*");
    w.Ask("a", "pi4-1", "ra");
    EXPECT_EQ(w.Last<rpc::LeaseGranted>("a") != nullptr, how.empty()) << how;
    w.Ask("b", "cpu", "rb");
    EXPECT_TRUE(w.Last<rpc::LeaseGranted>("b")) << "which no hold names";
    if (how.empty()) continue;
    EXPECT_EQ(w.Device(0).state, how == "drain" ? "drained" : "locked");
    w.Hold("none", "pi4-*");
    EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a")) << "who waited";
    EXPECT_EQ(w.Device(0).state, "busy");
  }
}

TEST(TrackerHolds, ADrainKeepsTheLeaseAndALockEndsIt) {
  for (const std::string how : {"drain", "lock"}) {
    HoldWorld w;
    w.Report("s1", "cpu");
    const rpc::Id lease = w.Lease("a", "cpu");
    w.last.erase("s1");
    w.Hold(how, "cpu", 0, "new fan");
    const auto* held = w.Last<rpc::DeviceHeld>("admin");
    ASSERT_TRUE(held && held->devices.size() == 1);
    EXPECT_EQ(held->devices[0].client_name, "a");
    EXPECT_EQ(held->devices[0].state, how == "drain" ? "busy" : "locked");
    const auto* told = w.Last<rpc::ReportReply>("s1");
    const auto revoked = told ? told->revoked : std::vector<rpc::Id>();
    EXPECT_EQ(revoked, how == "drain" ? std::vector<rpc::Id>() : std::vector<rpc::Id>{lease}) << "at once";
    EXPECT_THAT(w.Device().why, HasSubstr("by ann@lab: new fan"));
    w.Say("a", rpc::LeaseRenew{lease});
    EXPECT_EQ(w.Last<rpc::LeaseRenewed>("a") != nullptr, how == "drain");
    w.Say("a", rpc::LeaseRelease{lease});
    EXPECT_EQ(w.Device().state, how == "drain" ? "drained" : "locked");
    w.Ask("b", "cpu", "rb");
    EXPECT_FALSE(w.Last<rpc::LeaseGranted>("b"));
  }
}

TEST(TrackerHolds, AHoldEndsExactlyAtItsTime) {
  HoldWorld w;
  w.Report("s1", "cpu");
  w.Pass(250, {"s1"});
  w.Hold("drain", "cpu", 1500);
  const int64_t end = w.now + 1500;
  w.Ask("a", "cpu", "ra");
  while (w.tracker.NextWake() < end) {
    w.now = w.tracker.NextWake();
    w.Take(w.tracker.Wake(w.now));
    ASSERT_FALSE(w.Last<rpc::LeaseGranted>("a")) << w.now;
  }
  ASSERT_EQ(w.tracker.NextWake(), end);
  w.now = end;
  w.Take(w.tracker.Wake(w.now));
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  EXPECT_THAT(w.tracker.CurrentHolds(w.now), IsEmpty());
}

// An administrator states the end as a time of day. A stop of the tracker does not move it, unlike the deadlines of
// peers.
TEST(TrackerHolds, AStopOfTheTrackerMovesNoEndOfAHold) {
  HoldWorld w;
  w.Report("s1", "cpu");
  w.Hold("drain", "cpu", 60000);
  w.now += 59000;
  w.Take(w.tracker.Wake(w.now));
  EXPECT_EQ(w.Device().state, "drained");
  w.now += 1000;
  w.Take(w.tracker.Wake(w.now));
  EXPECT_EQ(w.Device().state, "free");
}

TEST(TrackerHolds, ARestartKeepsHoldsAndAnswersComeAfterTheyAreStored) {
  HoldWorld before;
  before.Report("s1", "cpu");
  before.Report("s2", "gpu");
  std::vector<int> saves;  // before each message
  before.on_message = [&](const auto&, const auto&) { saves.push_back(before.saves); };
  before.Take(
      before.tracker.On(before.As("admin"), {"r1", rpc::DeviceHold{"cpu", "lock", 5000, "new fan", "ann@lab"}, {}}, 0));
  before.Take(before.tracker.On(before.As("admin"), {"r2", rpc::StatusRequest{}, {}}, 0));
  EXPECT_THAT(saves, testing::ElementsAre(1, 1)) << "a status stores nothing";
  before.Hold("drain", "gpu");
  EXPECT_EQ(saves.back(), 2);
  before.Pass(2000);
  HoldWorld w({.epoch = 2, .holds = before.tracker.CurrentHolds(before.now)});
  w.Report("s1", "cpu");
  w.Report("s2", "gpu");
  EXPECT_EQ(w.Device(0).state, "locked");
  EXPECT_THAT(w.Device(0).why, HasSubstr("locked by ann@lab for another 3 s: new fan"));
  EXPECT_EQ(w.Device(1).state, "drained");
  w.Pass(3000, {"s1"});
  EXPECT_EQ(w.Device(0).state, "free") << "its time is over";
  EXPECT_EQ(w.Device(1).state, "drained") << "it has no end";
}

// A server reports its lease to a restarted tracker, which adopts it if its device is only drained.
TEST(TrackerHolds, ARestartedTrackerAdoptsNoLeaseOfALockedDevice) {
  for (const std::string how : {"drain", "lock"}) {
    HoldWorld w({.epoch = 2, .recovering = true, .holds = {{"cpu", how, 0, "", "ann@lab"}}});
    w.Work("s1", "cpu", "old-lease", true);
    const auto& revoked = w.Last<rpc::ReportReply>("s1")->revoked;
    EXPECT_THAT(revoked, SizeIs(how == "lock" ? 1 : 0));
    EXPECT_EQ(w.Device().state, how == "lock" ? "locked" : "busy");
  }
}

TEST(TrackerHolds, AHoldIsForLaterDevicesToo) {
  HoldWorld w;
  w.Report("s1", "pi4-1");
  w.Hold("drain", "pi4-?");
  w.Report("s2", "pi4-2");
  w.Report("s3", "pi4-13");
  EXPECT_EQ(w.Device(1).state, "drained");
  EXPECT_EQ(w.Device(2).state, "free") << "'?' is one character";
  w.Report("s3", "pi4-3", {}, "2");  // restarted with another key
  EXPECT_EQ(w.Device(2).state, "drained");
  w.Report("s3", "pi4-13", {}, "3");
  EXPECT_EQ(w.Device(2).state, "free");
}

TEST(TrackerHolds, APatternMayNameOneServerByItsDigits) {
  HoldWorld w;
  w.Report("1a2b3c4d5e6f", "cpu");
  w.Report("1a2bffffffff", "cpu");
  w.Hold("drain", "1a2b3");
  EXPECT_EQ(w.Device(0).state, "drained");
  EXPECT_EQ(w.Device(1).state, "free");
  EXPECT_THAT(w.Last<rpc::DeviceHeld>("admin")->devices, SizeIs(1));
  w.Hold("drain", "1a2*");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("unknown_device")) << "so few digits name a server by chance";
}

TEST(TrackerHolds, TheStrictestHoldCounts) {
  HoldWorld w;
  w.Report("s1", "cpu");
  w.Hold("lock", "cpu", 1000, "short");
  w.Hold("drain", "c*", 5000, "long");
  EXPECT_EQ(w.Device().state, "locked");
  w.Pass(1000, {"s1"});
  EXPECT_EQ(w.Device().state, "drained");
  EXPECT_THAT(w.Device().why, HasSubstr("long"));
  w.Hold("drain", "c*", 1000, "shorter");  // replaces the other one of this pattern
  EXPECT_THAT(w.tracker.CurrentHolds(w.now), SizeIs(1));
  w.Pass(1000, {"s1"});
  EXPECT_EQ(w.Device().state, "free");
}

TEST(TrackerHolds, WhatNoDeviceMatchesIsRefusedWithNearMisses) {
  HoldWorld w;
  w.Hold("drain", "pi4-*");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("no device matches `pi4-*`, and none has registered yet"));
  w.Report("s1", "rpi4-1");
  w.Hold("drain", "pi4-*");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("no device matches `pi4-*`; did you mean `rpi4-1`?"));
  w.Hold("drain", "gpu");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("no device matches `gpu`; there are `rpi4-1`"));
  w.Hold("none", "rpi4-1");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("no drain or lock has the pattern `rpi4-1`"));
  w.Say("s1", rpc::ServerGoodbye{"s1", "1"});
  w.Hold("drain", "rpi4-1");
  EXPECT_TRUE(w.Last<rpc::DeviceHeld>("admin")) << "its key is known";
  w.Hold("none", "rpi5");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("there are `rpi4-1`"));
  w.Hold("none", "rpi*");
  EXPECT_THAT(w.Last<rpc::DeviceHeld>("admin")->patterns, ElementsAre("rpi4-1"));
}

TEST(TrackerHolds, WhatIsOutOfRangeIsRefused) {
  HoldWorld w;
  w.Report("s1", "cpu");
  const auto expect_refused = [&](const char* code) {
    EXPECT_THAT(w.RefusalOf("admin"), HasSubstr(code));
    EXPECT_EQ(w.Device().state, "free");
  };
  w.Hold("drain", "");
  expect_refused("malformed");
  w.Hold("drain", "c\nu");
  expect_refused("malformed");
  w.Hold("paint", "cpu");
  expect_refused("malformed");
  w.Hold("drain", "cpu", -1);
  expect_refused("malformed");
  w.Hold("drain", "cpu", INT64_MAX);
  expect_refused("malformed");
  w.last.erase("admin");
  w.Take(w.tracker.On(w.As("admin"), {"", rpc::DeviceHold{"cpu", "drain"}, {}}, w.now));
  expect_refused("malformed");
}

TEST(TrackerHolds, TheNumberOfHoldsIsBounded) {
  HoldWorld w;
  w.Report("s1", "cpu");
  const auto pattern = [](size_t i) { return std::string(i, '*') + "cpu"; };
  for (size_t i = 0; i < rpc::kMostHolds - 3; ++i) w.Hold("drain", pattern(i));
  for (const std::string more : {"c*", "c?u", "?pu"}) w.Hold("drain", more);
  EXPECT_TRUE(w.Last<rpc::DeviceHeld>("admin"));
  w.Hold("drain", "cp?");
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("too_large"));
  w.Hold("lock", "c*");
  EXPECT_TRUE(w.Last<rpc::DeviceHeld>("admin")) << "it replaces one";
  w.Hold("none", "*");
  EXPECT_THAT(w.Last<rpc::DeviceHeld>("admin")->patterns, SizeIs(rpc::kMostHolds));
  EXPECT_EQ(w.Device().state, "free");
}

TEST(TrackerHolds, OnlyAnAdministratorMayHoldAndRevoke) {
  for (const bool is_admin : {false, true}) {
    HoldWorld w;
    w.Report("s1", "cpu");
    const rpc::Id lease = w.Lease("a", "cpu");
    rpc::From from{.peer = "x", .roles = {rpc::Role::kClient, rpc::Role::kServer}};
    if (is_admin) from.roles = {rpc::Role::kAdmin};
    w.Take(w.tracker.On(from, {"r1", rpc::LeaseRevoke{lease, "x"}, {}}, w.now));
    EXPECT_EQ(w.RefusalOf("x"), is_admin ? "" : "forbidden: the sender may not send a lease_revoke");
    EXPECT_EQ(w.Device().state, is_admin ? "free" : "busy");
    w.last.erase("x");
    w.Take(w.tracker.On(from, {"r2", rpc::DeviceHold{"cpu", "lock", 0, "", "x"}, {}}, w.now));
    EXPECT_EQ(w.RefusalOf("x"), is_admin ? "" : "forbidden: the sender may not send a device_hold");
    EXPECT_EQ(w.Device().state, is_admin ? "locked" : "busy");
  }
}

TEST(TrackerHolds, AnAuthenticatedNameCounts) {
  HoldWorld w;
  w.Report("s1", "cpu");
  const rpc::From from{.peer = "admin", .identity = "key of bob", .name = "bob", .roles = {rpc::Role::kAdmin}};
  w.Take(w.tracker.On(from, {"r1", rpc::DeviceHold{"cpu", "drain", 0, "", "ann@lab"}, {}}, w.now));
  EXPECT_EQ(w.Device().why, "drained by bob");
}

TEST(TrackerHolds, ARevokedLeaseIsOverAndTheNextInLineGetsTheDevice) {
  HoldWorld w;
  w.Report("s1", "cpu");
  const rpc::Id lease = w.Lease("a", "cpu");
  w.Ask("b", "cpu", "rb");
  w.last.erase("s1");
  w.Admin(rpc::LeaseRevoke{lease.substr(0, 3), "ann@lab"});
  const auto* revoked = w.Last<rpc::LeaseRevoked>("admin");
  ASSERT_TRUE(revoked);
  EXPECT_EQ(revoked->client_name, "a");
  EXPECT_EQ(revoked->key, "cpu");
  ASSERT_TRUE(w.Last<rpc::ReportReply>("s1"));
  EXPECT_THAT(w.Last<rpc::ReportReply>("s1")->revoked, ElementsAre(lease));
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("b"));
  w.Say("a", rpc::LeaseRenew{lease});
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("lease_lost"));
  EXPECT_THAT(w.tracker.Status("", w.now).errors, ElementsAre(HasSubstr("lost by a after 0 s: revoked by ann@lab")));
}

TEST(TrackerHolds, TheDigitsOfALeaseMustNameOne) {
  HoldWorld w;
  w.Report("s1", "cpu");
  w.Report("s2", "cpu");
  const rpc::Id first = w.Lease("a", "cpu"), second = w.Lease("b", "cpu");
  w.Admin(rpc::LeaseRevoke{"id", "ann@lab"});
  EXPECT_EQ(w.RefusalOf("admin"), "unknown_lease: 2 leases begin with `id`; give more digits");
  w.Admin(rpc::LeaseRevoke{"x", "ann@lab"});
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("no lease begins with `x`"));
  w.Admin(rpc::LeaseRevoke{"", "ann@lab"});
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("malformed"));
  w.Admin(rpc::LeaseRevoke{second, "ann@lab"});
  EXPECT_TRUE(w.Last<rpc::LeaseRevoked>("admin"));
  w.Say("a", rpc::LeaseRenew{first});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a"));
}

// An answer may get lost. The repeated request gets it again, and nothing happens twice.
TEST(TrackerHolds, ARepeatedRequestOfAnAdministratorGetsTheSameAnswer) {
  HoldWorld w;
  w.Report("s1", "cpu");
  const rpc::Id lease = w.Lease("a", "cpu");
  w.Admin(rpc::LeaseRevoke{lease, "ann@lab"});
  w.last.erase("admin");
  w.Take(w.tracker.On(w.As("admin"), {"admin1", rpc::LeaseRevoke{lease, "ann@lab"}, {}}, w.now));
  EXPECT_TRUE(w.Last<rpc::LeaseRevoked>("admin"));
  w.Admin(rpc::LeaseRevoke{lease, "ann@lab"});
  EXPECT_THAT(w.RefusalOf("admin"), HasSubstr("unknown_lease")) << "another request";
}

TEST(TrackerHolds, WaitingClientsAreToldWhyTheyWait) {
  HoldWorld w({.until_text = [](int64_t ms) { return "until " + std::to_string(ms); }});
  w.Report("s1", "cpu");
  w.Report("s2", "cpu");
  w.Lease("a", "cpu");
  w.Hold("drain", "cpu", 7000, "new fan");
  w.Pass(1000, {"s1", "s2"});
  w.Ask("b", "cpu", "rb", 3000);
  EXPECT_EQ(w.Last<rpc::LeaseQueued>("b")->text,
            "1 of 2 devices `cpu` busy, 2 drained by ann@lab until 6000: new fan; place 1 in the queue");
  w.Pass(3000, {"s1", "s2"});
  EXPECT_THAT(w.RefusalOf("b"), HasSubstr("timed_out"));
  EXPECT_THAT(w.RefusalOf("b"), HasSubstr("drained by ann@lab until 3000: new fan"));
}

// A client avoids a device that has failed it, and takes another one. A held device is no other one.
TEST(TrackerHolds, AHeldDeviceIsNoChoiceOfAClientThatAvoidsAnother) {
  for (const bool held : {false, true}) {
    HoldWorld w;
    w.Report("1111-of-one", "cpu");
    w.Report("2222-of-two", "cpu");
    w.Ask("b", "cpu", "rb", 600000, {"1111-of-one"});
    ASSERT_EQ(w.Last<rpc::LeaseGranted>("b")->server, "2222-of-two");
    if (held) w.Hold("drain", "2222");
    w.Ask("a", "cpu", "ra", 600000, {"1111-of-one"});
    w.Pass(1000, {"1111-of-one"});
    EXPECT_EQ(w.Last<rpc::LeaseGranted>("a") != nullptr, held) << "nobody else will get the held one";
  }
}

// Who uses a drained device keeps it. Who only has it must give it back.
TEST(TrackerHolds, AnIdleHolderOfADrainedDeviceYields) {
  for (const std::string how : {"drain", "none"}) {
    for (const bool works : {true, false}) {
      HoldWorld w;
      w.Report("s1", "cpu");
      const rpc::Id lease = w.Lease("a", "cpu");
      w.Hold("drain", "cpu");
      if (how == "none") w.Hold("none", "cpu");
      bool yields = false;
      for (int second = 0; second < 60; ++second) {
        w.Pass(1000);
        w.Work("s1", "cpu", lease, works);
        if (const auto* told = w.Last<rpc::ReportReply>("s1")) yields |= !told->yield.empty();
        w.Say("a", rpc::LeaseRenew{lease});
        EXPECT_TRUE(!yields || second >= 29) << "the quantum is not over";
      }
      EXPECT_EQ(yields, how == "drain" && !works);
      EXPECT_EQ(w.Device().state, how == "drain" && !works ? "drained" : "busy");
    }
  }
}

// The holder of a drained device yields to those who wait, as others do, but beside another holder: nobody gets the
// drained one.
TEST(TrackerHolds, AHolderOfADrainedDeviceYieldsBesideAnother) {
  HoldWorld w;
  w.Report("1111-of-one", "cpu");
  w.Report("2222-of-two", "cpu");
  const rpc::Id first = w.Lease("a", "cpu");
  w.Pass(10, {});
  const rpc::Id second = w.Lease("b", "cpu");
  w.Hold("drain", "1111");
  const auto hold_on = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      w.Pass(1000);
      w.Work("1111-of-one", "cpu", first, true);
      w.Work("2222-of-two", "cpu", second, true);
      w.Say("a", rpc::LeaseRenew{first});
      w.Say("b", rpc::LeaseRenew{second});
    }
  };
  hold_on(31);
  EXPECT_FALSE(w.Last<rpc::LeaseRenewed>("a")->yield) << "nobody waits";
  w.Ask("c", "cpu", "rc");
  w.Say("a", rpc::LeaseRenew{first});
  w.Say("b", rpc::LeaseRenew{second});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("a")->yield);
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>("b")->yield);
}

TEST(TrackerHolds, EventsAndStatusTellWhoHoldsWhatAndWhy) {
  std::vector<std::string> events;
  HoldWorld w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
  w.Report("s1", "cpu");
  w.Lease("a", "cpu");
  events.clear();
  w.Hold("drain", "cpu", 60000, "new\nfan");
  w.Hold("lock", "cpu", 2000);
  w.Pass(2000, {"s1"});
  w.Hold("drain", "c*");
  const rpc::StatusReply status = w.tracker.Status("", w.now);
  ASSERT_THAT(status.holds, SizeIs(1));
  EXPECT_EQ(status.holds[0].pattern, "c*");
  EXPECT_EQ(status.holds[0].who, "ann@lab");
  EXPECT_EQ(status.holds[0].for_ms, 0);
  w.Hold("none", "c*");
  EXPECT_THAT(events, ElementsAre("`cpu` drained by ann@lab for another 60 s: new\\x0afan",
                                  "`cpu` locked by ann@lab for another 2 s",
                                  "`cpu` (server s1) lost by a after 0 s: locked by ann@lab for another 2 s",
                                  "`cpu` back in service: its time is over", "`c*` drained by ann@lab",
                                  "`c*` back in service: ended by ann@lab"));
}

TEST(TrackerHolds, AFaultIsShownBesideTheHold) {
  HoldWorld w;
  rpc::ServerReport report;
  report.server = "s1";
  report.incarnation = "1";
  report.device.key = "cpu";
  report.quarantine = "too hot";
  w.Take(w.tracker.On(w.As("s1"), {"", report, {}}, w.now));
  EXPECT_EQ(w.Device().why, "too hot");
  w.Hold("drain", "cpu");
  EXPECT_EQ(w.Device().state, "quarantined");
  EXPECT_EQ(w.Device().why, "too hot; drained by ann@lab");
}

TEST(Patterns, MatchAsInAShell) {
  EXPECT_TRUE(rpc::MatchesGlob("pi4-*", "pi4-"));
  EXPECT_TRUE(rpc::MatchesGlob("*4*1", "pi4-11"));
  EXPECT_TRUE(rpc::MatchesGlob("p?4", "pi4"));
  EXPECT_TRUE(rpc::MatchesGlob("*", ""));
  EXPECT_FALSE(rpc::MatchesGlob("pi4", "pi4-1"));
  EXPECT_FALSE(rpc::MatchesGlob("p?4", "p4"));
  EXPECT_FALSE(rpc::MatchesGlob("*4*2", "pi4-11"));
  EXPECT_FALSE(rpc::MatchesGlob("", "x"));
  const std::string stars(100, '*');
  std::string many;
  for (int i = 0; i < 100; ++i) many += "*a";
  EXPECT_FALSE(rpc::MatchesGlob(many + "b", std::string(256, 'a'))) << "which takes no exponential time";
  EXPECT_TRUE(rpc::MatchesGlob(stars, "x"));
  EXPECT_TRUE(rpc::IsPattern("pi4-*"));
  EXPECT_FALSE(rpc::IsPattern(""));
  EXPECT_FALSE(rpc::IsPattern("[a]"));
  EXPECT_FALSE(rpc::IsPattern(std::string(257, '*')));
}

}  // namespace
}  // namespace autotune
