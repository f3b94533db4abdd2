// Schedules of products whose weights have a scale for each block of terms (tuner/rule/block_streams.cc).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "tuner/defaults.h"
#include "tuner/rule/rule.h"
#include "tuner/stage_shape.h"

namespace autotune {
namespace {

constexpr const char* kZen4 = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=2";

// Returns how many sketches keep the sums of blocks in registers, of how many.
std::pair<int64_t, size_t> Streamed(const PrimFunc& func, const Target& target) {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok());
  const int64_t streamed = std::ranges::count_if(
      *sketches, [](const Sketch& s) { return s.name.find(":block_streams") != std::string::npos; });
  return {streamed, sketches->size()};
}

// One sketch, whose integer sums are dot products if the target has them.
TEST(BlockStreams, TakeIntegers) {
  const Target target = Target::Parse(kZen4).value();
  for (const bool in_halves : {true, false})
    EXPECT_EQ(Streamed(test::BlockProducts(2, 131, 4, 32, in_halves, true), target), std::pair(int64_t{1}, size_t{1}));
  EXPECT_EQ(Streamed(test::BlockProducts(2, 5, 4, 32, true), target).first, 0) << "fewer columns than lanes";
}

TEST(BlockStreams, TakeFloatsOfAnyNumberOfRows) {
  for (const bool in_words : {true, false}) {
    for (const int64_t rows : {1, 5, 30})
      EXPECT_EQ(Streamed(test::FloatBlockProducts(rows, 131, 8, 32, in_words), test::TestTarget()),
                std::pair(int64_t{1}, size_t{1}));
    EXPECT_EQ(Streamed(test::FloatBlockProducts(5, 7, 8, 32, in_words), test::TestTarget()).first, 0)
        << "fewer columns than lanes";
  }
}

// The register tile of the first default schedule.
StageShape DefaultTile(int64_t rows, const std::string& target) {
  TuneTask task;
  task.alternatives = {{"direct", test::FloatBlockProducts(rows, 2048, 16, 128, true)}};
  const TaskSpace space = TaskSpace::Make(task, Target::Parse(target).value()).value();
  const Proposal first = DefaultProposals(space, 1).front();
  return ShapeOf(space.sketches[static_cast<size_t>(first.sketch)].stages.front(), first.decisions);
}

// A conversion of weights serves all rows of a tile. With AVX-512, one vector of columns needs no broadcasts.
TEST(BlockStreams, HaveHighTiles) {
  for (const int64_t rows : {8, 16}) {
    const StageShape tile = DefaultTile(rows, kZen4);
    EXPECT_EQ(tile.rows, 8) << rows;
    EXPECT_EQ(tile.columns, 16) << rows;
  }
  const StageShape low = DefaultTile(4, kZen4);
  EXPECT_EQ(low.rows, 4);
  EXPECT_GT(low.columns, 16) << "four sums would wait for each other";
}

// Several tiles of rows have as few rows as cover the product.
TEST(BlockStreams, PadFewRows) {
  const auto sketches = GenerateSketches(test::FloatBlockProducts(19, 131, 8, 32, true), test::TestTarget());
  ASSERT_TRUE(sketches.ok());
  const Sketch& sketch = sketches->front();
  const std::vector<int64_t>& heights = sketch.knobs[static_cast<size_t>(sketch.stages.front().row_knob)].candidates;
  EXPECT_EQ(heights, std::vector<int64_t>({10, 7, 5, 4, 3, 2, 1}));
}

// A load of words or bytes serves several steps, whose factors need conversions.
TEST(BlockStreams, CountConversions) {
  const auto column = [](const PrimFunc& func, const Target& target) {
    return GenerateSketches(func, target).value().front().stages.front().column;
  };
  const Target zen4 = Target::Parse(kZen4).value();
  const ColumnModel words = column(test::FloatBlockProducts(2, 131, 8, 32, true), zen4);
  EXPECT_EQ(words.bytes, 4);
  EXPECT_EQ(words.held, 8);
  EXPECT_EQ(words.conversions, 3);
  const ColumnModel bytes = column(test::FloatBlockProducts(2, 131, 8, 32, false), zen4);
  EXPECT_EQ(bytes.bytes, 1);
  EXPECT_EQ(bytes.held, 1);
  EXPECT_EQ(bytes.conversions, 1);
  const ColumnModel halves = column(test::BlockProducts(2, 131, 4, 32, true, true), zen4);
  EXPECT_EQ(halves.bytes, 4) << "a group";
  EXPECT_EQ(halves.held, 2);
  EXPECT_EQ(halves.conversions, 2);
  const ColumnModel floats = column(test::Dense(2, 1024, 512), zen4);
  EXPECT_EQ(floats.bytes, 4);
  EXPECT_EQ(floats.held, 1);
  EXPECT_EQ(floats.conversions, 0);
}

}  // namespace
}  // namespace autotune
