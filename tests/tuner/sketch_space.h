// For tests: interprets the schedules of a program's sketches.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/interp.h"
#include "ir/text.h"
#include "schedule/replay.h"
#include "tests/tuner/programs.h"
#include "tuner/rule/rule.h"

namespace autotune::test {

// Interprets the program on small integers, on which sums are exact in any order, or on all values of bytes, and
// returns its last parameter. Sets `error` only if the program fails.
inline std::vector<double> RunInterpreted(const PrimFunc& func, std::string& error) {
  Rng rng(7);
  std::vector<InterpArray> args;
  for (const Param& param : func.params) {
    InterpArray array{param.buffer->dtype, ConstShape(param.buffer), {}};
    int64_t count = 1;
    for (int64_t extent : array.shape) count *= extent;
    const bool is_byte = array.dtype.IsInt() && !array.dtype.IsIndex() && array.dtype.bits == 8;
    const int64_t range = is_byte ? 256 : 7, low = !is_byte ? -3 : array.dtype.IsSigned() ? -128 : 0;
    for (int64_t i = 0; i < count; ++i)
      array.data.push_back(
          param.role == ParamRole::kOutput ? 0 : static_cast<double>(static_cast<int64_t>(rng.Below(range)) + low));
    args.push_back(std::move(array));
  }
  Status status = Interpret(func, args, {.order_seed = 3});
  if (!status.ok()) error = status.error().Text();
  return args.back().data;
}
inline std::vector<double> RunInterpreted(const PrimFunc& func) {
  std::string error;
  std::vector<double> result = RunInterpreted(func, error);
  EXPECT_EQ(error, "") << ToText(func);
  return result;
}

inline void CheckSpace(const PrimFunc& func, int draws, int min_sketches = 1, const Target& target = TestTarget()) {
  std::vector<double> expected = RunInterpreted(func);
  auto sketches = GenerateSketches(func, target);
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text() << "\n" << ToText(func);
  EXPECT_GE(static_cast<int>(sketches->size()), min_sketches);
  Rng rng(11);
  for (const Sketch& sketch : *sketches) {
    EXPECT_EQ(sketch.name.find("no rule places"), std::string::npos) << sketch.name;
    int legal = 0;
    for (int i = 0; i < draws; ++i) {
      Trace trace = Decide(sketch, DrawDecisions(sketch, rng));
      Result<Schedule> schedule = Replay(func, trace);
      if (!schedule.ok()) continue;
      ++legal;
      EXPECT_EQ(RunInterpreted(schedule->func()), expected) << ToText(trace) << ToText(schedule->func());
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(legal, draws / 3) << ToText(sketch.trace);
  }
}

}  // namespace autotune::test
