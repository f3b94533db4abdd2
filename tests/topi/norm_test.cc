#include "topi/norm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

void CheckSoftmax(const Shape& shape, const std::vector<int>& axes, Rng& rng) {
  Tensor x = te::Placeholder("x", shape);
  auto naive = [&](double extra) {
    return [&, extra](const std::vector<Array>& v) {
      Array y(shape);
      auto key = [&](Shape i) {
        for (int d : axes) i[d] = 0;
        return i;
      };
      Array sum(shape);
      ForEach(shape, [&](const Shape& i) { sum.at(key(i)) += std::exp(v[0].at(i)); });
      ForEach(shape, [&](const Shape& i) { y.at(i) = std::exp(v[0].at(i)) / sum.at(key(i)) + extra; });
      return y;
    };
  };
  Tensor y = Softmax("softmax", x, axes);
  EXPECT_EQ(Mismatch({x}, y, naive(0), rng, {.tolerance = 1e-5}), "");
  EXPECT_NE(Mismatch({x}, y, naive(1e-3), rng, {.tolerance = 1e-5}), "");
}

TEST(SoftmaxTest, AnyAxes) {
  Rng rng(1);
  const std::pair<Shape, std::vector<int>> cases[] = {{{2, 7}, {1}},
                                                      {{2, 7}, {0}},
                                                      {{1, 1}, {1}},
                                                      {{2, 3, 2, 5}, {1}},
                                                      {{2, 3, 4}, {1, 2}},
                                                      {{3, 2, 21, 2}, {2}},
                                                      {{5}, {0}},
                                                      {{2, 9, 7}, {1}},
                                                      {{2, 6, 18}, {1}},
                                                      {{2, 3, 4, 5}, {0, 2}},
                                                      {{3, 6, 2, 4, 3}, {1, 2}}};
  for (const auto& [shape, axes] : cases) CheckSoftmax(shape, axes, rng);
}

TEST(SoftmaxTest, RandomShapes) {
  Rng rng(5);
  for (int i = 0; i < 60; ++i) {
    const ShapeAndAxes drawn = RandomShapeAndAxes(rng, 3000);
    CheckSoftmax(drawn.shape, drawn.axes, rng);
    if (HasFailure()) FAIL() << i;
  }
}

TEST(LrnTest, WindowsOverChannels) {
  Rng rng(2);
  for (const LrnAttrs& attrs : {LrnAttrs{.size = 5, .alpha = 0.5}, LrnAttrs{.size = 4, .alpha = 0.5, .bias = 2},
                                LrnAttrs{.size = 3, .alpha = 1, .beta = 0.5}, LrnAttrs{.size = 1, .alpha = 1}}) {
    for (const Shape& shape : {Shape{1, 2, 3, 7}, Shape{2, 1, 1, 2}}) {
      Tensor x = te::Placeholder("x", shape);
      auto naive = [&](int64_t shift) {
        return [&, shift](const std::vector<Array>& v) {
          Array y(shape);
          ForEach(shape, [&](const Shape& i) {
            double sum = 0;
            int64_t begin = i[3] - (attrs.size - 1) / 2 + shift;
            for (int64_t c = begin; c < begin + attrs.size; ++c) {
              Shape at = {i[0], i[1], i[2], c};
              if (v[0].Has(at)) sum += v[0].at(at) * v[0].at(at);
            }
            y.at(i) =
                v[0].at(i) / std::pow(attrs.bias + attrs.alpha / static_cast<double>(attrs.size) * sum, attrs.beta);
          });
          return y;
        };
      };
      Tensor y = Lrn("lrn", x, attrs);
      EXPECT_EQ(Mismatch({x}, y, naive(0), rng, {.tolerance = 1e-4}), "");
      // With more than two channels, a shifted window gives another result.
      if (shape[3] > 2) {
        EXPECT_NE(Mismatch({x}, y, naive(1), rng, {.tolerance = 1e-4, .low = 1}), "");
      }
    }
  }
}

}  // namespace
}  // namespace autotune::topi
