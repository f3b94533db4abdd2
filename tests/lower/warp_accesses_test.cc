// Bank conflicts and sectors of a warp's memory accesses, in programs small enough to count them by hand.
#include "lower/warp_accesses.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace autotune {
namespace {

// Returns the accesses of a kernel of `y` times `x` threads that runs the statements.
std::vector<WarpAccess> Of(const std::string& statements, int y = 1, int x = 32) {
  const std::string text =
      "func f(g: f32[65536] input, out: f32[65536] output) { for b in 2 blockIdx.x {\n"
      "local s: f32[8192] shared\n for ty in " +
      std::to_string(y) + " threadIdx.y { for tx in " + std::to_string(x) + " threadIdx.x {\n" + statements + "} } } }";
  Result<PrimFunc> f = ParsePrimFunc(text);
  EXPECT_TRUE(f.ok()) << f.error().Text() << text;
  return f.ok() ? WarpAccessesOf(f->body) : std::vector<WarpAccess>();
}
int64_t ConflictsOf(const std::string& store, int y = 1, int x = 32) { return Of(store, y, x).back().conflicts; }
std::pair<int64_t, int64_t> SectorsOf(const std::string& store) {
  const std::vector<WarpAccess> accesses = Of(store);
  return {accesses.back().sectors, accesses.back().least_sectors};
}

TEST(WarpAccesses, NumbersConflictWhereTheyShareABank) {
  EXPECT_EQ(ConflictsOf("s[tx] = 0.0"), 0);
  EXPECT_EQ(ConflictsOf("s[tx * 2] = 0.0"), 1);
  EXPECT_EQ(ConflictsOf("s[tx * 32] = 0.0"), 31);
  EXPECT_EQ(ConflictsOf("s[tx * 33] = 0.0"), 0) << "rows padded by one element lie in different banks";
  EXPECT_EQ(ConflictsOf("s[tx * 3] = 0.0"), 0) << "odd strides use all banks";
  EXPECT_EQ(ConflictsOf("s[ty * 32 + tx] = 0.0", 4, 8), 3) << "four rows of eight threads use the same banks";
  EXPECT_EQ(ConflictsOf("s[ty * 8 + tx] = 0.0", 4, 8), 0);
}

TEST(WarpAccesses, OneWordForSeveralLanesIsOnePass) {
  EXPECT_EQ(ConflictsOf("s[0] = 0.0"), 0);
  EXPECT_EQ(ConflictsOf("s[tx // 16 * 32] = 0.0"), 1) << "the warp reads two words of one bank";
}

// The hardware serves vectors in groups of lanes: a quarter of the warp for 16 bytes, half of it for 8.
TEST(WarpAccesses, VectorsAreServedInGroups) {
  EXPECT_EQ(ConflictsOf("s[ramp(tx * 4, 1, 4)] = broadcast(0.0, 4)"), 0);
  EXPECT_EQ(ConflictsOf("s[ramp(tx * 8, 1, 4)] = broadcast(0.0, 4)"), 4) << "each of the four groups takes two passes";
  EXPECT_EQ(ConflictsOf("s[ramp(tx * 32, 1, 4)] = broadcast(0.0, 4)"), 28);
  EXPECT_EQ(ConflictsOf("s[ramp(tx // 8 * 32, 1, 4)] = broadcast(0.0, 4)"), 0) << "each group reads one vector";
  EXPECT_EQ(ConflictsOf("s[ramp(tx * 2, 1, 2)] = broadcast(0.0, 2)"), 0);
  EXPECT_EQ(ConflictsOf("s[ramp(tx * 4, 1, 2)] = broadcast(0.0, 2)"), 2);
}

TEST(WarpAccesses, LanesThatLieApartAreAccessesOfTheirOwn) {
  const std::vector<WarpAccess> accesses = Of("s[ramp(tx * 4, 2, 2)] = broadcast(0.0, 2)");
  ASSERT_EQ(accesses.size(), 2u);
  EXPECT_EQ(accesses[0].bytes, 4);
  EXPECT_EQ(accesses[0].conflicts, 3);
}

TEST(WarpAccesses, SectorsThatAreUsedInPartAreMoreThanTheLeast) {
  using Sectors = std::pair<int64_t, int64_t>;
  EXPECT_EQ(SectorsOf("out[b * 32 + tx] = 0.0"), Sectors(4, 4));
  EXPECT_EQ(SectorsOf("out[tx * 2] = 0.0"), Sectors(8, 4));
  EXPECT_EQ(SectorsOf("out[tx * 1024] = 0.0"), Sectors(32, 4));
  EXPECT_EQ(SectorsOf("out[tx + 1] = 0.0"), Sectors(5, 4)) << "the first element does not begin a sector";
  EXPECT_EQ(SectorsOf("out[ramp(tx * 4, 1, 4)] = broadcast(0.0, 4)"), Sectors(16, 16));
  EXPECT_EQ(SectorsOf("out[ramp(tx // 4 * 1024 + tx % 4 * 4, 1, 4)] = broadcast(0.0, 4)"), Sectors(16, 16))
      << "there are eight rows of two sectors";
  EXPECT_EQ(SectorsOf("out[ramp(tx * 1024, 1, 4)] = broadcast(0.0, 4)"), Sectors(32, 16));
}

TEST(WarpAccesses, LoadsAreFoundWhereverTheyStand) {
  const std::vector<WarpAccess> accesses = Of("for k in 5 { if (g[tx] < 1.0) { out[tx] = s[tx * 2] + g[k] } }");
  ASSERT_EQ(accesses.size(), 4u);
  EXPECT_EQ(accesses[0].buffer, Name("g"));
  EXPECT_EQ(accesses[1].buffer, Name("s"));
  EXPECT_EQ(accesses[1].conflicts, 1);
  EXPECT_FALSE(accesses[1].write);
  EXPECT_EQ(accesses[2].sectors, 1) << "all lanes read one number";
  EXPECT_TRUE(accesses[3].write);
  for (const WarpAccess& access : accesses) EXPECT_EQ(access.times, 5);
}

TEST(WarpAccesses, LanesWhoseConditionFailsTakeNoPart) {
  EXPECT_EQ(Of("if (tx < 1) { s[tx * 32] = 0.0 }").back().conflicts, 0);
  EXPECT_EQ(Of("if (tx < 4) { s[tx * 32] = 0.0 } else { s[tx] = 1.0 }")[0].conflicts, 3);
  EXPECT_EQ(Of("out[tx] = select(tx < 2, s[tx * 32], 0.0)")[0].conflicts, 1);
}

// The number of conflicts is that of the worst warp in its worst iteration.
TEST(WarpAccesses, TheWorstOfWarpsAndIterationsCounts) {
  EXPECT_EQ(ConflictsOf("for k in 2 { s[tx * (k + 1)] = 0.0 }"), 1);
  EXPECT_EQ(ConflictsOf("s[tx * (ty + 1)] = 0.0", 2, 32), 1);
  EXPECT_EQ(ConflictsOf("let step = 1 + ty s[tx * step] = 0.0", 2, 32), 1);
}

}  // namespace
}  // namespace autotune
