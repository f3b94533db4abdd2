// What a member, or someone who was one, can do to others if a rule is off.
#include <gtest/gtest.h>

#include <algorithm>

#include "rpc/allow_list.h"
#include "rpc/rules.h"
#include "rpc/server_session.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::From;
using rpc::Role;

From Member(const std::string& name, Role role) {
  return {.peer = "at " + name, .identity = "key of " + name, .name = name, .roles = {role}};
}
const From kBoard = Member("board", Role::kServer), kAlice = Member("alice", Role::kClient),
           kEve = Member("eve", Role::kClient);

class MembersWithout : public testing::Test {
 protected:
  ~MembersWithout() override { rpc::BreakRule(""); }

  // Returns whether the attack succeeds without the rule, and fails with it.
  template <class Attack>
  bool IsNeeded(const char* rule, const Attack& succeeds) {
    rpc::BreakRule(rule);
    const bool without = succeeds();
    rpc::BreakRule("");
    return without && !succeeds();
  }
};

// A tracker with a server of kBoard, whose device kAlice holds.
struct Leased {
  Leased() : tracker(WithLease(), 0) {
    rpc::ServerReport report{.server = "s1", .incarnation = "1", .device = {.key = "cpu", .endpoint = "tcp://h:1"}};
    report.ready = true;
    for (const TrackerState::Dial& dial : tracker.On(kBoard, {"", report, {}}, 0))
      tracker.OnDialAnswer(dial, {"", rpc::Pong{"", "s1"}, {}}, 0);
    tracker.On(kAlice, {"r1", Wish(), {}}, 0);
  }
  TrackerState::Options WithLease() {
    TrackerState::Options options;
    options.send = [this](const rpc::Peer&, const rpc::Message& message) {
      if (const auto* granted = message.As<rpc::LeaseGranted>()) lease = granted->lease;
    };
    return options;
  }
  static rpc::LeaseRequest Wish() { return {.client = "c", .client_name = "c", .key = "cpu", .wait_ms = 1000}; }
  std::string State() const { return tracker.Status("", 0).devices.at(0).state; }

  rpc::Id lease;
  TrackerState tracker;
};

TEST_F(MembersWithout, TheAllowListStrangersGetIn) {
  EXPECT_TRUE(
      IsNeeded("allow-list", [] { return rpc::AllowList(rpc::AllowList::Entries()).Find("any key").has_value(); }));
}

TEST_F(MembersWithout, TheRolesAServersKeyWaitsForDevices) {
  EXPECT_TRUE(IsNeeded("roles", [] {
    Leased farm;
    farm.tracker.On(kBoard, {"r2", Leased::Wish(), {}}, 0);
    return !farm.tracker.Status("", 0).queue.empty();
  }));
}

TEST_F(MembersWithout, TheRolesAClientInvitesAnAdministrator) {
  EXPECT_TRUE(IsNeeded("roles", [] {
    bool invited = false;
    const auto invite = [&](const rpc::Body&) -> rpc::Body {
      invited = true;
      return rpc::MemberInvited();
    };
    TrackerState tracker({.about_members = invite}, 0);
    tracker.On(kEve, {"r", rpc::MemberInvite{.name = "eve2", .role = "admin"}, {}}, 0);
    return invited;
  }));
}

TEST_F(MembersWithout, TheOwnersAMemberEndsTheLeaseOfAnother) {
  EXPECT_TRUE(IsNeeded("owners", [] {
    Leased farm;
    EXPECT_EQ(farm.State(), "busy");
    farm.tracker.On(kEve, {"r2", rpc::LeaseRelease{farm.lease}, {}}, 0);
    return farm.State() == "free";
  }));
}

TEST_F(MembersWithout, TheOwnersAMemberReportsTheRunOfAnother) {
  EXPECT_TRUE(IsNeeded("owners", [] {
    TrackerState tracker({}, 0);
    const rpc::From bob{.peer = "at bob", .identity = "key of bob", .name = "bob", .roles = {rpc::Role::kClient}};
    tracker.On(bob, {"", rpc::JobReport{.run = "r", .network = "his"}, {}}, 0);
    tracker.On(kEve, {"", rpc::JobReport{.run = "r", .network = "hers"}, {}}, 0);
    return tracker.Snapshot(0).jobs.at(0).report.network == "hers";
  }));
}

TEST_F(MembersWithout, TheProofAMemberTakesADeviceWithoutALease) {
  EXPECT_TRUE(IsNeeded("proof", [] {
    rpc::ServerSession server({.server = "s1", .incarnation = "1", .grant_key = "secret"});
    const rpc::LeaseClaim made_up{.lease = "l", .token = {1, 1}, .ttl_ms = 10000, .client = "c", .incarnation = "1"};
    server.On(kEve, {"b", rpc::ClientBeat{made_up, ""}, {}}, 0);
    return server.Busy();
  }));
}

}  // namespace
}  // namespace autotune
