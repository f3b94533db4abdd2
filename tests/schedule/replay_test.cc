// Replay, snapshots and decisions, and the tiles that are drawn.
#include "schedule/replay.h"

#include <gmock/gmock.h>

#include <set>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/sample.h"
#include "tests/schedule/query.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTrace[] = R"(
sample_tile(dense_n, n=2, max_inner=8, multiple_of=2) -> n_t
split(dense_n, n_t) -> n_0, n_1
sample_categorical([1, 2, 4], []) -> u
split(dense_k, [?, u]) -> k_0, k_1
sample_tile(dense_m, n=3, max_inner=6, multiple_of=1) -> m_t
split(dense_m, m_t)
sample_compute_location(dense) -> at
)";

TEST(Replay, KeepsRedrawsAndOverrides) {
  PrimFunc f = zoo::Dense(13, 20, 12);
  Trace undecided = *ParseTrace(kTrace);
  EXPECT_THAT(Replay(f, undecided).error().Text(), HasSubstr("the step has no decision"));
  EXPECT_THAT(Replay(f, undecided).error().Text(), HasSubstr("while replaying step 1: sample_tile(dense_n"));

  Rng rng(1), same(1);
  auto first = Replay(f, undecided, {.rng = &rng});
  ASSERT_TRUE(first.ok()) << first.error().Text();
  auto again = Replay(f, undecided, {.rng = &same});
  EXPECT_EQ(ToText(first->trace()), ToText(again->trace()));
  auto kept = Replay(f, first->trace());
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(ToText(kept->trace()), ToText(first->trace()));
  EXPECT_TRUE(Equal(kept->func(), first->func()));

  std::set<std::string> different;
  for (int i = 0; i < 20; ++i) {
    auto redrawn = Replay(f, first->trace(), {.rng = &rng, .resample_all = true});
    ASSERT_TRUE(redrawn.ok()) << redrawn.error().Text();
    different.insert(ToText(redrawn->trace()));
  }
  EXPECT_GT(different.size(), 10u);

  auto overridden = Replay(f, first->trace(), {.overrides = {{2, Decision{2}}}});
  ASSERT_TRUE(overridden.ok());
  EXPECT_EQ(*overridden->Value("u"), 2);
  EXPECT_EQ((*GetLoops(overridden->func(), "dense")).back().extent, 2);
  EXPECT_THAT(Replay(f, first->trace(), {.overrides = {{2, Decision{3}}}}).error().Text(),
              HasSubstr("the decision 3 is not a candidate"));
}

TEST(Replay, FromASnapshotGivesTheSameAsFromTheStart) {
  PrimFunc f = zoo::Dense(13, 20, 12);
  Rng rng(5);
  std::vector<Snapshot> snapshots;
  auto parent = Replay(f, *ParseTrace(kTrace), {.rng = &rng, .snapshots = &snapshots});
  ASSERT_TRUE(parent.ok());
  ASSERT_EQ(snapshots.size(), 4u);
  EXPECT_EQ(snapshots[2].step(), 4u);
  for (const Snapshot& snapshot : snapshots) {
    ReplayOptions options;
    Rng mine(9), theirs(9);
    options.rng = &mine;
    options.overrides[snapshot.step()] = {};
    auto mutant = ReplayFrom(snapshot, parent->trace(), options);
    options.rng = &theirs;
    auto whole = Replay(f, parent->trace(), options);
    ASSERT_EQ(mutant.ok(), whole.ok());
    if (!mutant.ok()) continue;
    EXPECT_EQ(ToText(mutant->trace()), ToText(whole->trace()));
    EXPECT_EQ(FirstMismatch(mutant->func(), whole->func()), "");
  }
  EXPECT_FALSE(ReplayFrom(snapshots.back(), Trace()).ok());
}

// Replay must refuse these steps as Schedule::Apply does, since records are replayed.
TEST(Replay, NothingRewritesLoopsBehindAPrefetch) {
  PrimFunc f = zoo::Dense(8, 64, 64);
  const std::string prefetch = "split(dense_k, [?, 4]) -> k_0, k_1\nprefetch(dense, b, dense_n, k_0, 1)\n";
  EXPECT_TRUE(Replay(f, *ParseTrace(prefetch + "unroll(k_1)")).ok());
  auto refused = Replay(f, *ParseTrace(prefetch + "split(dense_n, [?, 2]) -> n_0, n_1"));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().Text(), HasSubstr("prefetches come last"));
}

TEST(Sample, TilesNeedNotDivideButWasteLittle) {
  EXPECT_THAT(InnerTiles(3136, 14, 1, CoverLimit(3136, false)),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  EXPECT_THAT(InnerTiles(64, 32, 8, CoverLimit(64, false)), ElementsAre(8, 16, 24, 32));
  EXPECT_THAT(InnerTiles(12, 8, 1, CoverLimit(12, true)), ElementsAre(1, 2, 3, 4, 6));  // for reductions, divisors only
  EXPECT_THAT(InnerTiles(10, 32, 8, CoverLimit(10, false)), ElementsAre(8, 16));        // larger tiles waste more
  EXPECT_THAT(MiddleTiles(7, 1, 8), ElementsAre(1, 2, 4, 7));
  EXPECT_THAT(MiddleTiles(7, 1, 7), ElementsAre(1, 7));
  Rng rng(2);
  for (int64_t extent : {1, 2, 7, 49, 55, 64, 169, 196, 1000, 3136, 12321}) {
    for (int i = 0; i < 200; ++i) {
      std::vector<int64_t> tile = *DrawTile(extent, 3, 14, 1, CoverLimit(extent, false), rng);
      EXPECT_TRUE(CheckTile(tile, extent, 3, 14, 1).ok());
      EXPECT_LE(tile[0] * tile[1] * tile[2], std::max<int64_t>(CoverLimit(extent, false), extent));
    }
  }
}

}  // namespace
}  // namespace autotune
