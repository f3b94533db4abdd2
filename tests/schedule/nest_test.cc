#include "schedule/nest.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "schedule/nest_sums.h"
#include "schedule/replay.h"
#include "support/rng.h"
#include "tests/ir/parse.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

std::string NestText(const std::string& program) { return ToText(NestOf(test::Parse(program))); }

TEST(Nest, ShowsTheWholeOfAProgram) {
  EXPECT_EQ(NestText(R"(
func f(x: f32[10, 8] input, w: f64[8] constant, y: f32[10, 8] output) {
  alloc t: f32[12, 8] register
  for i in 4 parallel {
    for j in 3 {
      for k in 8 vectorized {
        block b(vi: S 10 = i * 3 + j, vk: S 8 = k) where i * 3 + j < 10 {
          t[vi, vk] = fma(x[vi, vk], x[min(vi + 1, 9), vk], t[vi, vk])
        }
      }
    }
    for l in 3 @{peel = 1} {
      block c(vl: S 12 = i * 3 + l, r: R 8 = 0) @{"original vl" = 10} {
        y[vl // 4 % 2 * 4 + vl % 4, 7 - r] = exp(t[vl, r]) * 2.0
      }
    }
  }
}
)"),
            R"(input x: 4 bytes [ 10 by 8 8 by 1 ] global
constant w: 8 bytes [ 8 by 1 ] global
output y: 4 bytes [ 10 by 8 8 by 1 ] global
temporary t: 4 bytes [ 12 by 8 8 by 1 ] register
for i in 4 parallel
  for j in 3
    for k in 8 vectorized
      block b: 1 fma
        vi: S 10 = 3*i + j
        vk: S 8 = k
        if 3*i + j <= 9
        read write t [ vi, vk, ]
        read x [ vi, vk, ]
        read x [ {vi + 1 <= 9}, vk, ]
  for l in 3 peeled
    block c: 1 mul 1 transcendental
      vl: S 12 of 10 = 3*i + l
      r: R 8 = 0
      write y [ 4*vl//4%2 + vl%4, -1*r + 7, ]
      read t [ vl, r, ]
)");
}

TEST(Nest, SaysWhatItDoesNotKnow) {
  std::string text = NestText(R"(
func f(x: f32[10] input, n: i64[10] input, y: f32[10] output) {
  for i in 10 {
    block b(v: S 10 = i) { y[v] = x[index(n[v])] }
  }
  for j in 10 {
    block c(w: S 10 = j) { y[w] = x[select(w < 5, w, 9 - w)] }
  }
}
)");
  EXPECT_NE(text.find("read x [ opaque(v), ]"), std::string::npos) << text;
  EXPECT_NE(text.find("read x [ opaque({0 <= w <= 9}), ]"), std::string::npos) << text;
}

// A block is prepared if it depends on constants only and writes no buffer that a run-time statement also writes. This
// is the rule by which lowering moves blocks to `prepare`.
TEST(Nest, KnowsWhatIsPrepared) {
  const std::string program = R"(
func f(x: f32[8] input, w: f32[8] constant, y: f32[8] output) {
  alloc p: f32[8]
  alloc q: f32[8]
  for i in 8 { block first(a: S 8 = i) { p[a] = w[a] * 2.0 } }
  for j in 8 { block second(b: S 8 = j) { q[b] = p[b] + w[b] } }
  for k in 8 { block third(c: S 8 = k) { y[c] = q[c] * x[c] } }
}
)";
  Nest nest = NestOf(test::Parse(program));
  ASSERT_EQ(nest.blocks.size(), 3U);
  EXPECT_TRUE(nest.blocks[0].prepared);
  EXPECT_TRUE(nest.blocks[1].prepared);
  EXPECT_FALSE(nest.blocks[2].prepared);
  std::string other = program;
  other.replace(other.find("p[b] + w[b]"), 11, "p[b] + x[b]");
  nest = NestOf(test::Parse(other));
  EXPECT_TRUE(nest.blocks[0].prepared);
  EXPECT_FALSE(nest.blocks[1].prepared);
}

TEST(Nest, HasPrefetchesFromTheAnnotation) {
  PrimFunc func = zoo::Dense(16, 64, 32);
  Schedule schedule = zoo::Scheduled(func, "");
  Nest plain = NestOf(schedule.func());
  const Nest::Block& block = plain.blocks[0];
  std::span<const Nest::Index> loops = plain.LoopsOf(block);
  ASSERT_EQ(loops.size(), 3U);
  const Name row = plain.loops[loops[0]].name, inner = plain.loops[loops[2]].name;
  for (int64_t ahead : {0, 2}) {
    Schedule other = schedule;
    const Name buffer = plain.buffers[plain.AccessesOf(block)[1].buffer].name;
    auto applied = other.Apply(Prefetch{block.name, buffer, row, inner, ahead});
    ASSERT_TRUE(applied.ok()) << applied.error().Text();
    Nest nest = NestOf(other.func());
    ASSERT_EQ(nest.prefetches.size(), ahead > 0 ? 1U : 0U);
    EXPECT_EQ(ToText(nest) == ToText(plain), ahead == 0);
    if (ahead == 0) continue;
    const Nest::Prefetch& prefetch = nest.prefetches[0];
    EXPECT_EQ(nest.blocks[prefetch.block].name, block.name);
    EXPECT_EQ(nest.buffers[prefetch.buffer].name, buffer);
    EXPECT_EQ(nest.loops[prefetch.loop].name, row);
    EXPECT_EQ(nest.loops[prefetch.at].name, inner);
    EXPECT_EQ(prefetch.ahead, 2);
  }
}

int64_t SumOf(const Nest& nest, const Nest::Sum& sum, const std::vector<int64_t>& loops) {
  int64_t value = sum.constant;
  for (const Nest::Term& term : nest.TermsOf(sum)) {
    int64_t x = term.of == Nest::Of::kLoop ? loops[term.index] : SumOf(nest, nest.sums[term.index], loops);
    x = x / term.div;
    value += term.coefficient * (term.mod > 0 ? x % term.mod : x);
  }
  return std::min(std::max(value, sum.low), sum.high);
}

// Random sums built with and without normalization have equal values everywhere, before and after a loop is split.
TEST(NestSums, AreEqualToWhatTheyAreMadeOf) {
  Rng rng(5);
  int nested = 0, splits = 0;
  for (int round = 0; round < 300; ++round) {
    Nest nest;
    for (int i = 0; i < 5; ++i) nest.loops.push_back({.extent = 1 + rng.Below(6)});
    NestSums sums(nest);
    struct Made {
      Nest::Sum sum;
      std::function<int64_t(const std::vector<int64_t>&)> value;
    };
    std::vector<Made> made;
    for (int i = 0; i < 3; ++i)
      made.push_back({sums.Variable(Nest::Of::kLoop, i), [i](const auto& loops) { return loops[i]; }});
    for (int i = 0; i < 8; ++i) {
      Made x = made[rng.Below(static_cast<int64_t>(made.size()))],
           y = made[rng.Below(static_cast<int64_t>(made.size()))];
      const int64_t c = 1 + rng.Below(12);
      switch (rng.Below(5)) {
        case 0:
          made.push_back({sums.Div(x.sum, c), [=](const auto& l) { return x.value(l) / c; }});
          break;
        case 1:
          made.push_back({sums.Mod(x.sum, c), [=](const auto& l) { return x.value(l) % c; }});
          break;
        case 2:
          made.push_back(
              {sums.Clamp(x.sum, 1, c), [=](const auto& l) { return std::clamp<int64_t>(x.value(l), 1, c); }});
          break;
        default:
          made.push_back({sums.Add(x.sum, y.sum, c), [=](const auto& l) { return x.value(l) + c * y.value(l); }});
      }
    }
    const Made& last = made.back();
    for (const Nest::Term& term : nest.TermsOf(last.sum)) nested += term.of == Nest::Of::kSum;
    // Splits loop 0 into loops 3 and 4. The product of their extents may exceed that of loop 0.
    const int64_t inner = nest.loops[4].extent;
    nest.loops[3].extent = (nest.loops[0].extent + inner - 1) / inner;
    Nest::Sum digits = sums.Add(sums.Variable(Nest::Of::kLoop, 4), sums.Variable(Nest::Of::kLoop, 3), inner);
    Nest::Sum split = sums.Substitute(last.sum, Nest::Of::kLoop, 0, digits);
    splits += sums.Uses(last.sum, Nest::Of::kLoop, 0);
    EXPECT_FALSE(sums.Uses(split, Nest::Of::kLoop, 0));
    const NestSums::Bounds bounds = sums.BoundsOf(last.sum);
    std::vector<int64_t> at(5, 0);
    for (at[0] = 0; at[0] < nest.loops[0].extent; ++at[0]) {
      for (at[1] = 0; at[1] < nest.loops[1].extent; ++at[1]) {
        for (at[2] = 0; at[2] < nest.loops[2].extent; ++at[2]) {
          at[3] = at[0] / inner, at[4] = at[0] % inner;
          const int64_t value = last.value(at);
          ASSERT_EQ(SumOf(nest, last.sum, at), value) << "round " << round;
          ASSERT_TRUE(value >= bounds.low && value <= bounds.high) << "round " << round;
          ASSERT_EQ(SumOf(nest, split, at), value) << "round " << round;
        }
      }
    }
  }
  EXPECT_GT(nested, 20);
  EXPECT_GT(splits, 50);
}

// Sums are normalized as in schedules: a // or % by a constant that divides the digits disappears.
TEST(NestSums, NormaliseDigits) {
  EXPECT_NE(NestText("func f(x: f32[6, 4] input, y: f32[24] output) { for i in 6 { for j in 4 { "
                     "block b(v: S 24 = i * 4 + j, a: S 6 = (i * 4 + j) // 4, c: S 4 = (i * 4 + j) % 4, "
                     "d: S 2 = (i * 4 + j) % 8 // 4) { y[v] = x[a, c] } } } }")
                .find("a: S 6 = i\n      c: S 4 = j\n      d: S 2 = i%2\n"),
            std::string::npos);
}

}  // namespace
}  // namespace autotune
