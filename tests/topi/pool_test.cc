#include "topi/pool.h"

#include <gtest/gtest.h>

#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

enum class What { kMax, kAverage, kPlace };

Array NaivePool(const Array& x, const PoolAttrs& attrs, What what, const Shape& out) {
  const size_t dims = attrs.kernel.size();
  Array y(out);
  ForEach(out, [&](const Shape& i) {
    double best = -INFINITY, sum = 0;
    int64_t count = 0, best_at = te::Product({x.shape.begin() + 1, x.shape.end() - 1}) - 1;
    ForEach(attrs.kernel, [&](const Shape& k) {
      Shape at = i;
      bool padded = true;
      int64_t place = 0;
      for (size_t d = 0; d < dims; ++d) {
        at[d + 1] = i[d + 1] * attrs.stride[d] - attrs.pad[d] + k[d] * attrs.dilation[d];
        padded = padded && at[d + 1] < x.shape[d + 1] + attrs.pad[d + dims];
        place = place * x.shape[d + 1] + at[d + 1];
      }
      bool inside = x.Has(at);
      if (inside) {
        if (x.at(at) > best) best_at = place;
        best = std::max(best, x.at(at));
        sum += x.at(at);
      }
      count += inside || (attrs.count_include_pad && padded);
    });
    y.at(i) = what == What::kAverage ? sum / static_cast<double>(count)
              : what == What::kMax   ? best
                                     : static_cast<double>(best_at);
  });
  return y;
}

std::string CheckPool(const Shape& in, const PoolAttrs& attrs, What what, Rng& rng,
                      const PoolAttrs* naive_attrs = nullptr) {
  Tensor x = te::Placeholder("x", in);
  Tensor y = what == What::kAverage ? AvgPool("pool", x, attrs)
             : what == What::kMax   ? MaxPool("pool", x, attrs)
                                    : ArgMaxPool("pool", x, attrs);
  return Mismatch(
      {x}, y,
      [&](const std::vector<Array>& a) { return NaivePool(a[0], naive_attrs ? *naive_attrs : attrs, what, y.shape()); },
      rng, {.tolerance = what == What::kAverage ? 1e-5 : 0});
}

TEST(PoolTest, OutputExtent) {
  EXPECT_EQ(PoolOutput(112, 3, 2, 1, 0, 0, false), 55);
  EXPECT_EQ(PoolOutput(112, 3, 2, 1, 0, 0, true), 56);
  EXPECT_EQ(PoolOutput(3, 2, 2, 1, 1, 1, true), 2);  // a third window would start in the padding behind the data
  EXPECT_EQ(PoolOutput(2, 3, 1, 1, 0, 0, false), 0);
}

TEST(PoolTest, RandomShapes) {
  Rng rng(1);
  for (int i = 0; i < 180; ++i) {
    size_t dims = 1 + i / 3 % 3;
    PoolAttrs attrs{Shape(dims), Shape(dims), Shape(dims), Shape(2 * dims)};
    attrs.ceil_mode = rng.Below(2);
    attrs.count_include_pad = rng.Below(2);
    Shape in = {1 + rng.Below(2)};
    for (size_t d = 0; d < dims; ++d) {
      attrs.kernel[d] = 1 + rng.Below(3);
      attrs.stride[d] = 1 + rng.Below(3);
      attrs.dilation[d] = 1 + rng.Below(2);
      attrs.pad[d] = rng.Below(attrs.kernel[d]);
      attrs.pad[d + dims] = rng.Below(attrs.kernel[d]);
      int64_t least = attrs.dilation[d] * (attrs.kernel[d] - 1) + 1;
      in.push_back(std::max<int64_t>(least, 1 + rng.Below(dims == 3 ? 5 : 9)));
    }
    in.push_back(1 + rng.Below(3));
    EXPECT_EQ(CheckPool(in, attrs, static_cast<What>(i % 3), rng), "") << "case " << i;
  }
}

TEST(PoolTest, AWrongPoolIsNoticed) {
  Rng rng(2);
  PoolAttrs attrs{.kernel = {3, 3}, .pad = {1, 1, 1, 1}}, shifted{.kernel = {3, 3}, .pad = {0, 0, 2, 2}};
  for (What what : {What::kMax, What::kPlace}) {
    EXPECT_EQ(CheckPool({1, 6, 6, 2}, attrs, what, rng), "");
    EXPECT_NE(CheckPool({1, 6, 6, 2}, attrs, what, rng, &shifted), "");
  }
  PoolAttrs counting = attrs;
  counting.count_include_pad = true;
  EXPECT_NE(CheckPool({1, 6, 6, 2}, attrs, What::kAverage, rng, &counting), "");
}

TEST(PoolTest, AWindowOfPaddingAlone) {
  Rng rng(4);
  for (What what : {What::kMax, What::kPlace})
    EXPECT_EQ(CheckPool({1, 2, 2, 1}, {.kernel = {2, 2}, .pad = {2, 0, 2, 0}}, what, rng), "");
  EXPECT_THROW(MaxPool("p", te::Placeholder("x", {1, 2, 2, 1}), {.kernel = {3, 1}}), InternalError);
  EXPECT_THROW(MaxPool("p", te::Placeholder("x", {1, 2, 2, 2, 1}), {.kernel = {1, 1}}), InternalError);
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
