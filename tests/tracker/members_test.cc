// Members of a farm: the list in the tracker's folder, and what is whose in the tracker's state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "rpc/capability.h"
#include "support/file.h"
#include "support/file_watch.h"
#include "tests/tracker/invite.h"
#include "tests/tracker/tracker_world.h"

namespace autotune {
namespace {

using rpc::Role;
using testing::HasSubstr;

rpc::From Member(const std::string& name, Role role) {
  return {.peer = "at " + name, .identity = "key of " + name, .name = name, .roles = {role}};
}

struct MemberWorld : TrackerWorld {
  using TrackerWorld::TrackerWorld;
  void SayAs(const rpc::From& from, const std::string& request, rpc::Body body) {
    last.erase(from.peer);
    Take(tracker.On(from, {request, std::move(body), {}}, now));
  }
  void ReportAs(const rpc::From& from, const std::string& server, std::vector<std::string> others = {}) {
    rpc::ServerReport report;
    report.server = server;
    report.incarnation = "1";
    report.device = {.key = "cpu", .endpoint = "tcp://" + server + ":1", .endpoints = std::move(others)};
    report.ready = true;
    report.grant_key = grant_key;
    SayAs(from, "", report);
  }
  void AskAs(const rpc::From& from, const std::string& request) {
    SayAs(from, request,
          rpc::LeaseRequest{
              .client = "c-" + from.name, .client_name = "ann@lab", .key = "cpu", .tenant = "root", .wait_ms = 60000});
  }
  const rpc::LeaseGranted* GrantTo(const rpc::From& from) { return Last<rpc::LeaseGranted>(from.peer); }

  const std::string grant_key = rpc::NewGrantKey();
  const rpc::From board = Member("board", Role::kServer), alice = Member("alice", Role::kClient),
                  eve = Member("eve", Role::kClient);
};

TEST(Members, AGrantHoldsForTheKeyThatAskedAndForTheMembersName) {
  MemberWorld w;
  w.ReportAs(w.board, "s1");
  w.AskAs(w.alice, "r1");
  const rpc::LeaseGranted* granted = w.GrantTo(w.alice);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->device->public_key, w.board.identity);
  const rpc::Capability asked{granted->lease, granted->token, "1", granted->ttl_ms, w.alice.identity};
  EXPECT_TRUE(rpc::IsProof(granted->proof, asked, w.grant_key));
  rpc::Capability stolen = asked;
  stolen.client_key = w.eve.identity;
  EXPECT_FALSE(rpc::IsProof(granted->proof, stolen, w.grant_key));
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).tenant, "alice") << "the client said root";
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).client_name, "alice (ann@lab)") << "the client said ann";
}

// The link of a member may break for some seconds.
TEST(Members, ASilentMemberIsGivenUpLaterThanAPeerOfThisHost) {
  MemberWorld w;
  w.ReportAs(w.board, "s1");
  w.AskAs(w.alice, "r1");
  w.Report("local", "cpu");
  w.AskAs(w.eve, "r2");  // gets nothing: it does not reach the local server
  const auto state = [&](const char* server) {
    for (const rpc::DeviceStatus& device : w.tracker.Status("", w.now).devices)
      if (device.server == server) return device.state;
    return std::string();
  };
  w.Pass(6000);
  EXPECT_EQ(state("local"), "unreachable");
  EXPECT_EQ(state("s1"), "busy");
  w.Pass(2900);
  EXPECT_EQ(state("s1"), "busy");
  EXPECT_EQ(w.tracker.Status("", w.now).queue.size(), 1u);
  w.Pass(100);
  EXPECT_EQ(state("s1"), "unreachable");
  EXPECT_TRUE(w.tracker.Status("", w.now).queue.empty());
  w.AskAs(w.eve, "r2");
  EXPECT_THAT(w.RefusalOf(w.eve.peer), HasSubstr("silent for too long"));
}

// A path would lead the tracker and clients to sockets of their own hosts.
TEST(Members, AServerOverTcpStatesNoPaths) {
  MemberWorld w;
  w.ReportAs(w.board, "s1", {"tcp://h:1", "ipc:///run/user/1/autotune/server-s1"});
  EXPECT_THAT(w.RefusalOf(w.board.peer), HasSubstr("listens at HOST:PORT"));
  EXPECT_TRUE(w.tracker.Status("", w.now).devices.empty());
  EXPECT_TRUE(w.dialed.empty());
  w.ReportAs(w.board, "s1", {"tcp://h:1", "tcp://[fd00::1]:1"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices.size(), 1u);
}

TEST(Members, AServerOverIpcIsNotTakenOverWhileItReports) {
  MemberWorld w;
  w.Report("s1", "cpu");
  w.ReportAs(w.board, "s1");
  EXPECT_THAT(w.RefusalOf(w.board.peer), HasSubstr("another member has a server of this id"));
  w.Take(w.tracker.OnUnreachable("s1", w.now));
  w.ReportAs(w.board, "s1");  // it comes again over TCP
  EXPECT_TRUE(w.Last<rpc::ReportReply>(w.board.peer));
}

// Who has no keys cannot connect to a server over TCP, and who has them not to a socket of another host.
TEST(Members, DevicesAreLentToThoseWhoReachThem) {
  MemberWorld w;
  w.Ask("local", "cpu", "r1");  // no device has come yet
  w.ReportAs(w.board, "s1");
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).state, "free");
  w.Ask("local", "cpu", "r1");
  EXPECT_THAT(w.RefusalOf("local"), HasSubstr("over TCP, with a join file only"));
  w.Ask("local", "cpu", "r2");
  EXPECT_THAT(w.RefusalOf("local"), HasSubstr("over TCP, with a join file only"));
  w.AskAs(w.alice, "r3");
  EXPECT_TRUE(w.GrantTo(w.alice));
  w.Report("s2", "cpu");
  w.AskAs(w.eve, "r4");
  EXPECT_FALSE(w.GrantTo(w.eve)) << "at an address of the tracker's host";
  w.Ask("local", "cpu", "r5");
  ASSERT_TRUE(w.Last<rpc::LeaseGranted>("local"));
  EXPECT_EQ(w.Last<rpc::LeaseGranted>("local")->server, "s2");
}

TEST(Members, LeasesRequestsAndServersAreTheirMembersOwn) {
  MemberWorld w;
  w.ReportAs(w.board, "s1");
  w.AskAs(w.alice, "r1");
  const rpc::Id lease = w.GrantTo(w.alice)->lease;
  const auto expect_forbidden = [&](const std::string& what, const rpc::From& from) {
    EXPECT_THAT(w.RefusalOf(from.peer), HasSubstr("forbidden: ")) << what;
    EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).state, "busy") << what;
  };
  w.SayAs(w.eve, "x1", rpc::LeaseRelease{lease});
  expect_forbidden("a release", w.eve);
  w.SayAs(w.eve, "x2", rpc::LeaseRenew{lease});
  expect_forbidden("a renewal", w.eve);
  w.SayAs(w.eve, "x3", rpc::LeaseWithdraw{"r1"});
  expect_forbidden("a withdrawal", w.eve);
  w.AskAs(w.eve, "r1");
  expect_forbidden("a repeated request", w.eve);
  const rpc::From thief = Member("thief", Role::kServer);
  w.ReportAs(thief, "s1");
  expect_forbidden("a report", thief);
  w.SayAs(thief, "", rpc::ServerGoodbye{"s1", "1"});
  EXPECT_EQ(w.tracker.Status("", w.now).devices.size(), 1u);
  w.SayAs(w.board, "x4", rpc::LeaseRequest{.client = "c", .key = "cpu"});  // the key of a server, used as a client
  EXPECT_THAT(w.RefusalOf(w.board.peer), HasSubstr("may not send a lease_request"));
  // Their owners may.
  w.SayAs(w.alice, "y1", rpc::LeaseRenew{lease});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>(w.alice.peer));
  w.SayAs(w.alice, "y2", rpc::LeaseRelease{lease});
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).state, "free");
  w.SayAs(w.board, "", rpc::ServerGoodbye{"s1", "1"});
  EXPECT_TRUE(w.tracker.Status("", w.now).devices.empty());
}

TEST(Members, WhatARevokedMemberHasEndsAtOnce) {
  MemberWorld w;
  w.ReportAs(w.board, "s1");
  w.AskAs(w.alice, "r1");
  w.AskAs(w.eve, "r2");
  const rpc::Id lease = w.GrantTo(w.alice)->lease;
  ASSERT_FALSE(w.GrantTo(w.eve));
  w.Take(w.tracker.RevokeMember(w.alice.identity, w.now));
  const auto* told = w.Last<rpc::ReportReply>(w.board.peer);
  ASSERT_TRUE(told);
  EXPECT_THAT(told->revoked, testing::ElementsAre(lease));
  EXPECT_TRUE(w.GrantTo(w.eve)) << "the next in line gets the device";
  w.AskAs(w.alice, "r3");
  w.Take(w.tracker.RevokeMember(w.alice.identity, w.now));
  EXPECT_THAT(w.RefusalOf(w.alice.peer), HasSubstr("this member was revoked"));
  w.Take(w.tracker.RevokeMember(w.board.identity, w.now));
  EXPECT_TRUE(w.tracker.Status("", w.now).devices.empty());
}

// A restarted tracker learns from servers who holds them. A member that was revoked meanwhile holds nothing.
TEST(Members, ARestartedTrackerKnowsWhoseALeaseIs) {
  const auto name_of = [](const std::string& key) {
    return key == "key of alice" ? std::optional<std::string>("alice") : std::nullopt;
  };
  MemberWorld w(TrackerState::Options{.recovering = true, .name_of = name_of});
  const auto report = [&](const std::string& server, const std::string& holder) {
    rpc::ServerReport report{.server = server, .incarnation = "1", .device = {.key = "cpu", .endpoint = "tcp://h:1"}};
    report.leases = {{.lease = "l-" + holder,
                      .token = {1, 1},
                      .client = "c",
                      .client_name = "ann@lab",
                      .client_key = "key of " + holder}};
    w.SayAs(w.board, "", report);
    return w.Last<rpc::ReportReply>(w.board.peer)->revoked;
  };
  EXPECT_TRUE(report("s1", "alice").empty());
  EXPECT_EQ(w.tracker.Status("", w.now).devices.at(0).client_name, "alice (ann@lab)");
  w.SayAs(w.alice, "r", rpc::LeaseRenew{"l-alice"});
  EXPECT_TRUE(w.Last<rpc::LeaseRenewed>(w.alice.peer));
  w.SayAs(w.eve, "r", rpc::LeaseRenew{"l-alice"});
  EXPECT_THAT(w.RefusalOf(w.eve.peer), HasSubstr("forbidden"));
  EXPECT_THAT(report("s2", "eve"), testing::ElementsAre("l-eve"));
}

// Only administrators say who is a member. The tracker hands their messages to the owner of the list, each once.
TEST(Members, OnlyAdministratorsSayWhoIsOne) {
  std::vector<std::string> asked;
  MemberWorld w(TrackerState::Options{.about_members = [&](const rpc::Body& question) -> rpc::Body {
    asked.emplace_back(rpc::KindOf(question));
    return rpc::MemberRevoked{"x"};
  }});
  const rpc::From admin = Member("ann", Role::kAdmin);
  const std::vector<rpc::Body> questions = {rpc::MemberInvite{.name = "x"}, rpc::MemberRevoke{"x"},
                                            rpc::MembersRequest{}};
  for (const rpc::Body& question : questions) {
    for (const rpc::From& other : {w.alice, w.board}) {
      w.SayAs(other, "q", question);
      EXPECT_THAT(w.RefusalOf(other.peer), HasSubstr("forbidden: the sender may not send a member"));
    }
  }
  EXPECT_THAT(asked, testing::IsEmpty());
  for (size_t i = 0; i < questions.size(); ++i) {
    w.SayAs(admin, "r" + std::to_string(i), questions[i]);
    EXPECT_TRUE(w.Last<rpc::MemberRevoked>(admin.peer));
  }
  EXPECT_THAT(asked, testing::ElementsAre("member_invite", "member_revoke", "members_request"));
  w.SayAs(admin, "r0", questions[0]);  // repeated, since the answer was lost
  EXPECT_TRUE(w.Last<rpc::MemberRevoked>(admin.peer));
  EXPECT_EQ(asked.size(), 3u);

  MemberWorld without;
  without.SayAs(admin, "r", questions[0]);
  EXPECT_THAT(without.RefusalOf(admin.peer), HasSubstr("this tracker has no members"));
}

TEST(Members, WrongInvitationsAreRefused) {
  const std::string folder = testing::TempDir() + "members-" + rpc::RandomId();
  const std::string key = rpc::NewCurveKeys().public_key;
  const rpc::MemberInvite right{"alice", "client", key, {"10.0.0.7:9190"}};
  const auto ask = [&](const rpc::Body& question) {
    const rpc::Body answer = AnswerAboutMembers(folder, question);
    const auto* refusal = std::get_if<rpc::Refusal>(&answer);
    return refusal ? refusal->code + ": " + refusal->text : std::string(rpc::KindOf(answer));
  };
  EXPECT_EQ(ask(right), "member_invited");
  EXPECT_EQ(ReadFarmMembers(folder)->endpoints, std::vector<std::string>{"tcp://10.0.0.7:9190"});
  const auto expect_refused = [&](const std::function<void(rpc::MemberInvite&)>& spoil, const std::string& why) {
    rpc::MemberInvite wrong = right;
    wrong.name = "bob";
    spoil(wrong);
    EXPECT_THAT(ask(wrong), HasSubstr(why));
  };
  expect_refused([](auto& i) { i.name = "a b"; }, "malformed: 'a b' cannot be the name");
  expect_refused([](auto& i) { i.role = "king"; }, "malformed: unknown role 'king'");
  expect_refused([](auto& i) { i.public_key = "x"; }, "malformed: the member's key");
  expect_refused([](auto& i) { i.endpoints = {"/socket"}; }, "malformed: endpoint /socket");
  expect_refused([](auto&) {}, "not_done: the key of bob is another member's, too");
  EXPECT_EQ(ask(rpc::MembersRequest{}), "members_reply");
  EXPECT_EQ(ReadFarmMembers(folder)->members.size(), 1u);
  EXPECT_EQ(ask(rpc::MemberRevoke{"bob"}), "unknown_member: there is no member bob");
  EXPECT_EQ(ask(rpc::MemberRevoke{"alice"}), "member_revoked");
  EXPECT_EQ(ask(rpc::MemberRevoke{"alice"}), "unknown_member: there is no member alice");
  std::filesystem::remove_all(folder);
}

// A tracker that listens at all addresses does not know by which name others reach it.
TEST(Members, AnAdministratorsAddressesStayOverStarts) {
  const std::string folder = testing::TempDir() + "members-" + rpc::RandomId();
  const auto endpoint = [&] { return ReadFarmMembers(folder)->endpoints.at(0); };
  ASSERT_TRUE(Invite(folder, "board", Role::kServer).ok());
  ASSERT_TRUE(KeepEndpoints(folder, {"tcp://10.0.0.7:1"}, false).ok());
  ASSERT_TRUE(KeepEndpoints(folder, {"tcp://10.0.0.8:1"}, false).ok());
  EXPECT_EQ(endpoint(), "tcp://10.0.0.8:1");
  ASSERT_TRUE(Invite(folder, "alice", Role::kClient, {"host.example:9190"}).ok());
  ASSERT_TRUE(KeepEndpoints(folder, {"tcp://10.0.0.8:1"}, false).ok());
  EXPECT_EQ(endpoint(), "tcp://host.example:9190");
  ASSERT_TRUE(KeepEndpoints(folder, {"tcp://10.0.0.9:1"}, true).ok());
  EXPECT_EQ(endpoint(), "tcp://10.0.0.9:1");
  std::filesystem::remove_all(folder);
}

TEST(Members, TheListKeepsNoSecretKeyOfAMember) {
  const std::string folder = testing::TempDir() + "members-" + rpc::RandomId();
  EXPECT_TRUE(ReadFarmMembers(folder)->members.empty());
  const rpc::JoinFile alice = Invite(folder, "alice", Role::kClient, {"tcp://10.0.0.7:9190"}).value();
  const rpc::JoinFile board = Invite(folder, "board", Role::kServer).value();
  EXPECT_EQ(board.tracker, alice.tracker) << "the addresses of the last time";
  EXPECT_EQ(board.tracker_key, alice.tracker_key);
  EXPECT_TRUE(rpc::ParseJoinFile(alice.Text(), "it").ok());
  const std::string stored = ReadFile(MembersFile(folder)).value();
  EXPECT_THAT(stored, HasSubstr("\"alice\""));
  EXPECT_THAT(stored, testing::Not(HasSubstr(alice.keys.secret_key)));
  EXPECT_EQ(std::filesystem::status(MembersFile(folder)).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  auto allowed = ReadFarmMembers(folder)->Allowed();
  EXPECT_EQ(allowed.at(alice.keys.public_key).name, "alice");
  EXPECT_TRUE(allowed.at(board.keys.public_key).roles.Has(Role::kServer));
  // Inviting a name again replaces its key.
  const rpc::JoinFile again = Invite(folder, "alice", Role::kAdmin).value();
  allowed = ReadFarmMembers(folder)->Allowed();
  EXPECT_FALSE(allowed.contains(alice.keys.public_key));
  EXPECT_TRUE(allowed.at(again.keys.public_key).roles.Has(Role::kAdmin));
  EXPECT_TRUE(RevokeMember(folder, "alice").ok());
  EXPECT_EQ(ReadFarmMembers(folder)->members.size(), 1u);
  EXPECT_THAT(RevokeMember(folder, "alice").error().Text(), HasSubstr("there is no member alice"));
  EXPECT_FALSE(Invite(folder, "a b", Role::kClient).ok());
  std::filesystem::remove_all(folder);
}

TEST(Members, TheTrackersKeyIsReplacedAfterItsTime) {
  const std::string folder = testing::TempDir() + "rotated-" + rpc::RandomId();
  const auto ask = [&](int64_t for_ms) { return AnswerAboutMembers(folder, rpc::KeyRotate{for_ms}); };
  EXPECT_TRUE(std::get_if<rpc::Refusal>(&static_cast<const rpc::AnyBody&>(ask(60000)))) << "a farm without members";
  const rpc::JoinFile alice = Invite(folder, "alice", Role::kClient).value();
  EXPECT_TRUE(std::get_if<rpc::Refusal>(&static_cast<const rpc::AnyBody&>(ask(0))));
  const rpc::KeyRotated rotated = RotateKey(folder, 60000).value();
  EXPECT_EQ(RotateKey(folder, 120000).value().next_key, rotated.next_key) << "the time changes, not the key";
  // Who is invited meanwhile knows both.
  const rpc::JoinFile bob = Invite(folder, "bob", Role::kClient).value();
  EXPECT_EQ(bob.tracker_key, alice.tracker_key);
  EXPECT_EQ(bob.next_tracker_key, rotated.next_key);
  EXPECT_EQ(alice.next_tracker_key, "");
  EXPECT_EQ(ReadFarmMembers(folder)->keys.public_key, alice.tracker_key);
  ASSERT_TRUE(FinishRotation(folder).ok());
  EXPECT_EQ(ReadFarmMembers(folder)->keys.public_key, rotated.next_key);
  const rpc::JoinFile carol = Invite(folder, "carol", Role::kClient).value();
  EXPECT_EQ(carol.tracker_key, rotated.next_key);
  EXPECT_EQ(carol.next_tracker_key, "");
  // Without a tracker, the first change after the time does it.
  const std::string later = RotateKey(folder, 1000).value().next_key;
  EXPECT_NE(later, rotated.next_key);
  EXPECT_EQ(Invite(folder, "dave", Role::kClient).value().tracker_key, rotated.next_key);
  usleep(1100000);
  EXPECT_EQ(Invite(folder, "erin", Role::kClient).value().tracker_key, later);
  std::filesystem::remove_all(folder);
}

TEST(Members, ATrackerTellsItsNextKeyToWhomeverItAnswers) {
  MemberWorld w;
  for (const std::string next : {"", "next"}) {
    w.tracker.SetNextKey(next);
    w.ReportAs(w.board, "s1");
    EXPECT_EQ(w.Last<rpc::ReportReply>(w.board.peer)->next_key, next);
    w.AskAs(w.alice, "r" + next);
    w.SayAs(w.alice, "x", rpc::LeaseRenew{w.tracker.Status("", w.now).devices.at(0).lease});
    w.SayAs(w.alice, "y", rpc::StatusRequest{});
    EXPECT_EQ(w.Last<rpc::StatusReply>(w.alice.peer)->next_key, next);
  }
}

TEST(Members, AListThatAnEditorHasSpoiledIsRefused) {
  const std::string folder = testing::TempDir() + "spoiled-" + rpc::RandomId();
  const std::string alice = Invite(folder, "alice", Role::kClient).value().keys.public_key;
  const std::string bob = Invite(folder, "bob", Role::kClient).value().keys.public_key;
  const std::string good = ReadFile(MembersFile(folder)).value();
  const auto error_after = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_TRUE(WriteFile(MembersFile(folder), text).ok());
    const Result<Members> read = ReadFarmMembers(folder);
    EXPECT_EQ(RevokeMember(folder, "bob").ok(), read.ok());
    return read.ok() ? "" : read.error().Text();
  };
  EXPECT_THAT(error_after("\"bob\"", "\"alice\""), HasSubstr("two members have the name alice"));
  EXPECT_THAT(error_after("\"bob\"", "\"bo\\nb\""), HasSubstr("cannot be the name of a member"));
  EXPECT_THAT(error_after(bob, alice), HasSubstr("another member's"));
  EXPECT_THAT(error_after(bob, ""), HasSubstr("not 40 characters"));
  EXPECT_THAT(error_after(good.substr(good.size() / 2), ""), HasSubstr("in the list of members"));
  EXPECT_EQ(error_after("\"bob\"", "\"bob\""), "");
  std::filesystem::remove_all(folder);
}

// A running tracker must see each change, also if an administrator keeps the list elsewhere.
TEST(Members, AListBehindALinkIsWatched) {
  const std::string folder = testing::TempDir() + "linked-" + rpc::RandomId();
  ASSERT_TRUE(Invite(folder, "alice", Role::kClient).ok());
  std::filesystem::create_directory(folder + "/elsewhere");
  std::filesystem::rename(MembersFile(folder), folder + "/elsewhere/list");
  std::filesystem::create_symlink("elsewhere/list", MembersFile(folder));
  Loop loop;
  bool seen = false;
  const auto watch = FileWatch::Start(loop, MembersFile(folder), [&] {
    seen = true;
    loop.Stop();
  });
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(RevokeMember(folder, "alice").ok());
  const auto patience = loop.After(5000, [&] { loop.Stop(); });
  loop.Run();
  EXPECT_TRUE(seen);
  std::filesystem::remove_all(folder);
}

// A board may hang before it reports to a tracker that was started anew (tracker/power_cycle.h).
TEST(Members, BoardsThatAreSilentSinceARestartAreKnown) {
  MemberWorld before;
  before.ReportAs(before.board, "s1");
  before.Report("local", "cpu");
  const std::vector<KnownBoard> boards = before.tracker.Boards();
  ASSERT_EQ(boards.size(), 1u);
  const int64_t changes = before.tracker.changes();
  before.SayAs(before.board, "", rpc::ServerGoodbye{"s1", "1"});
  EXPECT_TRUE(before.tracker.Boards().empty()) << "it has left";
  EXPECT_GT(before.tracker.changes(), changes) << "the state must be stored";

  const auto options = [&] {
    TrackerState::Options made{.boards = boards, .forget_ms = 60000};
    made.name_of = [](const std::string& key) {
      return key == "key of board" ? std::optional<std::string>("board") : std::nullopt;
    };
    return made;
  };
  MemberWorld w(options());
  w.Pass(5000);
  ASSERT_EQ(w.tracker.Silences(w.now).size(), 1u);
  const ServerSilence silence = w.tracker.Silences(w.now)[0];
  EXPECT_EQ(silence.member, "board");
  EXPECT_EQ(silence.key, "cpu");
  EXPECT_EQ(silence.silent_ms, w.now);
  EXPECT_FALSE(silence.reports || silence.held);
  EXPECT_EQ(w.tracker.Boards().size(), 1u) << "for the next restart";
  w.ReportAs(Member("mallory", Role::kServer), "s1");
  EXPECT_EQ(w.tracker.Silences(w.now).size(), 2u) << "another member cannot stand for it";
  w.ReportAs(w.board, "s2");
  w.Pass(60000);
  EXPECT_THAT(w.tracker.Boards(), testing::Not(testing::Contains(testing::Field(&KnownBoard::server, "s1"))))
      << "it is forgotten after forget_ms";

  MemberWorld back(options());
  back.ReportAs(back.board, "s1");
  ASSERT_EQ(back.tracker.Silences(back.now).size(), 1u);
  EXPECT_TRUE(back.tracker.Silences(back.now)[0].reports);
  TrackerState::Options drained = options();
  drained.holds = {{.pattern = "cpu", .how = rpc::hold::kDrain}};
  EXPECT_TRUE(MemberWorld(drained).tracker.Silences(0).at(0).held);
  MemberWorld revoked(options());
  revoked.Take(revoked.tracker.RevokeMember(revoked.board.identity, revoked.now));
  EXPECT_TRUE(revoked.tracker.Boards().empty());
}

}  // namespace
}  // namespace autotune
