// What a tracker knows and tells: keys, status, events, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A world that notes, in their order, the grants that are sent and the leases that are booked.
struct OrderWorld : TrackerWorld {
  OrderWorld() : TrackerWorld({.on_event = [this](const rpc::FarmEvent& event) { OnEvent(event); }}) {
    on_message = [this](const rpc::Peer& peer, const rpc::Message& message) {
      if (const auto* granted = message.As<rpc::LeaseGranted>()) order.push_back(granted->lease + " sent to " + peer);
    };
  }
  void OnEvent(const rpc::FarmEvent& event) {
    if (event.kind == rpc::FarmEvent::Kind::kLeased) order.push_back(event.lease + " booked for " + event.client);
    if (event.kind == rpc::FarmEvent::Kind::kReturned) order.push_back(event.lease + " returned");
  }
  std::vector<std::string> order;
};

TEST(TrackerAnswers, AGrantIsSentBeforeItIsBooked) {
  OrderWorld w;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  EXPECT_THAT(w.order, ElementsAre("id1-of-a-lease sent to a", "id1-of-a-lease booked for a"));
  EXPECT_EQ(w.tracker.Status("cpu", w.now).devices.at(0).client_name, "a");
  w.order.clear();
  w.Ask("b", "cpu", "rb");  // it waits
  EXPECT_THAT(w.order, testing::IsEmpty());
  w.Say("a", rpc::LeaseRelease{"id1-of-a-lease"});
  EXPECT_THAT(w.order,
              ElementsAre("id1-of-a-lease returned", "id2-of-a-lease sent to b", "id2-of-a-lease booked for b"))
      << "a device that is still booked goes to nobody else";
}

TEST(TrackerAnswers, ARefusedRequestIsNotBooked) {
  OrderWorld w;
  w.Report("s1", "cpu");
  w.Ask("a", "no key", "ra");
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("malformed"));
  w.Ask("b", "cpu", "");
  EXPECT_THAT(w.RefusalOf("b"), HasSubstr("a lease request must have an id"));
  EXPECT_THAT(w.order, testing::IsEmpty());
  EXPECT_EQ(w.tracker.Status("cpu", w.now).grants, 0);
  EXPECT_EQ(w.tracker.Status("cpu", w.now).devices.at(0).state, "free");
}

TEST(TrackerAnswers, AReportWithAnImpossibleTokenIsRefused) {
  TrackerWorld w;
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

// A server may make tokens up. Others would refuse tokens of an epoch that has run away.
TEST(TrackerAnswers, AfterTheRecoveryAServerRaisesItsOwnTokensOnly) {
  constexpr int64_t kLate = int64_t{1} << 53;
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.Pass(10100, {"s1"});
  w.Report("s2", "gpu", {}, "1", {kLate, 8});
  EXPECT_EQ(w.tracker.epoch(), 1);
  w.Ask("a", "cpu", "ra");
  w.Ask("b", "gpu", "rb");
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("a") && w.Last<rpc::LeaseGranted>("b"));
  EXPECT_EQ(w.Last<rpc::LeaseGranted>("a")->token.epoch, 1);
  const rpc::Token first = w.Last<rpc::LeaseGranted>("b")->token;
  EXPECT_GT(first, (rpc::Token{kLate, 8}));
  // The next token is later, before and after the server has told this one.
  w.Say("b", rpc::LeaseRelease{w.Last<rpc::LeaseGranted>("b")->lease});
  w.Ask("b", "gpu", "rc");
  EXPECT_GT(w.Last<rpc::LeaseGranted>("b")->token, first);
}

TEST(TrackerAnswers, WhatStatusShowsEndsNoLease) {
  TrackerWorld w;
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

TEST(TrackerAnswers, KeysAreForgottenWithTheirServers) {
  TrackerWorld w({.forget_ms = 60000});
  w.Report("s1", "rare");
  w.Pass(50000);
  EXPECT_EQ(w.tracker.Status("", w.now).absent_keys.count("rare"), 1u);
  w.Pass(11000);
  EXPECT_EQ(w.tracker.Status("", w.now).absent_keys.count("rare"), 0u);
}

TEST(TrackerAnswers, ARestartedTrackerRefusesAnUnknownKeyAtOnce) {
  TrackerWorld w({.epoch = 2, .recovering = true, .keys = {{"rpi4", 5000}}});
  w.Ask("a", "rpi5", "r1");
  EXPECT_THAT(w.RefusalOf("a"), HasSubstr("unknown_key"));
  w.Ask("b", "rpi4", "r2");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("b")) << "it was known before";
  w.Report("s1", "rpi5");
  w.Ask("a", "rpi5", "r3");
  EXPECT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  EXPECT_EQ(w.tracker.KeyAges(w.now), (std::map<std::string, int64_t>{{"rpi4", 5000}, {"rpi5", 0}}));
}

TEST(TrackerAnswers, AConnectionIsOneServer) {
  TrackerWorld w;
  w.Report("honest", "cpu");
  rpc::ServerReport report;
  report.incarnation = "1";
  report.device.key = "cpu";
  for (int i = 0; i < 20000; ++i) {
    report.server = "made-up-" + std::to_string(i);
    w.Take(w.tracker.On(w.As("stranger"), {"", report, {}}, w.now));
  }
  EXPECT_EQ(w.tracker.Status("", w.now).devices.size(), 2u);
  w.Report("late", "cpu");
  EXPECT_EQ(w.RefusalOf("late"), "");
}

TEST(TrackerAnswers, AStatusFitsIntoAMessage) {
  TrackerWorld w;
  const int servers = 3000;
  rpc::ServerReport report;
  report.incarnation = "1";
  report.last_error = std::string(4000, 'e');
  report.device.key = "cpu";
  for (int i = 0; i < servers; ++i) {
    report.server = "s" + std::to_string(i);
    w.Take(w.tracker.On(w.As(report.server), {"", report, {}}, w.now));
  }
  w.Report("s0000", "rare");
  const rpc::StatusReply all = w.tracker.Status("", w.now);
  EXPECT_GT(all.devices.size(), 100u);
  EXPECT_EQ(static_cast<int64_t>(all.devices.size()) + all.omitted, servers + 1);
  size_t bytes = 0;
  for (const rpc::Blob& frame : rpc::Encode({"", all, {}})) bytes += frame->size();
  EXPECT_LT(bytes, size_t{4} << 20);
  const rpc::StatusReply one = w.tracker.Status("rare", w.now);
  EXPECT_EQ(one.devices.size(), 1u);
  EXPECT_EQ(one.omitted, 0);
}

TEST(TrackerAnswers, EventsTellWhatHappensToDevices) {
  std::vector<std::string> events;
  TrackerWorld w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
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

TEST(TrackerAnswers, AKeyWithOtherCharactersIsRefused) {
  TrackerWorld w;
  for (const std::string key : {"", "a b", "x<y>", "k\n", "caf\xc3\xa9"}) {
    w.Report("s1", key);
    EXPECT_THAT(w.RefusalOf("s1"), HasSubstr("a key has")) << key;
    w.Ask("a", key, "ra");
    EXPECT_THAT(w.RefusalOf("a"), HasSubstr("a key has")) << key;
  }
  w.Report("s1", "Pi-4_b:1.5");
  EXPECT_EQ(w.RefusalOf("s1"), "");
}

TEST(TrackerAnswers, UnknownKeys) {
  TrackerWorld w;
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
  TrackerWorld empty;
  empty.now = 5000;
  empty.Ask("a", "rpi4", "r1");
  EXPECT_THAT(empty.RefusalOf("a"), HasSubstr("no other device is connected; start one: rpc_server"));
}

TEST(TrackerAnswers, AnAbsentDeviceIsWaitedFor) {
  TrackerWorld w;
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

TEST(TrackerAnswers, AServerThatArrivesEarlyEnoughIsWaitedFor) {
  TrackerWorld w;
  w.Ask("a", "cpu", "ra");
  w.now = 2000;
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  w.Ask("b", "cpu", "rb");
  w.Pass(3000, {"s1"});
  EXPECT_EQ(w.RefusalOf("b"), "");
}

TEST(TrackerAnswers, AFailedKeyIsRefusedWithTheCause) {
  TrackerWorld w;
  w.Report("s1", "local");
  w.Ask("a", "local", "ra");
  w.Ask("b", "local", "rb");
  w.Take(w.tracker.FailKey("local", "it exploded", w.now));
  EXPECT_EQ(w.RefusalOf("b"), "key_failed: it exploded");
  w.Ask("c", "local", "rc");
  EXPECT_EQ(w.RefusalOf("c"), "key_failed: it exploded");
}

TEST(TrackerAnswers, StatusTellsWhoHoldsAndWhoWaits) {
  TrackerWorld w;
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

TEST(TrackerAnswers, WhatDoesNotBelongHereIsRefused) {
  TrackerWorld w;
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
