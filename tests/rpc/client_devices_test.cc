// Which devices a client session takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/rpc/client_world.h"

namespace autotune::rpc {
namespace {

// A job without candidates gets a device for the jobs that follow.
TEST(ClientSession, AnEmptyJobIsDoneWithADevice) {
  ClientWorld w;
  w.Start(0);
  EXPECT_EQ(w.done, 0);
  w.Grant();
  EXPECT_EQ(w.done, 1);
  ASSERT_TRUE(w.session.HasLease());
  w.Start(0);
  EXPECT_EQ(w.done, 2) << "it has a device already";
  w.Start(1);
  EXPECT_EQ(w.Count<LeaseRequest>(w.tracker), 1);
  EXPECT_EQ(w.Count<MeasureRequest>(w.server), 1);

  ClientWorld cancelled;
  cancelled.Start(0);
  cancelled.Take(cancelled.session.Cancel(0));
  EXPECT_EQ(cancelled.done, 1);
  EXPECT_FALSE(cancelled.session.HasLease());
  ClientWorld refused;
  refused.Start(0);
  refused.HearTracker(refused.LeaseRequestId(), Refusal{code::kUnknownKey, "no such key"});
  EXPECT_EQ(refused.error, "no such key");
}

TEST(ClientSession, UnfitDevicesAreGivenBackAndNamed) {
  ClientWorld w({.fits = [](const LeaseGranted& granted) { return granted.server == "good"; }});
  w.Start(1);
  w.Grant(1, "bad");
  EXPECT_EQ(w.Last<LeaseRelease>(w.tracker)->As<LeaseRelease>()->lease, "lease1");
  EXPECT_FALSE(w.session.HasLease());
  ASSERT_EQ(w.Count<LeaseRequest>(w.tracker), 2) << "it asks for another one at once";
  EXPECT_THAT(w.Last<LeaseRequest>(w.tracker)->As<LeaseRequest>()->unfit, testing::ElementsAre("bad"));
  // A tracker of an earlier version grants the same one again: ask later, not at once.
  w.Grant(2, "bad");
  EXPECT_EQ(w.Last<LeaseRelease>(w.tracker)->As<LeaseRelease>()->lease, "lease2");
  w.Pass(4900);
  EXPECT_EQ(w.Count<LeaseRequest>(w.tracker), 2);
  w.Pass(200);
  EXPECT_EQ(w.Count<LeaseRequest>(w.tracker), 3);
  w.Grant(3, "good");
  EXPECT_TRUE(w.session.HasLease());
  EXPECT_EQ(w.Count<LeaseRelease>(w.tracker), 2);
}

}  // namespace
}  // namespace autotune::rpc
