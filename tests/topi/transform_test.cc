#include "topi/transform.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/topi/operator_check.h"
#include "topi/conv.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

TEST(ConcatTest, AnyAxis) {
  Rng rng(1);
  for (int axis = 0; axis < 4; ++axis) {
    std::vector<Tensor> inputs;
    Shape shape = {2, 3, 2, 3};
    int64_t total = 0;
    for (int64_t extent : {1, 4, 3}) {
      shape[axis] = extent;
      total += extent;
      inputs.push_back(te::Placeholder("x", shape));
    }
    shape[axis] = total;
    auto naive = [&](bool reversed) {
      return [&, reversed](const std::vector<Array>& v) {
        Array y(shape);
        int64_t offset = 0;
        for (size_t k = 0; k < v.size(); ++k) {
          const Array& a = v[reversed ? v.size() - 1 - k : k];
          ForEach(a.shape, [&](Shape i) {
            double x = a.at(i);
            i[axis] += offset;
            y.at(i) = x;
          });
          offset += a.shape[axis];
        }
        return y;
      };
    };
    EXPECT_EQ(Mismatch(inputs, Concat("cat", inputs, axis), naive(false), rng), "");
    EXPECT_NE(Mismatch(inputs, Concat("cat", inputs, axis), naive(true), rng), "");
  }
  EXPECT_THROW(Concat("cat", {te::Placeholder("a", {2, 3}), te::Placeholder("b", {3, 3})}, 1), InternalError);
}

TEST(ConcatTest, ReadsAndFeedsOthers) {
  Rng rng(2);
  Tensor x = te::Placeholder("x", {1, 2, 3, 2}), w = te::Placeholder("w", {1, 1, 2, 3});
  Tensor cat = Concat("cat", {Relu("relu", Conv("conv", x, w, {})), x}, 3);
  EXPECT_EQ(Mismatch(
                {x, w}, Neg("neg", cat),
                [&](const std::vector<Array>& v) {
                  Array y({1, 2, 3, 5});
                  ForEach(y.shape, [&](const Shape& i) {
                    double e = 0;
                    if (i[3] < 3) {
                      for (int64_t c = 0; c < 2; ++c) e += v[0].at({0, i[1], i[2], c}) * v[1].at({0, 0, c, i[3]});
                      e = std::max(e, 0.0);
                    } else {
                      e = v[0].at({0, i[1], i[2], i[3] - 3});
                    }
                    y.at(i) = -e;
                  });
                  return y;
                },
                rng),
            "");
}

TEST(TransposeTest, Permutations) {
  Rng rng(3);
  Shape in = {2, 3, 4, 5};
  for (const std::vector<int>& perm : {std::vector<int>{0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}, {1, 0, 3, 2}}) {
    Tensor x = te::Placeholder("x", in);
    Tensor y = Transpose("t", x, perm);
    auto naive = [&](bool mirror) {
      return [&, mirror](const std::vector<Array>& v) {
        Array out(y.shape());
        ForEach(in, [&](const Shape& i) {
          Shape at;
          for (int p : perm) at.push_back(i[p]);
          if (mirror) at[0] = out.shape[0] - 1 - at[0];
          out.at(at) = v[0].at(i);
        });
        return out;
      };
    };
    EXPECT_EQ(Mismatch({x}, y, naive(false), rng), "");
    EXPECT_NE(Mismatch({x}, y, naive(true), rng), "");
  }
  EXPECT_THROW(Transpose("t", te::Placeholder("x", {2, 3}), {0, 0}), InternalError);
}

TEST(ReshapeTest, KeepsRowMajorOrder) {
  Rng rng(4);
  const std::pair<Shape, Shape> cases[] = {{{2, 3, 4}, {6, 4}},     {{6, 4}, {2, 3, 4}},  {{4, 6}, {3, 8}},
                                           {{1, 12, 1}, {12}},      {{12}, {1, 3, 1, 4}}, {{2, 3}, {3, 2}},
                                           {{1, 2, 3, 4}, {1, 24}}, {{1}, {1, 1, 1}},     {{1, 5}, {5, 1}}};
  for (const auto& [from, to] : cases) {
    Tensor x = te::Placeholder("x", from);
    auto naive = [&](double extra) {
      return [&, extra](const std::vector<Array>& v) {
        Array y(to);
        y.data = v[0].data;
        y.data[0] += extra;
        return y;
      };
    };
    EXPECT_EQ(Mismatch({x}, Reshape("r", x, to), naive(0), rng), "");
    EXPECT_EQ(Mismatch({x}, Neg("n", Neg("m", Reshape("r", x, to))), naive(0), rng), "");
    EXPECT_NE(Mismatch({x}, Reshape("r", x, to), naive(1), rng), "");
  }
  EXPECT_THROW(Reshape("r", te::Placeholder("x", {2, 3}), {5}), InternalError);
}

TEST(PadTest, AnyDimension) {
  Rng rng(5);
  Tensor x = te::Placeholder("x", {2, 3});
  for (const Shape& before : {Shape{0, 0}, Shape{1, 2}}) {
    for (const Shape& after : {Shape{0, 0}, Shape{0, 1}, Shape{2, 0}}) {
      Tensor y = Pad("pad", x, before, after, 7);
      auto naive = [&](double fill) {
        return [&, fill](const std::vector<Array>& v) {
          Array out(y.shape());
          ForEach(out.shape, [&](const Shape& i) {
            Shape at = {i[0] - before[0], i[1] - before[1]};
            out.at(i) = v[0].Has(at) ? v[0].at(at) : fill;
          });
          return out;
        };
      };
      EXPECT_EQ(Mismatch({x}, y, naive(7), rng), "");
      EXPECT_EQ(Mismatch({x}, y, naive(6), rng) == "", y.shape() == x.shape());
    }
  }
}

// A tensor whose loops are fewer than its dimensions keeps them behind which only the last dimension grows.
TEST(PadTest, LoopsOfABatchStay) {
  Rng rng(6);
  const Tensor x = te::Placeholder("x", {6, 5});
  const Tensor rows =
      te::Compute("rows", te::NaturalAxes({6, 5}), {x}, [&](const std::vector<Expr>& i) { return x(i); }, {2, 3, 5});
  const auto naive = [](const Shape& before, const Shape& after) {
    return [=](const std::vector<Array>& v) {
      Array out({2 + before[0] + after[0], 3 + before[1] + after[1], 5 + before[2] + after[2]});
      ForEach(out.shape, [&](const Shape& i) {
        const int64_t a = i[0] - before[0], b = i[1] - before[1], c = i[2] - before[2];
        const bool inside = a >= 0 && a < 2 && b >= 0 && b < 3 && c >= 0 && c < 5;
        out.at(i) = inside ? v[0].at({a * 3 + b, c}) : 7;
      });
      return out;
    };
  };
  const Shape none = {0, 0, 0};
  for (const Shape& after : {none, Shape{0, 0, 3}, Shape{0, 1, 3}, Shape{1, 0, 0}}) {
    for (const Shape& before : {none, Shape{0, 0, 2}, Shape{0, 1, 0}}) {
      const Tensor y = Pad("pad", rows, before, after, 7);
      EXPECT_EQ(Mismatch({x}, y, naive(before, after), rng), "");
      EXPECT_EQ(y->axes.size(), before == none && after[0] + after[1] == 0 ? 2u : 3u);
    }
  }
}

TEST(PadTest, BetweenElementsAndFromInside) {
  Rng rng(7);
  Tensor x = te::Placeholder("x", {3, 4});
  auto spread = [](double fill) {
    return [fill](const std::vector<Array>& v) {
      Array out({3 * 2 - 1 + 1, 4 * 3 - 2 + 2});
      ForEach(out.shape, [&](const Shape& i) {
        int64_t r = i[0] - 1, c = i[1];
        bool inside = r >= 0 && r % 2 == 0 && c % 3 == 0 && c / 3 < 4;
        out.at(i) = inside ? v[0].at({r / 2, c / 3}) : fill;
      });
      return out;
    };
  };
  Tensor y = Pad("pad", x, {1, 0}, {0, 2}, 9, {1, 2});
  EXPECT_EQ(Mismatch({x}, y, spread(9), rng), "");
  EXPECT_NE(Mismatch({x}, y, spread(8), rng), "");
  for (bool reflect : {false, true}) {
    auto naive = [](bool mirrored) {
      return [mirrored](const std::vector<Array>& v) {
        Array out({3 + 2 + 1, 4 + 3});
        ForEach(out.shape, [&](const Shape& i) {
          int64_t r = i[0] - 2, c = i[1];
          if (mirrored) {
            r = r < 0 ? -r : r > 2 ? 4 - r : r;
            c = c > 3 ? 6 - c : c;
          }
          out.at(i) = v[0].at({std::clamp<int64_t>(r, 0, 2), std::clamp<int64_t>(c, 0, 3)});
        });
        return out;
      };
    };
    Tensor z = PadFromInside("pad", x, {2, 0}, {1, 3}, reflect);
    EXPECT_EQ(Mismatch({x}, z, naive(reflect), rng), "");
    EXPECT_NE(Mismatch({x}, z, naive(!reflect), rng), "");
  }
}

TEST(GatherTest, AnyAxisAndAnyIndex) {
  Rng rng(8);
  auto place = [](double index, int64_t n) {
    int64_t i = static_cast<int64_t>(index);
    return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n - 1);
  };
  // Indices from -4 to 4 exceed the first dimension on both sides.
  Tensor x = te::Placeholder("x", {3, 5}), rows = te::Placeholder("rows", {2, 2}, DType::Int(64));
  auto gather = [&](int64_t shift) {
    return [&, shift](const std::vector<Array>& v) {
      Array out({2, 2, 5});
      ForEach(out.shape, [&](const Shape& i) { out.at(i) = v[0].at({place(v[1].at({i[0], i[1]}) + shift, 3), i[2]}); });
      return out;
    };
  };
  EXPECT_EQ(Mismatch({x, rows}, Gather("g", x, rows, 0), gather(0), rng), "");
  EXPECT_NE(Mismatch({x, rows}, Gather("g", x, rows, 0), gather(1), rng), "");
  Tensor columns = te::Placeholder("columns", {3, 2}, DType::Int(32));
  auto elements = [&](int64_t shift) {
    return [&, shift](const std::vector<Array>& v) {
      Array out({3, 2});
      ForEach(out.shape, [&](const Shape& i) { out.at(i) = v[0].at({i[0], place(v[1].at(i) + shift, 5)}); });
      return out;
    };
  };
  EXPECT_EQ(Mismatch({x, columns}, GatherElements("g", x, columns, 1), elements(0), rng), "");
  EXPECT_NE(Mismatch({x, columns}, GatherElements("g", x, columns, 1), elements(1), rng), "");
}

TEST(BroadcastToTest, LeadingAndUnitDimensions) {
  Rng rng(9);
  Tensor x = te::Placeholder("x", {3, 1});
  auto naive = [](int64_t shift) {
    return [shift](const std::vector<Array>& v) {
      Array out({2, 3, 4});
      ForEach(out.shape, [&](const Shape& i) { out.at(i) = v[0].at({(i[1] + shift) % 3, 0}); });
      return out;
    };
  };
  EXPECT_EQ(Mismatch({x}, BroadcastTo("b", x, {2, 3, 4}), naive(0), rng), "");
  EXPECT_NE(Mismatch({x}, BroadcastTo("b", x, {2, 3, 4}), naive(1), rng), "");
}

TEST(SliceTest, StepsBothWays) {
  Rng rng(6);
  Tensor x = te::Placeholder("x", {5, 7});
  Tensor y = Slice("s", x, {4, 1}, {3, 2}, {-2, 3});
  auto naive = [](int64_t shift) {
    return [shift](const std::vector<Array>& v) {
      Array out({3, 2});
      ForEach(out.shape, [&](const Shape& i) { out.at(i) = v[0].at({4 - 2 * i[0], 1 + 3 * i[1] + shift}); });
      return out;
    };
  };
  EXPECT_EQ(Mismatch({x}, y, naive(0), rng), "");
  EXPECT_NE(Mismatch({x}, y, naive(1), rng), "");
  EXPECT_THROW(Slice("s", x, {0, 0}, {3, 2}, {3, 1}), InternalError);
}

}  // namespace
}  // namespace autotune::topi
