#include "topi/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "ir/interp.h"
#include "ir/verify.h"
#include "te/reference.h"
#include "tests/close.h"
#include "tests/topi/operator_check.h"
#include "topi/alternatives.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

struct Case {
  Shape data;
  int64_t oc;
  Shape pad = {1, 1, 1, 1};
};

std::vector<double> Output(const PrimFunc& f, const std::vector<Array>& inputs, const Shape& out, Status* status) {
  std::vector<InterpArray> args;
  for (const Array& a : inputs) args.push_back({DType::Float(32), a.shape, a.data});
  args.push_back({DType::Float(32), out, std::vector<double>(te::Product(out))});
  *status = Interpret(f, args, {.order_seed = 1});
  return args.back().data;
}

constexpr double kEps = 0x1p-23;  // unit of roundoff of f32

// The largest errors, in units of roundoff of the sum of the magnitudes of an output's products.
struct Errors {
  double f32 = 1, f64 = 1;
  std::string failure;
};

// Interprets Winograd's algorithm and the direct sum on the same data, and returns the errors of Winograd's algorithm.
// The error f64 is that with f64 intermediates; only the outputs are rounded to f32.
Errors ErrorsOf(const Case& c, const WinogradTiling& tiling, const ConvAttrs* direct_attrs = nullptr) {
  ConvAttrs attrs{.pad = c.pad};
  Tensor x = te::Placeholder("x", c.data), w = te::Placeholder("w", {3, 3, c.data[3], c.oc});
  Tensor direct = Conv("conv", x, w, direct_attrs ? *direct_attrs : attrs);
  Tensor fast = Conv2dWinograd("conv", x, w, attrs, tiling);
  Errors errors;
  if (fast.shape() != direct.shape()) {
    errors.failure = "the shapes differ";
    return errors;
  }
  auto function = [&](const Tensor& y) {
    return te::CreatePrimFunc("f", {{x}, {w, ParamRole::kConstant}, {y, ParamRole::kOutput}}, {.use_fma = true});
  };
  Rng rng(static_cast<uint64_t>(te::Product(c.data) + c.oc));
  std::vector<Array> inputs{Array(c.data), Array({3, 3, c.data[3], c.oc})};
  for (Array& a : inputs) {
    for (double& v : a.data) v = static_cast<float>(2 * rng.Uniform() - 1);
  }
  PrimFunc f = function(fast), wide = te::ToReference(f);
  for (const PrimFunc* g : {&f, &wide}) {
    if (Status valid = Verify(*g, Dialect::kSchedulable); !valid.ok()) errors.failure = valid.error().Text();
  }
  Status status;
  const PrimFunc exact = te::ToReference(function(direct));
  std::vector<Array> magnitudes = inputs;
  for (Array& a : magnitudes) {
    for (double& v : a.data) v = std::abs(v);
  }
  const std::vector<double> want = Output(exact, inputs, direct.shape(), &status),
                            sums = Output(exact, magnitudes, direct.shape(), &status);
  auto error = [&](const PrimFunc& g) {
    std::vector<double> got = Output(g, inputs, direct.shape(), &status);
    if (!status.ok()) errors.failure = status.error().Text();
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == want[i]) continue;  // the sum of an output that sees only padding is 0
      const double error = std::abs(got[i] - want[i]) / (kEps * sums[i]);
      worst = error <= worst ? worst : error;  // NaN counts as the worst error
    }
    return worst;
  };
  errors.f32 = error(f);
  errors.f64 = error(wide);
  return errors;
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {{1, 8, 8, 2}, 3},
      {{2, 5, 9, 3}, 2},
      {{1, 4, 4, 1}, 1, {0, 0, 0, 0}},
      {{1, 3, 3, 2}, 3, {0, 0, 0, 0}},
      {{1, 1, 1, 2}, 2},
      {{1, 6, 11, 2}, 3, {2, 0, 1, 3}},
      {{3, 10, 3, 2}, 2, {0, 2, 2, 0}},
      {{1, 13, 14, 2}, 2},
  };
  return cases;
}

TEST(WinogradTest, EqualsTheDirectSumUpToRounding) {
  for (int64_t tile : {2, 4}) {
    for (const Case& c : Cases()) {
      for (WinogradTiling tiling : {WinogradTiling{tile, 0, 0}, {tile, 1, 1}, {tile, 2, 3}}) {
        SCOPED_TRACE(testing::Message() << tile << " " << c.data[1] << "x" << c.data[2] << "x" << c.data[3]
                                        << " groups " << tiling.rows << "x" << tiling.columns);
        Errors errors = ErrorsOf(c, tiling);
        EXPECT_EQ(errors.failure, "");
        EXPECT_LE(errors.f32, tile == 2 ? 1 : 4);
        EXPECT_LE(errors.f64, 1);  // only the coefficients and the outputs are rounded
      }
    }
  }
}

TEST(WinogradTest, AnotherConvolutionIsNoticed) {
  ConvAttrs other{.pad = {0, 1, 2, 1}};
  EXPECT_GT(ErrorsOf({{1, 8, 8, 5}, 3}, {4, 0, 0}, &other).f64, 1e4);
}

// With 512 channels, the errors are of the size that topi/winograd.h states.
TEST(WinogradTest, ErrorOfManyChannels) {
  Case c{{1, 4, 4, 512}, 1};
  EXPECT_LE(ErrorsOf(c, {2, 0, 0}).f32, 1);
  EXPECT_LE(ErrorsOf(c, {4, 0, 0}).f32, 4);
}

// ---- The guard ----

struct Wild {
  std::string name;
  std::function<void(std::vector<Array>& inputs)> spoil;  // changes the data or the weights
};

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
const Shape kImage = {1, 12, 13, 4}, kKernel = {3, 3, 4, 3};

double& Pixel(Array& image, int64_t h, int64_t w, int64_t c) {
  return image.data[static_cast<size_t>((h * image.shape[2] + w) * image.shape[3] + c)];
}

// Sets the pixels of some rows and columns, in all channels.
void Fill(Array& image, int64_t rows, int64_t columns, double value) {
  for (int64_t h = 0; h < rows; ++h) {
    for (int64_t w = 0; w < columns; ++w) {
      for (int64_t c = 0; c < image.shape[3]; ++c) Pixel(image, h, w, c) = value;
    }
  }
}

std::vector<Wild> WildInputs() {
  std::vector<Wild> list;
  for (double value : {kInf, -kInf, kNan, 1e4, -1e9, 1e30}) {
    const std::string text = std::to_string(value);
    list.push_back({"a pixel " + text, [=](auto& in) { Pixel(in[0], 5, 7, 1) = value; }});
    list.push_back({"a corner " + text, [=](auto& in) { Pixel(in[0], 0, 0, 0) = value; }});
    list.push_back({"rows " + text, [=](auto& in) { Fill(in[0], 6, 13, value); }});
    list.push_back({"columns " + text, [=](auto& in) { Fill(in[0], 12, 5, value); }});
    list.push_back({"a weight " + text, [=](auto& in) { in[1].data[4] = value; }});
    list.push_back({"all but a pixel 0, this one " + text, [=](auto& in) {
                      Fill(in[0], 12, 13, 0);
                      Pixel(in[0], 6, 6, 2) = value;
                    }});
  }
  list.push_back({"half of the image is small", [](auto& in) {
                    for (int64_t i = 0; i < 12 * 13 * 4; ++i) in[0].data[i] *= i / 4 % 13 < 6 ? 1e-6 : 1;
                  }});
  list.push_back({"the weights of a row are large", [](auto& in) {
                    for (int64_t i = 0; i < 3 * 4 * 3; ++i) in[1].data[i] *= 1e6;
                  }});
  // Each cell has a large pixel, so that the data are tame; a kernel of one position must see the small ones beside it.
  list.push_back({"a kernel of one position on a checkerboard", [](auto& in) {
                    for (size_t i = 0; i < in[1].data.size(); ++i) in[1].data[i] *= i / 12 == 4;
                    for (int64_t i = 0; i < 12 * 13 * 4; ++i) in[0].data[i] *= (i / 4 + i / 52) % 2 == 0 ? -1e9 : 1;
                  }});
  // Every output of the tile sees these numbers, but one channel of the kernels has no weight there.
  list.push_back({"an outlier of one channel that one output channel ignores", [](auto& in) {
                    for (int64_t h = 4; h < 8; ++h) {
                      for (int64_t w = 4; w < 8; ++w) Pixel(in[0], h, w, 2) = h == 5 && w == 5 ? 1e8 : 1;
                    }
                    for (size_t i = 0; i < in[1].data.size(); ++i) in[1].data[i] *= i % 12 != 2 * 3 + 1 || i / 12 == 0;
                  }});
  list.push_back({"a kernel without weights", [](auto& in) {
                    for (size_t i = 0; i < in[1].data.size(); ++i) in[1].data[i] *= i % 3 != 1;
                  }});
  return list;
}

// Each output's error is small compared with the sum of its own terms, whatever the rest of the image holds.
TEST(WinogradTest, AnOutputDependsOnlyOnItsWindow) {
  constexpr double kAllowed = 700;  // units of the sum of magnitudes; see topi/winograd.h
  Tensor x = te::Placeholder("x", kImage), w = te::Placeholder("w", kKernel);
  ConvAttrs attrs{.pad = {1, 1, 1, 1}};
  auto function = [&](const Tensor& y) {
    return te::CreatePrimFunc("f", {{x}, {w, ParamRole::kConstant}, {y, ParamRole::kOutput}}, {.use_fma = true});
  };
  const PrimFunc direct = function(Conv("conv", x, w, attrs)), exact = te::ToReference(direct);
  const WinogradTiling tilings[] = {{2, 0, 0}, {4, 0, 0}, {4, 2, 2}};
  int64_t not_direct[std::size(tilings)] = {};
  for (const Wild& wild : WildInputs()) {
    Rng rng(7);
    std::vector<Array> inputs{Array(kImage), Array(kKernel)};
    for (Array& a : inputs) {
      for (double& v : a.data) v = static_cast<float>(2 * rng.Uniform() - 1);
    }
    wild.spoil(inputs);
    std::vector<Array> magnitudes = inputs;
    for (Array& a : magnitudes) {
      for (double& v : a.data) v = std::abs(v = static_cast<float>(v));
    }
    for (Array& a : inputs) {
      for (double& v : a.data) v = static_cast<float>(v);
    }
    Status status;
    const Shape shape = Conv("conv", x, w, attrs).shape();
    const std::vector<double> want = Output(exact, inputs, shape, &status),
                              sums = Output(exact, magnitudes, shape, &status),
                              rounded = Output(direct, inputs, shape, &status);
    for (size_t t = 0; t < std::size(tilings); ++t) {
      SCOPED_TRACE(wild.name + ", tile " + std::to_string(tilings[t].tile));
      const PrimFunc fast = function(Conv2dWinograd("conv", x, w, attrs, tilings[t]));
      const std::vector<double> got = Output(fast, inputs, shape, &status);
      ASSERT_TRUE(status.ok()) << status.error().Text();
      for (size_t i = 0; i < got.size(); ++i) {
        not_direct[t] += got[i] != rounded[i] && !std::isnan(got[i]);
        const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
        ASSERT_TRUE(same || std::abs(got[i] - want[i]) <= kAllowed * kEps * sums[i])
            << "output " << i << " is " << got[i] << ", not " << want[i] << "; sum " << sums[i];
      }
    }
  }
  // Tame tiles next to wild ones still use the algorithm.
  for (int64_t count : not_direct) EXPECT_GT(count, 1000);
}

TEST(WinogradTest, AppliesWhereItIsDefinedAndPays) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2").value();
  target.l3_bytes = 32 << 20;
  ConvAttrs same{.pad = {1, 1, 1, 1}};
  EXPECT_TRUE(WinogradApplies({1, 14, 14, 32}, {3, 3, 32, 32}, same, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 3}, {3, 3, 3, 32}, same, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 32}, {3, 3, 32, 10}, same, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 32}, {5, 5, 32, 32}, same, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 32}, {1, 3, 32, 32}, same, target));
  ConvAttrs strided = same, dilated = same, grouped = same;
  strided.stride = {1, 2};
  dilated.dilation = {2, 2};
  grouped.groups = 2;
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 32}, {3, 3, 32, 32}, strided, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 32}, {3, 3, 32, 32}, dilated, target));
  EXPECT_FALSE(WinogradApplies({1, 14, 14, 64}, {3, 3, 32, 64}, grouped, target));
  // A layer that fits the caches is one group, a large layer has many groups, and layers in between have both
  // alternatives.
  EXPECT_FALSE(WinogradGroups(4, {1, 14, 14, 256}, {3, 3, 256, 256}, same, target));
  EXPECT_TRUE(WinogradWhole(4, {1, 14, 14, 256}, {3, 3, 256, 256}, same, target));
  EXPECT_TRUE(WinogradGroups(4, {1, 224, 224, 64}, {3, 3, 64, 64}, same, target));
  EXPECT_FALSE(WinogradWhole(4, {1, 224, 224, 64}, {3, 3, 64, 64}, same, target));
}

// Each core has a group of its own, also if one group would fit the cache, unless the groups become too small.
TEST(WinogradTest, EachCoreHasAGroup) {
  ConvAttrs same{.pad = {1, 1, 1, 1}};
  auto tiles = [&](const Shape& image, int64_t cores) -> int64_t {
    Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3").value();
    target.l2_bytes = 2 << 20;
    target.num_cores = cores;
    const Shape kernel = {3, 3, image[3], image[3]};
    std::optional<WinogradTiling> tiling = WinogradGroups(4, image, kernel, same, target);
    return tiling ? tiling->rows * tiling->columns : 0;
  };
  EXPECT_EQ(tiles({1, 32, 32, 16}, 1), 0);
  EXPECT_GE(tiles({1, 32, 32, 16}, 2), 16);
  EXPECT_LE(tiles({1, 32, 32, 16}, 2), 32);
  EXPECT_LE(tiles({1, 32, 32, 16}, 4), 20);
  EXPECT_GE(tiles({1, 16, 16, 32}, 2), 6);
  EXPECT_EQ(tiles({1, 8, 8, 64}, 2), 0) << "four tiles are too few";
  EXPECT_EQ(tiles({1, 16, 16, 512}, 2), 0) << "groups would read large weights too often";
  EXPECT_EQ(tiles({2, 32, 32, 16}, 2), 64) << "each image is a group";
}

// Interprets a case to which the direct and all Winograd alternatives apply.
TEST(WinogradTest, EveryAlternativeOfTheListIsClose) {
  Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2").value();
  target.l2_bytes = 8 << 10;  // so small that this image is divided into groups
  Shape in = {1, 14, 26, 16}, kernel = {3, 3, 16, 16};
  ConvAttrs attrs{.pad = {1, 1, 1, 1}};
  Tensor x = te::Placeholder("x", in), w = te::Placeholder("w", kernel);
  Rng rng(5);
  std::vector<Array> inputs{RandomArray(in, rng), RandomArray(kernel, rng)};
  std::vector<double> want;
  int used = 0;
  for (const ConvAlternative& a : ConvAlternatives()) {
    if (!a.applies(in, kernel, attrs, target)) continue;
    ++used;
    Tensor y = Relu("relu", a.make("conv", x, w, attrs, target));
    Status status;
    std::vector<double> got =
        Output(te::CreatePrimFunc("f", {{x}, {w}, {y, ParamRole::kOutput}}), inputs, y.shape(), &status);
    ASSERT_TRUE(status.ok()) << status.error().Text();
    if (want.empty()) want = got;
    ASSERT_EQ(test::Difference(got, want, a.exact ? Tolerance{0, 0} : test::kClose), "") << a.name;
  }
  EXPECT_GE(used, 5);
}

TEST(Winograd, AnObstacleIsNamed) {
  const Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3").value();
  const ConvAttrs same{.pad = {1, 1, 1, 1}};
  ConvAttrs strided = same, dilated = same, grouped = same;
  strided.stride = {1, 2};
  dilated.dilation = {2, 2};
  grouped.groups = 2;
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 32}, {3, 3, 32, 32}, same, target), "");
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 3}, {3, 3, 3, 32}, same, target), "it has fewer than 16 channels");
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 32}, {1, 3, 32, 32}, same, target), "its window is 1x3, not 3x3");
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 32}, {3, 3, 32, 32}, strided, target), "its stride is 2");
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 32}, {3, 3, 32, 32}, dilated, target), "its dilation is 2");
  EXPECT_EQ(WinogradObstacle({1, 14, 14, 64}, {3, 3, 32, 64}, grouped, target), "it has 2 groups");
  EXPECT_EQ(WinogradObstacle({1, 3, 3, 32}, {3, 3, 32, 32}, {}, target), "its result has fewer than 2x2 pixels");
}

}  // namespace
}  // namespace autotune::topi
