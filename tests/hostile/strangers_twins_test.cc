// The attacks of strangers_test.cc, where nothing stops them: each succeeds without its rule.
#include "tests/hostile/strangers.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
class StrangerTwins : public StrangersFarm {
 protected:
  void SetUp() override { FarmTest::SetUp(); }
  bool ServersAreFree() { return Count("victim") == 1 && Count("bystander") == 1; }
};

TEST_F(StrangerTwins, WithoutKeysTheStatusIsEverybodys) {
  StartMembers({{"tracker", "keys,allow-list"}});
  EXPECT_TRUE(PlainStatus());
}

TEST_F(StrangerTwins, WithoutTheListRolesAndProofsFarmsAreEverybodys) {
  StartMembers({{"tracker", "allow-list,roles,handshakes"}, {"victim", "proof,ended-lease"}});
  const UniqueFd idle = Dial(TrackerPort());
  const int64_t began = BootMillis();
  ASSERT_TRUE(Soon([&] { return ServersAreFree(); })) << Log();
  EXPECT_TRUE(StatusAs(rpc::NewCurveKeys()));
  EXPECT_THAT(WhatARevokedMemberGets(), testing::ElementsAre("the status", "a device", "its lease"));
  EXPECT_TRUE(LeaseForAServer());
  EXPECT_TRUE(ReplayedGrant());
  EXPECT_TRUE(StolenGrant("eve"));
  EXPECT_TRUE(StolenGrant("spare"));
  EXPECT_TRUE(Soon([&] { return BootMillis() - began > 6500; }, 10));
  EXPECT_FALSE(IsClosed(idle));
}

TEST_F(StrangerTwins, UnfinishedMessagesTakeMuchMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not tell what is allocated";
  StartMembers({{"tracker", "memory-watch"}});
  EXPECT_GT(GrowthByStrangers("tcp://127.0.0.1:" + rpc::PortOf(TrackerPort()), TrackerPid(), 200), 128 << 20);
}
#endif

}  // namespace
}  // namespace autotune
