#include "topi/pool.h"

#include <gtest/gtest.h>

#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

Array NaivePool(const Array& x, const PoolAttrs& attrs, bool average, const Shape& out) {
  Array y(out);
  ForEach(out, [&](const Shape& i) {
    double best = -INFINITY, sum = 0;
    int64_t count = 0;
    ForEach({attrs.kernel[0], attrs.kernel[1]}, [&](const Shape& k) {
      int64_t h = i[1] * attrs.stride[0] - attrs.pad[0] + k[0] * attrs.dilation[0];
      int64_t w = i[2] * attrs.stride[1] - attrs.pad[1] + k[1] * attrs.dilation[1];
      bool inside = x.Has({i[0], h, w, i[3]});
      bool padded = h < x.shape[1] + attrs.pad[2] && w < x.shape[2] + attrs.pad[3];
      if (inside) {
        best = std::max(best, x.at({i[0], h, w, i[3]}));
        sum += x.at({i[0], h, w, i[3]});
      }
      count += inside || (attrs.count_include_pad && padded);
    });
    y.at(i) = average ? sum / static_cast<double>(count) : best;
  });
  return y;
}

std::string CheckPool(const Shape& in, const PoolAttrs& attrs, bool average, Rng& rng,
                      const PoolAttrs* naive_attrs = nullptr) {
  Tensor x = te::Placeholder("x", in);
  Tensor y = average ? AvgPool("pool", x, attrs) : MaxPool("pool", x, attrs);
  return Mismatch({x}, y,
                  [&](const std::vector<Array>& a) {
                    return NaivePool(a[0], naive_attrs ? *naive_attrs : attrs, average, y.shape());
                  },
                  rng, {.tolerance = average ? 1e-5 : 0});
}

TEST(PoolTest, OutputExtent) {
  EXPECT_EQ(PoolOutput(112, 3, 2, 1, 0, 0, false), 55);
  EXPECT_EQ(PoolOutput(112, 3, 2, 1, 0, 0, true), 56);
  EXPECT_EQ(PoolOutput(3, 2, 2, 1, 1, 1, true), 2);  // a third window would start in the padding behind the data
  EXPECT_EQ(PoolOutput(2, 3, 1, 1, 0, 0, false), 0);
}

TEST(PoolTest, RandomShapes) {
  Rng rng(1);
  for (int i = 0; i < 80; ++i) {
    bool average = i % 2;
    PoolAttrs attrs;
    attrs.ceil_mode = rng.Below(2);
    attrs.count_include_pad = rng.Below(2);
    Shape in = {1 + rng.Below(2), 1 + rng.Below(9), 1 + rng.Below(9), 1 + rng.Below(3)};
    for (int d = 0; d < 2; ++d) {
      attrs.kernel[d] = 1 + rng.Below(3);
      attrs.stride[d] = 1 + rng.Below(3);
      attrs.dilation[d] = 1 + rng.Below(2);
      attrs.pad[d] = rng.Below(attrs.kernel[d]);
      attrs.pad[d + 2] = rng.Below(attrs.kernel[d]);
      int64_t missing = attrs.dilation[d] * (attrs.kernel[d] - 1) + 1 - in[d + 1];
      if (missing > 0) in[d + 1] += missing;
    }
    EXPECT_EQ(CheckPool(in, attrs, average, rng), "") << "case " << i;
  }
}

TEST(PoolTest, AWrongPoolIsNoticed) {
  Rng rng(2);
  PoolAttrs attrs{.kernel = {3, 3}, .pad = {1, 1, 1, 1}}, shifted{.kernel = {3, 3}, .pad = {0, 0, 2, 2}};
  EXPECT_NE(CheckPool({1, 6, 6, 2}, attrs, false, rng, &shifted), "");
  PoolAttrs counting = attrs;
  counting.count_include_pad = true;
  EXPECT_NE(CheckPool({1, 6, 6, 2}, attrs, true, rng, &counting), "");
}

TEST(PoolTest, AWindowOfPaddingAlone) {
  Rng rng(4);
  EXPECT_EQ(CheckPool({1, 2, 2, 1}, {.kernel = {2, 2}, .pad = {2, 0, 2, 0}}, false, rng), "");
  EXPECT_THROW(MaxPool("p", te::Placeholder("x", {1, 2, 2, 1}), {.kernel = {3, 1}}), InternalError);
}

TEST(PoolTest, Global) {
  Rng rng(3);
  for (const Shape& in : {Shape{1, 7, 7, 5}, Shape{2, 1, 3, 1}, Shape{1, 1, 1, 4}}) {
    Tensor x = te::Placeholder("x", in);
    auto naive = [&](bool average, double extra) {
      return [&in, average, extra](const std::vector<Array>& a) {
        Array y({in[0], 1, 1, in[3]});
        ForEach(y.shape, [&](const Shape& i) {
          double sum = 0, best = -INFINITY;
          ForEach({in[1], in[2]}, [&](const Shape& r) {
            sum += a[0].at({i[0], r[0], r[1], i[3]});
            best = std::max(best, a[0].at({i[0], r[0], r[1], i[3]}));
          });
          y.at(i) = (average ? sum / static_cast<double>(in[1] * in[2]) : best) + extra;
        });
        return y;
      };
    };
    EXPECT_EQ(Mismatch({x}, GlobalAvgPool("gap", x), naive(true, 0), rng, {.tolerance = 1e-5}), "");
    EXPECT_NE(Mismatch({x}, GlobalAvgPool("gap", x), naive(true, 1), rng, {.tolerance = 1e-5}), "");
    EXPECT_EQ(Mismatch({x}, GlobalMaxPool("gmp", x), naive(false, 0), rng), "");
    EXPECT_NE(Mismatch({x}, GlobalMaxPool("gmp", x), naive(false, 1), rng), "");
  }
}

}  // namespace
}  // namespace autotune::topi
