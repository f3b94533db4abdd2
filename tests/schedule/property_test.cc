// Random traces over random programs: what is legal keeps the meaning, what is not changes nothing, and both print,
// parse and replay to the same. AUTOTUNE_SCHEDULE_SEEDS: how many programs (default 150).
#include <gtest/gtest.h>

#include <map>

#include "ir/text.h"
#include "ir/visit.h"
#include "schedule/query.h"
#include "schedule/replay.h"
#include "tests/ir/random_program.h"
#include "tests/schedule/step_source.h"
#include "tests/schedule/zoo.h"

namespace autotune {
namespace {

struct Counts {
  std::map<std::string, int> legal, refused;
};

void Check(const PrimFunc& f, uint64_t seed, int steps, Counts& counts) {
  StepSource source(seed);
  Schedule schedule(f);
  for (int i = 0; i < steps; ++i) {
    Step step = source.Next(schedule);
    PrimFunc before = schedule.func();
    size_t length = schedule.trace().size();
    std::string name = ToText(step).substr(0, ToText(step).find('('));
    auto results = schedule.Apply(step, &source.rng());
    if (!results.ok()) {
      ++counts.refused[name];
      ASSERT_TRUE(Equal(before, schedule.func())) << ToText(step);
      ASSERT_EQ(schedule.trace().size(), length);
      continue;
    }
    ++counts.legal[name];
  }
  std::string text = ToText(schedule.trace());
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ToText(f) + text);
  zoo::ExpectSame(f, schedule.func(), seed + 1);
  auto parsed = ParseTrace(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().Text();
  ASSERT_TRUE(Equal(*parsed, schedule.trace())) << ToText(*parsed);
  auto replayed = Replay(f, *parsed);
  ASSERT_TRUE(replayed.ok()) << replayed.error().Text();
  ASSERT_EQ(FirstMismatch(replayed->func(), schedule.func()), "");
  ASSERT_EQ(ToText(replayed->trace()), text);
}

TEST(RandomTraces, KeepTheMeaning) {
  const char* seeds = getenv("AUTOTUNE_SCHEDULE_SEEDS");
  uint64_t n = seeds ? strtoull(seeds, nullptr, 10) : 150;
  Counts counts;
  for (uint64_t seed = 0; seed < n; ++seed) {
    Check(testing::MakeRandomProgram(seed), seed, 25, counts);
    if (HasFatalFailure()) return;
    using zoo::ConvShape;
    ConvShape shape{.h = 3 + static_cast<int64_t>(seed % 3), .w = 4, .ic = 1 + static_cast<int64_t>(seed % 2), .oc = 3};
    switch (seed % 10) {
      case 0:
        Check(zoo::ConvBiasRelu(shape, true), seed, 25, counts);
        break;
      case 2:
        Check(zoo::Conv({.h = 6, .w = 5, .ic = 2, .oc = 4, .kernel = 3, .stride = 2, .groups = 2}), seed, 25, counts);
        break;
      case 4:
        Check(zoo::MaxPool({.h = 6, .w = 5, .oc = 3, .kernel = 3, .stride = 2}), seed, 20, counts);
        break;
      case 6:
        Check(zoo::Conv({.h = 5, .w = 5, .ic = 1, .oc = 5, .kernel = 3, .groups = 5}), seed, 20, counts);
        break;
      case 8:
        Check(zoo::Elementwise(7, 9), seed, 20, counts);
        break;
      default:
        break;
    }
    if (HasFatalFailure()) return;
  }
  if (seeds) {
    for (auto& [name, count] : counts.legal)
      printf("%-24s %6d legal %6d refused\n", name.c_str(), count, counts.refused[name]);
  }
  for (const char* name : {"split", "fuse", "reorder", "parallel", "vectorize", "compute_at", "reverse_compute_at",
                           "compute_inline", "cache_read", "cache_write", "transform_layout", "decompose_reduction"}) {
    EXPECT_GT(counts.legal[name], 5) << name;
    EXPECT_GT(counts.refused[name], 0) << name;
  }
}

}  // namespace
}  // namespace autotune
