// Element-wise chains whose links read the one before several times. Each inlined link doubles its reader.
#include <gtest/gtest.h>

#include <string>

#include "ir/visit.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/elementwise.h"

namespace autotune {
namespace {

using namespace test;

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

Size SizeOfFirstSketch(int links, const Target& target) {
  const PrimFunc squares = Squares(links);
  const auto sketches = GenerateSketches(squares, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
  const Sketch& sketch = sketches->front();
  Rng rng(5);
  const Schedule schedule = Replay(squares, Decide(sketch, DrawDecisions(sketch, rng))).value();
  Size size;
  const auto count = [&](const Stmt& s) {
    size.blocks += s.As<Block>() != nullptr;
    return true;
  };
  Walk(schedule.func().body, count, [&](const Expr&) { return ++size.nodes > 0; });
  return size;
}

const Target kGpu = Target::Parse("opencl -mtriple=x86_64-linux-gnu -max-threads=1024 -shared=48K").value();

TEST(Inline, KeepsLinksOfLongChains) {
  CheckSpace(Squares(24), 4);
  for (const Target& target : {TestTarget(), kGpu}) {
    const Size size = SizeOfFirstSketch(24, target);
    EXPECT_GT(size.blocks, 1);
    EXPECT_LT(size.nodes, 20'000);
  }
}

TEST(Inline, LeavesOneBlockOfShortChains) {
  CheckSpace(Squares(5), 4);
  for (const Target& target : {TestTarget(), kGpu}) EXPECT_EQ(SizeOfFirstSketch(5, target).blocks, 1);
}

}  // namespace
}  // namespace autotune
