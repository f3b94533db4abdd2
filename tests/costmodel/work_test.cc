// Counts the operations and bytes of blocks, in programs small enough to count by hand.
#include "costmodel/work.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace autotune {
namespace {

Nest Parsed(const std::string& text) { return NestOf(ParsePrimFunc(text).value()); }

Work Of(const Nest& nest, const std::vector<Name>& blocks) { return WorkOf(nest, blocks); }

TEST(Work, CountsWhatPassesOfOneStageKeepToThemselvesAsNothing) {
  const Nest nest = Parsed(R"(func f(x: f32[10, 8] input, b: f32[8] input, y: f32[10, 8] output) {
  alloc t: f32[10, 8] global
  for i in 10 { for j in 8 { block a(vi: S 10 = i, vj: S 8 = j) { t[vi, vj] = x[vi, vj] + b[vj] } } }
  for k in 10 { for l in 8 { block c(vk: S 10 = k, vl: S 8 = l) { y[vk, vl] = exp(t[vk, vl]) } } }
})");
  const Work both = Of(nest, {"a", "c"}), first = Of(nest, {"a"}), none = Of(nest, {"nothing"});
  EXPECT_EQ(both.operations, 80 + 20 * 80);
  EXPECT_EQ(both.read_bytes, 320 + 32);
  EXPECT_EQ(both.write_bytes, 320);
  EXPECT_EQ(first.operations, 80);
  EXPECT_EQ(first.read_bytes, 320 + 32);
  EXPECT_EQ(first.write_bytes, 320) << "the result goes to another block";
  EXPECT_EQ(none.operations, 0);
  EXPECT_EQ(none.read_bytes + none.write_bytes, 0);
}

// A copy counts one operation per element. Only the part of a buffer that is read counts, and reading it twice counts
// once.
TEST(Work, CountsPartsOfBuffers) {
  const Nest nest = Parsed(R"(func f(x: f32[10, 8] input, y: f32[4, 4] output) {
  for i in 4 { for j in 4 { block a(vi: S 4 = i, vj: S 4 = j) { y[vi, vj] = x[vi, vj] } } }
})");
  const Work work = Of(nest, {"a"});
  EXPECT_EQ(work.operations, 16);
  EXPECT_EQ(work.read_bytes, 64);
  EXPECT_EQ(work.write_bytes, 64);
  const Nest twice = Parsed(R"(func f(x: f32[8] input, y: f32[6] output) {
  for i in 6 { block a(vi: S 6 = i) { y[vi] = x[vi] + x[vi + 2] } }
})");
  EXPECT_EQ(Of(twice, {"a"}).read_bytes, 32) << "at most the whole buffer counts";
}

// The accumulator of a sum counts as written, not as read, and padding is no work.
TEST(Work, CountsSums) {
  const Nest nest = Parsed(R"(func f(x: f32[10, 8] input, y: f32[10] output) {
  for i in 12 { for j in 8 { block a(vi: S 12 = i, vj: R 8 = j) where i < 10 @{"original vi" = 10} {
    init { y[vi] = 0.0 }
    y[vi] = y[vi] + x[vi, vj] } } }
})");
  const Work work = Of(nest, {"a"});
  EXPECT_EQ(work.operations, 80);
  EXPECT_EQ(work.read_bytes, 320);
  EXPECT_EQ(work.write_bytes, 40);
}

}  // namespace
}  // namespace autotune
