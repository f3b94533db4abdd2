#include "topi/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

int64_t Place(double index, int64_t n) {
  const int64_t i = static_cast<int64_t>(index);
  return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n - 1);
}

// Returns the positions of the k best elements of each row. If not `stable`, the last of equal elements comes first.
Naive NaiveTopK(int64_t k, bool largest, bool stable) {
  return [=](const std::vector<Array>& v) {
    const int64_t n = v[0].shape.back();
    Shape shape = v[0].shape;
    shape.back() = k;
    Array out(shape);
    for (int64_t row = 0; row < te::Product(shape) / k; ++row) {
      std::vector<int64_t> order(n);
      std::iota(order.begin(), order.end(), 0);
      if (!stable) std::reverse(order.begin(), order.end());
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        const double a = v[0].data[row * n + i], b = v[0].data[row * n + j];
        return largest ? a > b : a < b;
      });
      for (int64_t i = 0; i < k; ++i) out.data[row * k + i] = static_cast<double>(order[i]);
    }
    return out;
  };
}

TEST(TopKTest, EveryKAndEqualElements) {
  Rng rng(1);
  for (int64_t n : {1, 2, 3, 8, 13}) {
    for (int64_t k = 1; k <= n; ++k) {
      for (bool largest : {false, true}) {
        Tensor x = te::Placeholder("x", {2, 3, n});
        EXPECT_EQ(Mismatch({x}, TopK("t", x, k, largest), NaiveTopK(k, largest, true), rng), "") << n << " " << k;
      }
    }
  }
  Tensor x = te::Placeholder("x", {4, 13});  // some elements of a row are equal, since there are nine values
  EXPECT_NE(Mismatch({x}, TopK("t", x, 13, true), NaiveTopK(13, true, false), rng), "");
  EXPECT_NE(Mismatch({x}, TopK("t", x, 5, true), NaiveTopK(5, false, true), rng), "");
  EXPECT_THROW(TopK("t", x, 14, true), InternalError);
  EXPECT_THROW(TopK("t", x, 0, true), InternalError);
}

TEST(TopKTest, OneRowAndIntegers) {
  Rng rng(2);
  Tensor row = te::Placeholder("x", {29}, DType::Int(16));
  EXPECT_EQ(Mismatch({row}, TopK("t", row, 7, false), NaiveTopK(7, false, true), rng), "");
}

TEST(ScatterTest, UpdatesComeOneAfterTheOther) {
  Rng rng(3);
  Tensor x = te::Placeholder("x", {3, 5}), updates = te::Placeholder("u", {7, 4});
  Tensor places = te::Placeholder("i", {7, 4}, DType::Int(64)), rows = te::Placeholder("r", {7, 1}, DType::Int(32));
  auto naive = [](std::function<double(double, double)> combine, bool backwards) {
    return [=](const std::vector<Array>& v) {
      Array out = v[0];
      ForEach(v[1].shape, [&](const Shape& o) {
        const int64_t u = backwards ? v[1].shape[0] - 1 - o[0] : o[0];
        double& old = out.at({Place(v[2].at({u, std::min(o[1], v[2].shape[1] - 1)}), 3), o[1]});
        old = combine(old, v[1].at({u, o[1]}));
      });
      return out;
    };
  };
  auto last = [](double, double now) { return now; };
  auto sum = [](double old, double now) { return old + now; };
  auto most = [](double old, double now) { return std::max(old, now); };
  for (const Tensor& i : {places, rows}) {
    EXPECT_EQ(Mismatch({x, updates, i}, Scatter("s", x, updates, i, 0, {}), naive(last, false), rng), "");
    EXPECT_NE(Mismatch({x, updates, i}, Scatter("s", x, updates, i, 0, {}), naive(last, true), rng), "");
    EXPECT_EQ(Mismatch({x, updates, i}, Scatter("s", x, updates, i, 0, te::Combiner::kSum), naive(sum, true), rng), "");
    EXPECT_EQ(Mismatch({x, updates, i}, Scatter("s", x, updates, i, 0, te::Combiner::kMax), naive(most, true), rng),
              "");
    EXPECT_NE(Mismatch({x, updates, i}, Scatter("s", x, updates, i, 0, te::Combiner::kMax), naive(sum, true), rng), "");
  }
  EXPECT_THROW(Scatter("s", x, te::Placeholder("u", {7, 6}), te::Placeholder("i", {7, 6}, DType::Int(64)), 0, {}),
               InternalError);
}

TEST(GatherSumTest, RowsOutsideAreTheNearest) {
  Rng rng(4);
  for (int64_t channels : {1, 3}) {
    Tensor x = te::Placeholder("x", {2, 3, channels}), w = te::Placeholder("w", {2, 5, 4});
    Tensor i = te::Placeholder("i", {2, 5, 4}, DType::Int(32));
    auto naive = [&](int64_t taps) {
      return [=](const std::vector<Array>& v) {
        Array out({2, 5, channels});
        ForEach(out.shape, [&](const Shape& o) {
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t row = std::clamp<int64_t>(static_cast<int64_t>(v[2].at({o[0], o[1], t})), 0, 2);
            out.at(o) += v[1].at({o[0], o[1], t}) * v[0].at({o[0], row, o[2]});
          }
        });
        return out;
      };
    };
    EXPECT_EQ(Mismatch({x, w, i}, GatherSum("g", x, w, i), naive(4), rng), "");
    EXPECT_NE(Mismatch({x, w, i}, GatherSum("g", x, w, i), naive(3), rng), "");
  }
}

TEST(DeterminantTest, PivotsAndSingularMatrices) {
  Rng rng(5);
  auto naive = [](double sign) {
    return [=](const std::vector<Array>& v) {
      Array out({6});
      for (int64_t b = 0; b < 6; ++b) {
        const double* m = &v[0].data[b * 9];
        out.data[b] = sign * (m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
                              m[2] * (m[3] * m[7] - m[4] * m[6]));
      }
      return out;
    };
  };
  Tensor x = te::Placeholder("x", {6, 3, 3});
  for (int low : {-4, -1, 0}) {  // for -1 and 0, many matrices are singular and many pivots are 0
    const CheckOptions options{.tolerance = 1e-4, .low = low, .high = low == -4 ? 4 : 1};
    EXPECT_EQ(Mismatch({x}, Determinant("d", x), naive(1), rng, options), "");
  }
  EXPECT_NE(Mismatch({x}, Determinant("d", x), naive(-1), rng, {.tolerance = 1e-4}), "");
  EXPECT_THROW(Determinant("d", te::Placeholder("x", {3, 4})), InternalError);
}

}  // namespace
}  // namespace autotune::topi
