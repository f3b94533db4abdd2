// Element-wise chains whose links read the one before several times. Each inlined link doubles its reader.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "ir/visit.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"
#include "topi/transform.h"

namespace autotune {
namespace {

using namespace test;

// A chain in which each link multiplies the two before.
PrimFunc Pairs(int links) {
  const te::Tensor x = te::Placeholder("x", {40});
  te::Tensor before = x, y = x;
  for (int i = 0; i < links; ++i) before = std::exchange(y, topi::Mul("product" + std::to_string(i), y, before));
  return te::CreatePrimFunc("pairs", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

// x to the power of two to the power of `links`.
PrimFunc Squares(int links) {
  const te::Tensor x = te::Placeholder("x", {40});
  te::Tensor y = x;
  for (int i = 0; i < links; ++i) y = topi::Mul("square" + std::to_string(i), y, y);
  return te::CreatePrimFunc("squares", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

struct Size {
  int64_t blocks = 0, nodes = 0;
};

Size SizeOfFirstSketch(const PrimFunc& func, const Target& target) {
  const auto sketches = GenerateSketches(func, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = sketches->front();
  Rng rng(5);
  const Schedule schedule = Replay(func, Decide(sketch, DrawDecisions(sketch, rng))).value();
  Size size;
  const auto count = [&](const Stmt& s) {
    size.blocks += s.As<Block>() != nullptr;
    return true;
  };
  Walk(schedule.func().body, count, [&](const Expr&) { return ++size.nodes > 0; });
  return size;
}

te::Tensor Quotient(const te::Tensor& x) {
  return topi::Map("quotient", {x}, [](const std::vector<Expr>& e) { return FloatConst(6, e[0].dtype()) / e[0]; });
}

// 6 / x, padded before and behind each row of 12 elements.
PrimFunc PaddedQuotient(int64_t before, int64_t after) {
  const te::Tensor x = te::Placeholder("x", {7, 12});
  const te::Tensor y = topi::Pad("y", Quotient(x), {0, before}, {0, after}, 1);
  return te::CreatePrimFunc("padded", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
}

const Target kGpu = Target::Parse("opencl -mtriple=x86_64-linux-gnu -max-threads=1024 -shared=48K").value();

TEST(Inline, KeepsLinksOfLongChains) {
  for (const PrimFunc& chain : {Squares(24), Pairs(30)}) {
    CheckSpace(chain, 4);
    for (const Target& target : {TestTarget(), kGpu}) {
      const Size size = SizeOfFirstSketch(chain, target);
      EXPECT_GT(size.blocks, 1);
      EXPECT_LT(size.nodes, 20'000);
    }
  }
}

TEST(Inline, LeavesOneBlockOfShortChains) {
  CheckSpace(Squares(5), 4);
  for (const Target& target : {TestTarget(), kGpu}) EXPECT_EQ(SizeOfFirstSketch(Squares(5), target).blocks, 1);
}

// Padding has more elements than what it pads, but needs each of these once.
TEST(Inline, InlinesCostlyFunctionsIntoPadding) {
  CheckSpace(PaddedQuotient(0, 4), 4);
  EXPECT_EQ(SizeOfFirstSketch(PaddedQuotient(0, 4), TestTarget()).blocks, 1);
}

TEST(Inline, LeavesCostlyFunctionsBeforeWhatRepeatsThem) {
  const te::Tensor x = te::Placeholder("x", {7, 1});
  const te::Tensor y = topi::BroadcastTo("y", Quotient(x), {7, 12});
  const PrimFunc repeated = te::CreatePrimFunc("rows", {{x, ParamRole::kInput}, {y, ParamRole::kOutput}});
  CheckSpace(repeated, 4);
  EXPECT_EQ(SizeOfFirstSketch(repeated, TestTarget()).blocks, 2);
}

}  // namespace
}  // namespace autotune
