// Servers that the tracker, or a client, cannot reach.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using testing::HasSubstr;

// The tracker connects to the address of a server before it offers the device, and says so if nobody answers there.
TEST(TrackerDials, AServerThatCannotBeReachedIsGrantedToNobody) {
  std::vector<std::string> events;
  TrackerWorld w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
  const auto device = [&] { return w.tracker.Status("", w.now).devices.at(0); };
  w.answers_dials = false;
  w.Report("s1", "cpu");
  w.Ask("a", "cpu", "ra");
  EXPECT_EQ(w.dialed["s1"], "ipc:///s1");
  EXPECT_EQ(device().state, "starting");
  w.Pass(2900, {"s1"});
  EXPECT_EQ(events.size(), 1u);
  w.Pass(200, {"s1"});
  const std::string why = "nobody answers the tracker at the server's address ipc:///s1";
  EXPECT_EQ(device().state, "unreachable");
  EXPECT_EQ(device().why, why);
  EXPECT_EQ(w.dialed["s1"], "") << "the connection stays";
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1], "`cpu` (server s1) is unreachable: " + why);
  ASSERT_TRUE(w.Last<rpc::ReportReply>("s1"));
  EXPECT_EQ(w.Last<rpc::ReportReply>("s1")->unreachable, why);
  w.Ask("a", "cpu", "ra");
  ASSERT_TRUE(w.Last<rpc::LeaseQueued>("a"));
  EXPECT_THAT(w.Last<rpc::LeaseQueued>("a")->text,
              HasSubstr("0 of 1 devices `cpu` busy, 1 unreachable; place 1 in the queue; " + why));
  w.Pass(20000, {"s1"});
  EXPECT_EQ(events.size(), 2u) << "the same reason is told once";
  w.answers_dials = true;
  w.Pass(50000, {"s1"});
  EXPECT_EQ(events.at(2), "`cpu` (server s1) registered at ipc:///s1");
  EXPECT_EQ(device().state, "free");
  EXPECT_EQ(device().why, "");
  w.Ask("a", "cpu", "rb");
  EXPECT_TRUE(w.Last<rpc::LeaseGranted>("a"));
  EXPECT_EQ(w.Last<rpc::ReportReply>("s1")->unreachable, "");
}

// The driver finds out what is wrong with each address. The help depends on where the server really is.
TEST(TrackerDials, TheCauseAndWhatMayHelpAreTold) {
  for (const std::string from : {"10.0.0.70", "10.0.0.7"}) {
    std::vector<rpc::FarmEvent> events;
    TrackerWorld w({.dial_trouble = [](const rpc::Id&) { return "tcp://10.0.0.7:4711 (connection refused)"; },
                    .host = "host.example",
                    .on_event = [&](const rpc::FarmEvent& event) { events.push_back(event); }});
    w.answers_dials = false;
    rpc::ServerReport report{.server = "s1", .incarnation = "1", .ready = true};
    report.device = {.key = "cpu", .endpoint = "tcp://10.0.0.7:4711"};
    rpc::From server = TrackerWorld::As("s1");
    server.address = from;
    w.Take(w.tracker.On(server, {"", report, {}}, w.now));
    w.Pass(3100);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[1].why,
              "nobody answers the tracker at the server's address tcp://10.0.0.7:4711 (connection refused)");
    EXPECT_THAT(events[1].help, HasSubstr("`ssh -N -R '*:4711:localhost:4711' host.example` there"));
    EXPECT_THAT(events[1].help, HasSubstr("--advertise WIREGUARD-ADDRESS:4711"));
    EXPECT_EQ(events[1].help.find("the server connects from 10.0.0.70") == 0, from == "10.0.0.70") << events[1].help;
  }
}

TEST(TrackerDials, NoHelpHasAPortThatIsNone) {
  std::vector<rpc::FarmEvent> events;
  TrackerWorld w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(event); }});
  w.answers_dials = false;
  for (const std::string port : {"1; reboot", ""}) {
    rpc::ServerReport report{.server = "s" + port, .incarnation = "1", .ready = true};
    report.device = {.key = "cpu", .endpoint = "tcp://10.0.0.7:" + port};
    w.Take(w.tracker.On(TrackerWorld::As("s" + port), {"", report, {}}, w.now));
  }
  w.Pass(3100);
  ASSERT_EQ(events.size(), 4u);
  for (const rpc::FarmEvent& event : events) EXPECT_EQ(event.help, "");
}

// The tracker reaches a server, a client does not.
TEST(TrackerDials, AClientThatCannotReachAServerSaysSo) {
  std::vector<std::string> events;
  TrackerWorld w({.on_event = [&](const rpc::FarmEvent& event) { events.push_back(Text(event)); }});
  const auto lose = [&](const std::string& request, const std::string& unreachable) {
    w.Ask("a", "cpu", request);
    w.Say("a", rpc::LeaseRelease{w.Last<rpc::LeaseGranted>("a")->lease, unreachable});
  };
  const auto device = [&] { return w.tracker.Status("", w.now).devices.at(0); };
  w.Report("s1", "cpu");
  lose("r1", "");
  EXPECT_EQ(device().why, "");
  const std::string why = "the client a cannot reach it: no answer";
  lose("r2", "no answer");
  EXPECT_EQ(device().state, "free") << "for others";
  EXPECT_EQ(device().why, why);
  EXPECT_THAT(w.tracker.Status("", w.now).errors,
              testing::Contains("0 s ago: `cpu` (server s1) is unreachable: " + why));
  w.Report("s1", "cpu");
  EXPECT_EQ(w.Last<rpc::ReportReply>("s1")->unreachable, why) << "for the server's log";
  const size_t told = events.size();
  lose("r3", "no answer");
  EXPECT_THAT(std::vector<std::string>(events.begin() + static_cast<std::ptrdiff_t>(told), events.end()),
              testing::Not(testing::Contains(HasSubstr("unreachable"))))
      << "told once";
  // It is over once the server reports a lease of this client.
  w.Ask("a", "cpu", "r4");
  w.Report("s1", "cpu", {{.lease = w.Last<rpc::LeaseGranted>("a")->lease}});
  EXPECT_EQ(device().why, "");
  w.Say("a", rpc::LeaseRelease{w.Last<rpc::LeaseGranted>("a") ? w.Last<rpc::LeaseGranted>("a")->lease : "", ""});
}

TEST(TrackerDials, OnlyTheServerItselfAnswersForItsAddress) {
  TrackerWorld w;
  w.answers_dials = false;
  w.Report("0123456789", "cpu");
  w.Report("a-server", "cpu");
  w.Report("of-2.2", "old");
  w.Answer("0123456789", "a-server");
  w.Answer("a-server", "a-server");
  w.Answer("of-2.2", "", 2);
  w.Report("of-2.3", "old");
  w.Answer("of-2.3", "");  // a program that answers any ping, such as a tracker
  w.Answer("nobody", "nobody");
  const auto devices = w.tracker.Status("", w.now).devices;
  ASSERT_EQ(devices.size(), 4u);
  EXPECT_EQ(devices[0].state, "unreachable");
  EXPECT_THAT(devices[0].why, HasSubstr("another program answers at the server's address ipc:///0123456789"));
  EXPECT_EQ(devices[1].state, "free");
  EXPECT_EQ(devices[2].state, "free");
  EXPECT_EQ(devices[3].state, "unreachable");
}

TEST(TrackerDials, AnAnswerFromAnEarlierAddressCountsForNothing) {
  TrackerWorld w;
  w.answers_dials = false;
  w.Report("s1", "cpu");
  rpc::ServerReport report{.server = "s1", .incarnation = "1", .device = {.key = "cpu", .endpoint = "ipc:///new"}};
  report.ready = true;
  w.Take(w.tracker.On(w.As("s1"), {"", report, {}}, w.now));
  const auto state = [&] { return w.tracker.Status("", w.now).devices.at(0).state; };
  w.Take(w.tracker.OnDialAnswer({"s1", {"ipc:///s1"}, ""}, {"", rpc::Pong{"", "s1"}, {}}, w.now));
  EXPECT_EQ(state(), "starting");
  w.Answer("s1", "s1");
  EXPECT_EQ(state(), "free");
}

// Strangers choose the addresses. However many servers they make up, few connections are made at a time, and a server
// that answers has its turn.
TEST(TrackerDials, FewServersAreDialledAtATimeAndEachHasItsTurn) {
  TrackerWorld w({.most_dials = 4});
  w.answers_dials = false;
  const auto under_way = [&] {
    return std::ranges::count_if(w.dialed, [](const auto& dial) { return !dial.second.empty(); });
  };
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back("made-up-" + std::to_string(i));
  names.push_back("real");
  for (const std::string& name : names) w.Report(name, "cpu");
  EXPECT_EQ(under_way(), 4);
  for (int i = 0; i < 200 && w.dialed["real"].empty(); ++i) {
    w.Pass(200, names);
    EXPECT_EQ(under_way(), 4) << w.now;
  }
  EXPECT_LE(w.now, 10 * 3000 + 1000) << "40 servers, 4 at a time, 3 s each";
  w.Answer("real", "real");
  EXPECT_EQ(w.tracker.Status("", w.now).devices.back().state, "free");
  for (const std::string& name : names) w.Say(name, rpc::ServerGoodbye{name, "1"});
  EXPECT_EQ(under_way(), 0);
}

TEST(TrackerDials, AServerIsDialledAgainAtAnotherAddressOrAfterARestart) {
  TrackerWorld w;
  w.Report("s1", "cpu");
  w.dialed.clear();
  w.Report("s1", "cpu");
  EXPECT_TRUE(w.dialed.empty()) << "a report without news";
  w.Report("s1", "cpu", {}, "2");
  EXPECT_EQ(w.dialed.count("s1"), 1u);
  w.dialed.clear();
  w.answers_dials = false;
  rpc::ServerReport report{.server = "s1", .incarnation = "2", .device = {.key = "cpu", .endpoint = "ipc:///new"}};
  report.ready = true;
  w.Take(w.tracker.On(w.As("s1"), {"", report, {}}, w.now));
  EXPECT_EQ(w.dialed["s1"], "ipc:///new");
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).state, "starting");
}

// A server that states times without bounds gains a month at most.
TEST(TrackerDials, TimesWithoutBoundsAreCut) {
  TrackerWorld w({.epoch = 2, .recovering = true, .keys = {{"cpu", 0}}});
  rpc::HeldLease held{.lease = "l", .token = {1, 1}, .client = "a", .held_ms = INT64_MIN, .deadline_ms = INT64_MAX};
  w.Report("s1", "cpu", {held});
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).since_ms, 0);
  held.held_ms = INT64_MAX;
  w.Report("s1", "cpu", {held});
  w.Pass(1000, {});
  EXPECT_GT(w.tracker.NextWake(), w.now);
  EXPECT_LT(w.tracker.NextWake(), w.now + 10000);
}

// A server that states another address in each report, or another id, makes one connection after the other.
TEST(TrackerDials, DialsHaveALimitOfRate) {
  TrackerWorld w({.most_dials = 4, .between_dials_ms = 10});
  int dials = 0;
  w.on_dial = [&] { ++dials; };
  for (int i = 0; i < 1000; ++i) w.Report("made-up-" + std::to_string(i), "cpu");
  EXPECT_EQ(dials, 4);
  w.Pass(1000);
  EXPECT_LE(dials, 4 + 100);
  EXPECT_GE(dials, 4 + 90);
}

TEST(TrackerDials, WhoNeverAnswersIsDialledMoreAndMoreRarely) {
  TrackerWorld w;
  w.answers_dials = false;
  std::vector<int64_t> times;
  w.on_dial = [&] { times.push_back(w.now); };
  w.Report("s1", "cpu");
  w.Pass(1000000, {"s1"});
  ASSERT_GE(times.size(), 9u);
  EXPECT_EQ(times[1] - times[0], 3000 + 5000);
  EXPECT_EQ(times[2] - times[1], 3000 + 10000);
  EXPECT_EQ(times[8] - times[7], 3000 + 300000);
}

TEST(TrackerDials, DialsEndWhenTheirAnswersTakeTooMuchMemory) {
  TrackerWorld w;
  w.answers_dials = false;
  EXPECT_FALSE(w.tracker.EndDials(w.now));
  w.Report("s1", "cpu");
  const std::optional<TrackerState::Dials> ended = w.tracker.EndDials(w.now);
  ASSERT_TRUE(ended);
  w.Take(*ended);
  EXPECT_EQ(w.dialed["s1"], "");
  EXPECT_THAT(w.tracker.Status("", w.now).devices.at(0).why, HasSubstr("more than an answer"));
  EXPECT_FALSE(w.tracker.EndDials(w.now));
}

}  // namespace
}  // namespace autotune
