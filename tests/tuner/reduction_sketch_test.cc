// Sketches of reductions over any axes, of softmax, and of products of few rows or one column.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "te/create_prim_func.h"
#include "tests/tuner/programs.h"
#include "tests/tuner/sketch_space.h"
#include "topi/reduce.h"
#include "topi/transform.h"
#include "tuner/defaults.h"
#include "tuner/rule/rule.h"
#include "tuner/search.h"

namespace autotune {
namespace {

using test::CheckSpace;
using test::Dense;
using test::TestTarget;

// The cases have reduced axes in all positions, with and without tails, with and without enough rows for all cores.
TEST(ReductionSketch, ReductionsOverAnyAxesComputeTheSame) {
  const std::pair<te::Shape, std::vector<int>> cases[] = {
      {{9, 7, 500}, {0, 1, 2}}, {{31, 37, 41}, {0, 1, 2}}, {{9, 20, 130}, {0, 2}},
      {{2, 3, 9000}, {0, 2}},   {{12, 5, 43, 11}, {1, 3}}, {{1, 5, 43, 11}, {1, 3}},
      {{3000, 7}, {0}},         {{20, 30, 6}, {1}},        {{3, 5, 3, 7}, {0, 2, 3}},
      {{40000}, {0}},           {{64, 40, 3, 5}, {1}},     {{9, 2, 9, 2, 3}, {0, 2, 4}}};
  for (const auto& [shape, axes] : cases) {
    CheckSpace(test::ColumnSums(shape, axes), 1);
    CheckSpace(test::SumOfSquares(shape, axes), 1);
    if (::testing::Test::HasFailure()) FAIL() << ToText(test::ColumnSums(shape, axes));
  }
}

TEST(ReductionSketch, RandomReductionsComputeTheSame) {
  Rng rng(13);
  for (int i = 0; i < 60; ++i) {
    te::Shape shape;
    std::vector<int> axes;
    do {
      shape.clear();
      for (int64_t rank = 1 + rng.Below(5); rank > 0; --rank)
        shape.push_back(1 + rng.Below(rng.Below(3) == 0 ? 400 : 20));
    } while (te::Product(shape) > 30000);
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      if (rng.Below(2) == 0) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(static_cast<int>(shape.size()) - 1);
    CheckSpace(test::SumOfSquares(shape, axes), 1);
    if (::testing::Test::HasFailure()) FAIL() << ToText(test::SumOfSquares(shape, axes));
  }
}

TEST(ReductionSketch, SoftmaxOverAnyAxisIsOnePass) {
  auto name_of = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    return sketches.ok() && sketches->size() == 1 ? (*sketches)[0].name : std::string();
  };
  EXPECT_EQ(name_of(test::Softmax({30, 13, 21, 2}, 2)), "rows");
  EXPECT_EQ(name_of(test::Softmax({40, 6, 18}, 1)), "rows");
  EXPECT_EQ(name_of(test::Softmax({40, 32, 32}, 1)), "rows");
  EXPECT_NE(name_of(test::Softmax({300, 400}, 0)), "rows");  // no outer axis to divide among the cores
}

// The loops over rows are fused into one parallel loop. A task begins where an iteration of an outer loop begins, so
// the tasks are known to be independent.
TEST(ReductionSketch, RowsOfSeveralLoopsAreOneParallelLoop) {
  for (const te::Shape& shape : {te::Shape{8, 44, 39, 122}, {64, 16, 49, 49}, {8, 44, 8, 128}}) {
    auto sketches = GenerateSketches(test::Softmax(shape), test::TestTarget());
    ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
    for (const Sketch& sketch : *sketches) {
      const std::string trace = ToText(sketch.trace);
      EXPECT_NE(trace.find("fuse([softmax_n, softmax_h, softmax_w])"), std::string::npos) << trace;
      EXPECT_NE(trace.find("parallel("), std::string::npos) << trace;
    }
  }
}

// If there are few rows, each core sums a part of each row. Rows are not divided if there are enough for all cores, or
// if there are several passes over them.
TEST(ReductionSketch, SumsOfFewRowsAreCut) {
  auto is_cut = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    return sketches.ok() && !sketches->empty() && (*sketches)[0].name.find(":parts") != std::string::npos;
  };
  EXPECT_TRUE(is_cut(test::ColumnSums({300, 400}, {0, 1})));
  EXPECT_TRUE(is_cut(test::SumOfSquares({300, 400}, {0, 1})));
  EXPECT_TRUE(is_cut(test::ColumnSums({2, 300, 400}, {1, 2})));
  EXPECT_TRUE(is_cut(test::ColumnSums({50000, 3}, {0})));
  EXPECT_FALSE(is_cut(test::ColumnSums({64, 300, 40}, {1, 2})));
  EXPECT_FALSE(is_cut(test::ColumnSums({40, 50}, {0, 1})));  // too short to divide
  EXPECT_FALSE(is_cut(test::Softmax({2, 60000})));
}

// The largest and the least element of a tensor.
TEST(ReductionSketch, EachOfTwoSumsIsCut) {
  const te::Tensor x = te::Placeholder("x", {60000});
  const te::Tensor largest = topi::ReduceAxes("largest", x, {0}, te::Combiner::kMax),
                   least = topi::ReduceAxes("least", x, {0}, te::Combiner::kMin),
                   both = topi::Concat("both", {largest, least}, 0);
  const PrimFunc func = te::CreatePrimFunc("extrema", {{x, ParamRole::kInput}, {both, ParamRole::kOutput}});
  const auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  EXPECT_NE((*sketches)[0].name.find("largest_lanes:parts"), std::string::npos) << (*sketches)[0].name;
  EXPECT_NE((*sketches)[0].name.find("least_lanes:parts"), std::string::npos) << (*sketches)[0].name;
  CheckSpace(func, 1);
}

// A block that no rule places keeps its loops. The program runs, and the sketch names the block.
TEST(ReductionSketch, BlocksThatNoRulePlacesKeepTheirLoops) {
  const PrimFunc func = test::RowSums(6, 40);
  Schedule cut(func);
  for (const BlockView& block : ViewBlocks(func)) {  // the zeros that a sum begins with share its loops
    if (block.reduction) ASSERT_TRUE(cut.Apply(DecomposeReduction{block.name, block.reduce.front().var}).ok());
  }
  auto sketches = GenerateSketches(cut.func(), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  ASSERT_FALSE(sketches->empty());
  Rng rng(1);
  for (const Sketch& sketch : *sketches) {
    EXPECT_NE(sketch.name.find("no rule places"), std::string::npos) << sketch.name;
    Schedule schedule = Replay(cut.func(), Decide(sketch, DrawDecisions(sketch, rng))).value();
    EXPECT_EQ(test::RunInterpreted(schedule.func()), test::RunInterpreted(func)) << ToText(schedule.func());
  }
  Target scalar = Target::Parse("llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64 -num-cores=2").value();
  for (const Target& target : {TestTarget(), scalar})
    for (const Sketch& sketch : GenerateSketches(func, target).value())
      EXPECT_EQ(sketch.name.find("no rule places"), std::string::npos) << sketch.name;
}

// The first sketch accumulates the parts in registers, and is tried first. The second sketch accumulates them in
// memory, since a masked tail of lanes may need too many registers.
TEST(ReductionSketch, CutSumsAreInRegistersOrInMemory) {
  const PrimFunc func = test::ColumnSums({21170, 5}, {0});
  auto sketches = GenerateSketches(func, TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  ASSERT_EQ(sketches->size(), 2u);
  auto in_registers = [](const Sketch& sketch) {
    return ToText(sketch.trace).find("_rf_local, register)") != std::string::npos;
  };
  EXPECT_TRUE(in_registers((*sketches)[0])) << ToText((*sketches)[0].trace);
  EXPECT_FALSE(in_registers((*sketches)[1])) << ToText((*sketches)[1].trace);
  const TuneTask task = test::MakeTask("column sums", func);
  const std::vector<Proposal> proposals = DefaultProposals(TaskSpace::Make(task, TestTarget()).value(), 2);
  ASSERT_EQ(proposals.size(), 2u);
  EXPECT_EQ(proposals[0].sketch, 0);
}

// The run-time matrix of a product of at most eight rows is read once, in order. With more rows, the product is tiled.
TEST(ReductionSketch, ProductsOfFewRowsReadTheMatrixInOrder) {
  auto name_of = [](const PrimFunc& func) {
    auto sketches = GenerateSketches(func, TestTarget());
    return sketches.ok() && !sketches->empty() ? (*sketches)[0].name : std::string();
  };
  EXPECT_EQ(name_of(test::Products(5, 1, 400, 76)), "products:columns");
  EXPECT_EQ(name_of(test::Products(5, 8, 401, 76)), "products:columns");
  EXPECT_EQ(name_of(test::Product(1, 15, 2000)).find("dense_rf:columns"), 0);
  EXPECT_EQ(name_of(test::Products(5, 9, 400, 76)).find(":columns"), std::string::npos);
  EXPECT_EQ(name_of(Dense(1, 400, 76)).find(":columns"), std::string::npos);  // constants are packed in advance
  for (int64_t m : {1, 3, 8}) {
    CheckSpace(test::Products(3, m, 401, 47), 1);  // eight steps of the sum at a time, and a peeled rest of seven
    CheckSpace(test::Products(3, m, 400, 130), 1);
    CheckSpace(test::Product(m, 130, 150), 1);
    CheckSpace(test::Product(m, 7, 3000), 1);
  }
}

// Products of one column have lanes along the sum.
TEST(ReductionSketch, ProductsOfOneColumnComputeTheSame) {
  for (auto [m, k] : {std::pair<int64_t, int64_t>{40, 96}, {3, 77}, {1, 20000}, {300, 17}}) {
    CheckSpace(test::Product(m, 1, k), 1);
    CheckSpace(Dense(m, 1, k), 1);
    CheckSpace(test::Products(2, m, 1, k), 1);
  }
}

// If each row has several results, the lanes are divided into pieces, with one lane for each result. A piece of 3 lanes
// may begin in one vector and end in the next, which register buffers do not support.
TEST(ReductionSketch, LanesAreRegistersWherePiecesDivideVectors) {
  auto in_registers = [](int64_t results) {
    auto sketches = GenerateSketches(test::ColumnSums({40, 12, 13, results}, {1, 2}), TestTarget());
    EXPECT_TRUE(sketches.ok()) << sketches.error().Text();
    EXPECT_EQ(sketches->size(), 1U);
    EXPECT_EQ(sketches->front().name, "rows");
    return ToText(sketches->front().trace).find("set_scope(sum_lanes_out, register)") != std::string::npos;
  };
  for (int64_t results : {2, 4, 8}) EXPECT_TRUE(in_registers(results)) << results;
  for (int64_t results : {3, 5, 7}) EXPECT_FALSE(in_registers(results)) << results;
}

// The sums of the outer axis are read with a stride of 11 elements, which register buffers do not support.
TEST(ReductionSketch, SumsThatAreReadWithAStrideAreInMemory) {
  auto sketches = GenerateSketches(test::ColumnSums({66, 4, 20, 8, 11}, {2, 4}), TestTarget());
  ASSERT_TRUE(sketches.ok()) << sketches.error().Text();
  ASSERT_EQ(sketches->size(), 1U);
  EXPECT_EQ(sketches->front().name, "rows");
  EXPECT_EQ(ToText(sketches->front().trace).find("register"), std::string::npos) << ToText(sketches->front().trace);
}

}  // namespace
}  // namespace autotune
