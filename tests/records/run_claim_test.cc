// The rules of claims, without a store. An owner on another host is one whose `processes` differ.
#include "records/run_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace autotune {
namespace {

constexpr int64_t kTtl = 30000;

RunOwner Remote() {
  RunOwner owner = NewRunOwner();
  owner.host = "mill";
  owner.processes = "another boot";
  return owner;
}

// Returns an owner on this host that has ended.
RunOwner Dead() {
  RunOwner owner = NewRunOwner();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  owner.pid = child;
  return owner;
}

class Claims : public testing::Test {
 protected:
  RunClaim Claim(const RunOwner& owner, int64_t now = 0) {
    StoredClaim next;
    RunClaim claim = rules_.Judge("run", owner, kTtl, stored_, now, &next);
    if (claim.granted) stored_ = next;
    return claim;
  }
  ClaimRules rules_;
  std::optional<StoredClaim> stored_;
};

TEST(OwnerState, FollowsTheProcess) {
  RunOwner self = NewRunOwner();
  EXPECT_EQ(StateOf(self), OwnerState::kAlive);
  EXPECT_EQ(StateOf(Dead()), OwnerState::kDead);
  EXPECT_EQ(StateOf(Remote()), OwnerState::kUnknown);
  RunOwner reused = self;
  ++reused.started;  // this process has the number of an earlier one
  EXPECT_EQ(StateOf(reused), OwnerState::kDead);
  RunOwner unnamed = self;
  unnamed.processes = "";
  EXPECT_EQ(StateOf(unnamed), OwnerState::kUnknown);
}

TEST_F(Claims, ALivingOwnerKeepsItsRun) {
  const RunOwner first = NewRunOwner(), second = NewRunOwner();
  EXPECT_TRUE(Claim(first).granted);
  const RunClaim refused = Claim(second, 100 * kTtl);
  EXPECT_FALSE(refused.granted);
  EXPECT_EQ(refused.owner.id, first.id);
  EXPECT_FALSE(refused.wait_ms) << "a living owner is not replaced, however long it has not renewed";
}

TEST_F(Claims, ADeadOwnerIsReplacedAtOnce) {
  stored_ = StoredClaim{Dead(), 3, kTtl};
  EXPECT_TRUE(Claim(NewRunOwner()).granted);
}

TEST_F(Claims, AnOwnerOnAnotherHostIsReplacedWhenItDoesNotRenew) {
  stored_ = StoredClaim{Remote(), 3, kTtl};
  const RunOwner self = NewRunOwner();
  EXPECT_EQ(Claim(self, 1000).wait_ms, kTtl);
  EXPECT_EQ(Claim(self, 1000 + kTtl - 1).wait_ms, 1);
  EXPECT_TRUE(Claim(self, 1000 + kTtl).granted);
}

TEST_F(Claims, AnOwnerOnAnotherHostThatRenewsKeepsItsRun) {
  stored_ = StoredClaim{Remote(), 3, kTtl};
  const RunOwner self = NewRunOwner();
  EXPECT_EQ(Claim(self, 1000).wait_ms, kTtl);
  ++stored_->renewals;
  EXPECT_EQ(Claim(self, 1000 + kTtl).wait_ms, kTtl);
}

TEST_F(Claims, ALostClaimIsNotGrantedAgain) {
  const RunOwner self = NewRunOwner();
  EXPECT_TRUE(Claim(self).granted);
  EXPECT_TRUE(rules_.MayAppend("run", stored_).ok());
  EXPECT_TRUE(rules_.MayAppend("another run", std::nullopt).ok()) << "records of other runs may be imported";
  stored_ = StoredClaim{Remote(), 0, kTtl};
  EXPECT_EQ(Claim(self).owner.host, "mill");
  const Status refused = rules_.MayAppend("run", stored_);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(), testing::HasSubstr("on host mill has taken this run over"));
  stored_.reset();  // the other owner has finished
  EXPECT_FALSE(Claim(self, 100 * kTtl).granted);
  EXPECT_FALSE(rules_.MayAppend("run", stored_).ok());
}

}  // namespace
}  // namespace autotune
