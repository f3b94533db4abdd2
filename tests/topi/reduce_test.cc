#include "topi/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

double Combine(te::Combiner combiner, double a, double b) {
  switch (combiner) {
    case te::Combiner::kSum:
      return a + b;
    case te::Combiner::kProd:
      return a * b;
    case te::Combiner::kMax:
      return std::max(a, b);
    case te::Combiner::kMin:
      return std::min(a, b);
  }
  return 0;
}

// Checks a reduction against naive loops, and that wrong naive loops differ.
void CheckReduction(const Shape& shape, const std::vector<int>& axes, te::Combiner combiner, double start, Rng& rng) {
  auto naive = [&](double extra) {
    return [&, extra](const std::vector<Array>& v) {
      Shape out = shape;
      for (int d : axes) out[d] = 1;
      Array y(out);
      std::fill(y.data.begin(), y.data.end(), start);
      ForEach(shape, [&](const Shape& i) {
        Shape key = i;
        for (int d : axes) key[d] = 0;
        y.at(key) = Combine(combiner, y.at(key), v[0].at(i));
      });
      y.data.back() += extra;
      return y;
    };
  };
  Tensor x = te::Placeholder("x", shape);
  Tensor y = ReduceAxes("r", x, axes, combiner);
  EXPECT_EQ(Mismatch({x}, y, naive(0), rng), "") << te::Product(shape);
  EXPECT_NE(Mismatch({x}, y, naive(1), rng), "");
}

TEST(ReduceTest, AnyAxes) {
  Rng rng(1);
  const double infinity = std::numeric_limits<double>::infinity();
  const std::pair<te::Combiner, double> combiners[] = {
      {te::Combiner::kSum, 0}, {te::Combiner::kMax, -infinity}, {te::Combiner::kMin, infinity}};
  // Short and long rows, with and without a tail, of one and of several dimensions; rows that are far apart; few
  // results side by side.
  const std::pair<Shape, std::vector<int>> cases[] = {{{2, 3, 4}, {0}},
                                                      {{2, 3, 4}, {0, 2}},
                                                      {{2, 5}, {1}},
                                                      {{3, 32}, {1}},
                                                      {{2, 96}, {1}},
                                                      {{2, 40}, {1}},
                                                      {{2, 77}, {1}},
                                                      {{2, 3, 16}, {2}},
                                                      {{2, 5, 7}, {1, 2}},
                                                      {{4, 16}, {0, 1}},
                                                      {{1, 17}, {1}},
                                                      {{6, 3, 20}, {0, 2}},
                                                      {{3, 4, 2100}, {0, 2}},
                                                      {{2, 6, 5, 11}, {1, 3}},
                                                      {{50, 3}, {0}},
                                                      {{2, 40, 5}, {1}},
                                                      {{3, 2, 31, 2, 2}, {0, 2}},
                                                      {{9, 2, 9, 2, 3}, {0, 2, 4}}};
  for (const auto& [combiner, start] : combiners) {
    for (const auto& [shape, axes] : cases) CheckReduction(shape, axes, combiner, start, rng);
  }
  EXPECT_THROW(ReduceAxes("r", te::Placeholder("x", {2, 3}), {1, 1}, te::Combiner::kSum), InternalError);
}

TEST(ReduceTest, RandomShapes) {
  Rng rng(7);
  for (int i = 0; i < 150; ++i) {
    const ShapeAndAxes drawn = RandomShapeAndAxes(rng, 6000);
    CheckReduction(drawn.shape, drawn.axes, te::Combiner::kSum, 0, rng);
    if (HasFailure()) FAIL() << i;
  }
}

// Checks the extent of the last axis of a reduction's first stage, along which the stage is vectorized. Except for
// short rows, this axis runs over adjacent elements.
TEST(ReduceTest, LanesAreSideBySide) {
  auto last_axis = [](const Shape& shape, const std::vector<int>& axes) {
    Tensor y = ReduceAxes("r", te::Placeholder("x", shape), axes, te::Combiner::kSum);
    while (!y->inputs.empty() && !y->inputs[0]->parts.empty()) y = y->inputs[0];
    return y->axes.empty() ? int64_t{1} : y->axes.back().extent;
  };
  EXPECT_EQ(last_axis({64, 96}, {1}), 48);                  // lanes along the row
  EXPECT_EQ(last_axis({28, 229, 244}, {0, 2}), 229 * 244);  // rows far apart: lanes over the leading axes first
  EXPECT_EQ(last_axis({3, 229, 244}, {0, 2}), 32);          // few such rows
  EXPECT_EQ(last_axis({10, 17, 86, 11}, {1, 3}), 86 * 11);  // short rows
  EXPECT_EQ(last_axis({170, 83, 3}, {0, 1}), 48);           // 3 results side by side
  EXPECT_EQ(last_axis({64, 5}, {1}), 64);                   // too short for lanes
}

TEST(ArgReduceTest, FirstAndLastOfEqualOnes) {
  Rng rng(2);
  for (const auto& [shape, axis] : {std::pair<Shape, int>{{3, 20}, 1}, {{4, 3}, 0}, {{2, 6, 2}, 1}}) {
    for (bool largest : {false, true}) {
      for (bool last : {false, true}) {
        Tensor x = te::Placeholder("x", shape);
        auto naive = [&, shape = shape, axis = axis](bool take_last) {
          return [&, shape, axis, take_last](const std::vector<Array>& v) {
            Shape out = shape;
            out[axis] = 1;
            Array y(out);
            ForEach(out, [&](const Shape& o) {
              Shape i = o, best = o;
              for (int64_t k = 1; k < shape[axis]; ++k) {
                i[axis] = k;
                double now = v[0].at(i), before = v[0].at(best);
                bool better = largest ? now > before : now < before;
                if (better || (take_last && now == before)) best = i;
              }
              y.at(o) = static_cast<double>(best[axis]);
            });
            return y;
          };
        };
        Tensor y = ArgReduce("a", x, axis, largest, last);
        EXPECT_EQ(Mismatch({x}, y, naive(last), rng, {.low = -1, .high = 1}), "");
        if (shape[axis] > 10) {
          EXPECT_NE(Mismatch({x}, y, naive(!last), rng, {.low = -1, .high = 1}), "");
        }
      }
    }
  }
}

}  // namespace
}  // namespace autotune::topi
