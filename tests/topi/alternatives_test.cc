#include "topi/alternatives.h"

#include <gtest/gtest.h>

#include <iterator>

#include "ir/interp.h"
#include "tests/read.h"
#include "tests/topi/find_alternative.h"
#include "tests/topi/operator_check.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

// The example of docs/adding.md: gathers each window into a row, then multiplies.
Tensor Conv2dIm2col(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs) {
  Tensor direct = Conv(name, data, weight, attrs);  // for its shape
  const Shape &in = data.shape(), &w = weight.shape(), &out = direct.shape();
  int64_t m = out[1] * out[2], k = w[0] * w[1] * w[2];
  Tensor rows =
      te::Compute(name + "_rows", {{"n", in[0]}, {"m", m}, {"k", k}}, {data}, [&](const std::vector<Expr>& i) {
        std::vector<Expr> at = te::ReshapeIndices({i[1]}, {m}, {out[1], out[2]});
        std::vector<Expr> r = te::ReshapeIndices({i[2]}, {k}, {w[0], w[1], w[2]});
        Expr y = at[0] * attrs.stride[0] + r[0] * attrs.dilation[0] - attrs.pad[0];
        Expr x = at[1] * attrs.stride[1] + r[1] * attrs.dilation[1] - attrs.pad[1];
        Expr inside = And(And(y >= 0, y < in[1]), And(x >= 0, x < in[2]));
        return MakeSelect(inside, data({i[0], y, x, r[2]}), ConstOf(0, data.dtype()));
      });
  return te::Reduce(
      name, {{"n", in[0]}, {"m", m}, {"oc", w[3]}}, {{"k", k}}, te::Combiner::kSum, {rows, weight},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> tap = te::ReshapeIndices({r[0]}, {k}, {w[0], w[1], w[2]});
        return rows({i[0], i[1], r[0]}) * weight({tap[0], tap[1], tap[2], i[2]});
      },
      out);
}
constexpr ConvAlternative kIm2col = {
    "im2col", [](DType) { return true; },  // of all element types
    [](const Shape& data, const Shape&, const ConvAttrs& attrs, const Target&) {
      return data.size() == 4 && attrs.groups == 1;
    },
    [](const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs& attrs, const Target&) {
      return Conv2dIm2col(name, data, weight, attrs);
    }};

// Runs both alternatives on the same data and returns how they differ; empty if they agree. Mismatch takes `first` as
// the naive side.
template <class Make>
std::string Differs(const std::vector<Tensor>& inputs, const Make& first, const Make& other, Rng& rng) {
  return Mismatch(
      inputs, other(),
      [&](const std::vector<Array>& arrays) {
        std::vector<te::TensorParam> params;
        std::vector<InterpArray> args;
        for (size_t i = 0; i < inputs.size(); ++i) {
          params.push_back({inputs[i]});
          args.push_back({inputs[i].dtype(), inputs[i].shape(), arrays[i].data});
        }
        Tensor y = first();
        params.push_back({y, ParamRole::kOutput});
        Array out(y.shape());
        args.push_back({y.dtype(), y.shape(), out.data});
        CHECK(Interpret(te::CreatePrimFunc("f", params), args).ok());
        out.data = args.back().data;
        return out;
      },
      rng);
}

const Target kTarget;

std::string ConvDiffers(const ConvAlternative& alternative, const Shape& in, const Shape& kernel,
                        const ConvAttrs& attrs, Rng& rng) {
  Tensor x = te::Placeholder("x", in), w = te::Placeholder("w", kernel);
  std::function<Tensor()> first = [&] {
    return Relu("relu", ConvAlternatives()[0].make("conv", x, w, attrs, kTarget));
  };
  std::function<Tensor()> other = [&] { return Relu("relu", alternative.make("conv", x, w, attrs, kTarget)); };
  return Differs({x, w}, first, other, rng);
}

struct ConvCase {
  Shape in, kernel;
  ConvAttrs attrs;
};

// Returns a random case with `groups` groups of ic input and oc output channels each.
ConvCase RandomCase(int64_t groups, int64_t ic, int64_t oc, Rng& rng) {
  for (;;) {
    ConvCase c;
    c.attrs.groups = groups;
    c.in = {1 + rng.Below(2), 1 + rng.Below(8), 1 + rng.Below(8), ic * groups};
    c.kernel = {1 + rng.Below(3), 1 + rng.Below(3), ic, oc * groups};
    for (int d = 0; d < 2; ++d) c.attrs.stride[d] = 1 + rng.Below(2), c.attrs.dilation[d] = 1 + rng.Below(2);
    for (int64_t& p : c.attrs.pad) p = rng.Below(3);
    bool fits = true;
    for (int d = 0; d < 2; ++d) {
      fits &= ConvOutput(c.in[d + 1], c.kernel[d], c.attrs.stride[d], c.attrs.dilation[d], c.attrs.pad[d],
                         c.attrs.pad[d + 2]) > 0;
    }
    if (fits) return c;
  }
}

std::vector<ConvCase> ConvCases(Rng& rng) {
  std::vector<ConvCase> cases;
  for (int i = 0; i < 25; ++i) {
    int64_t groups = rng.Below(4) ? 1 : 2, ic = 1 + rng.Below(3);
    cases.push_back(RandomCase(groups, ic, 1 + rng.Below(3), rng));
  }
  return cases;
}

// Checks the exact alternatives. tests/topi/winograd_test.cc checks the alternatives that round.
TEST(AlternativesTest, EveryConvolutionEqualsTheFirst) {
  Rng rng(1);
  std::vector<ConvAlternative> all(ConvAlternatives().begin(), ConvAlternatives().end());
  all.push_back(kIm2col);
  int used = 0;
  for (const ConvCase& c : ConvCases(rng)) {
    EXPECT_TRUE(all[0].applies(c.in, c.kernel, c.attrs, Target{}));
    for (const ConvAlternative& alternative : all) {
      if (!alternative.exact || !alternative.applies(c.in, c.kernel, c.attrs, Target{})) continue;
      ++used;
      EXPECT_EQ(ConvDiffers(alternative, c.in, c.kernel, c.attrs, rng), "") << alternative.name;
    }
  }
  EXPECT_GT(used, 30);
}

// Half of the positions of a window lie in the padding of a small image, but few in that of a large one.
TEST(AlternativesTest, SkipsPaddingOfSmallImages) {
  const ConvAlternative& skip = *FindAlternative(ConvAlternatives(), "skip_padding");
  const ConvAttrs attrs{.pad = {2, 2, 2, 2}};
  EXPECT_TRUE(skip.applies({1, 3, 64, 8}, {5, 5, 8, 8}, attrs, kTarget));
  EXPECT_FALSE(skip.applies({1, 64, 64, 8}, {5, 5, 8, 8}, attrs, kTarget));
  EXPECT_FALSE(skip.applies({1, 5, 64, 8}, {5, 5, 8, 8}, {.pad = {0, 2, 0, 2}}, kTarget)) << "no padded rows";
  EXPECT_FALSE(skip.applies({1, 3, 64, 8}, {5, 5, 4, 8}, {.pad = {2, 2, 2, 2}, .groups = 2}, kTarget));
  Rng rng(7);
  for (int i = 0; i < 40; ++i) {
    const ConvCase c = RandomCase(1, 1 + rng.Below(4), 1 + rng.Below(4), rng);
    EXPECT_EQ(ConvDiffers(skip, c.in, c.kernel, c.attrs, rng), "");
  }
}

// The alternative across_groups is right for any number and width of groups, even where it does not apply.
TEST(AlternativesTest, AcrossGroupsEqualsTheFirst) {
  Rng rng(4);
  const ConvAlternative& across = *FindAlternative(ConvAlternatives(), "across_groups");
  for (int i = 0; i < 40; ++i) {
    int64_t groups = 1 + rng.Below(8), ic = 1 + rng.Below(8);
    ConvCase c = RandomCase(groups, ic, 1 + rng.Below(8), rng);
    EXPECT_EQ(ConvDiffers(across, c.in, c.kernel, c.attrs, rng), "") << groups << " groups of " << ic;
  }
  ConvAlternative wrong = across;
  wrong.make = [](const std::string& name, const Tensor& x, const Tensor& w, const ConvAttrs& attrs, const Target&) {
    ConvAttrs other = attrs;
    other.dilation = {1, 2};
    return ConvAcrossGroups(name, x, w, other);
  };
  EXPECT_NE(ConvDiffers(wrong, {1, 5, 6, 8}, {1, 2, 4, 8}, {.pad = {0, 0, 0, 1}, .groups = 2}, rng), "");
}

TEST(AlternativesTest, AcrossGroupsIsForGroupsOfLessThanAVector) {
  auto offered = [](const char* cpu, int64_t groups, int64_t ic, int64_t oc) {
    Target target = Target::Parse("llvm -mtriple=x86_64-linux-gnu -num-cores=1 -mcpu=" + std::string(cpu)).value();
    return AcrossGroupsApplies({1, 9, 9, groups * ic}, {3, 3, ic, groups * oc}, {.groups = groups}, target);
  };
  const char *lanes16 = "skylake-avx512", *lanes8 = "znver3";
  EXPECT_TRUE(offered(lanes16, 32, 4, 4));
  EXPECT_TRUE(offered(lanes16, 32, 8, 8));
  EXPECT_TRUE(offered(lanes16, 32, 2, 4));
  EXPECT_TRUE(offered(lanes8, 32, 4, 4));
  EXPECT_FALSE(offered(lanes8, 32, 8, 8)) << "one group fills a vector";
  EXPECT_FALSE(offered(lanes16, 32, 16, 16)) << "one group fills a vector";
  EXPECT_FALSE(offered(lanes16, 1, 4, 4)) << "a single group cannot share a vector";
  EXPECT_TRUE(offered(lanes16, 6, 4, 4)) << "the lanes beyond the last channel can be masked";
  EXPECT_FALSE(offered(lanes16, 16, 3, 3)) << "a vector would end inside a group";
  EXPECT_FALSE(offered(lanes16, 32, 8, 2)) << "the inputs of eight groups lie far apart";
  EXPECT_FALSE(offered(lanes16, 32, 1, 1)) << "a depthwise convolution has vectors already";
  EXPECT_FALSE(offered(lanes16, 32, 1, 4)) << "a depthwise convolution has vectors already";
}

TEST(AlternativesTest, AWrongConvolutionIsNoticed) {
  Rng rng(2);
  ConvAlternative wrong = kIm2col;
  wrong.make = [](const std::string& name, const Tensor& x, const Tensor& w, const ConvAttrs& attrs, const Target&) {
    ConvAttrs other = attrs;
    std::swap(other.pad[0], other.pad[2]);
    return Conv2dIm2col(name, x, w, other);
  };
  EXPECT_NE(ConvDiffers(wrong, {1, 5, 5, 2}, {3, 3, 2, 2}, {.pad = {2, 0, 0, 0}}, rng), "");
}

TEST(AlternativesTest, EveryProductEqualsTheFirst) {
  Rng rng(3);
  Target small;  // a target whose caches hold panels of four terms
  small.l2_bytes = 4 * 4 * 2 * small.VectorLanes(32) * 4;
  for (const auto& [sa, sb, alternatives] : {std::tuple<Shape, Shape, int>{{3, 5}, {5, 4}, 1},
                                             {{2, 3, 5}, {5, 4}, 1},
                                             {{2, 3, 5}, {2, 5, 4}, 1},
                                             {{64, 8}, {8, 5}, 2},
                                             {{2, 33, 12}, {12, 7}, 2},
                                             {{70, 15}, {15, 2}, 2},
                                             {{64, 4}, {4, 5}, 1},    // the sum has fewer terms than a panel
                                             {{64, 13}, {13, 5}, 1},  // the panels do not divide the sum
                                             {{5, 8}, {8, 5}, 1},     // few rows
                                             {{70, 16}, {16, 1}, 1},  // one column
                                             {{2, 64, 8}, {2, 8, 5}, 1}}) {
    Tensor a = te::Placeholder("a", sa), b = te::Placeholder("b", sb);
    int applying = 0;
    for (const MatMulAlternative& alternative : MatMulAlternatives()) {
      if (!alternative.applies(sa, sb, small)) continue;
      ++applying;
      std::function<Tensor()> first = [&, &a = a, &b = b] { return MatMulAlternatives()[0].make("mm", a, b, small); };
      std::function<Tensor()> other = [&, &a = a, &b = b] { return alternative.make("mm", a, b, small); };
      EXPECT_EQ(Differs({a, b}, first, other, rng), "") << alternative.name;
    }
    EXPECT_EQ(applying, alternatives) << te::Product(sa) << " " << te::Product(sb);
  }
}

// The alternative tf32 rounds its operands, so the target must permit it. The number of terms must be a multiple of the
// number that one instruction of a tensor core takes.
TEST(AlternativesTest, Tf32NeedsPermission) {
  auto names = [](const std::string& options, int64_t k) {
    const Target target = Target::Parse("cuda -mtriple=x86_64-linux-gnu -arch=" + options).value();
    std::string found;
    for (const MatMulAlternative& alternative : MatMulAlternatives()) {
      if (alternative.applies({64, k}, {k, 64}, target)) found += std::string(alternative.name) + " ";
    }
    return found;
  };
  EXPECT_EQ(names("sm_80", 64), "direct ");
  EXPECT_EQ(names("sm_80 -tf32=1", 64), "direct tf32 ");
  EXPECT_EQ(names("sm_80 -tf32=1", 60), "direct ");
}

TEST(AlternativesTest, TheManualShowsThisExample) {
  std::string source = test::ReadAll(AUTOTUNE_SOURCE_DIR "/tests/topi/alternatives_test.cc");
  std::string manual = test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/adding.md");
  size_t begin = source.find("Tensor Conv2dIm2col"), end = source.find("\n// Runs both");
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos);
  EXPECT_NE(manual.find(source.substr(begin, end - begin)), std::string::npos)
      << "docs/adding.md must contain this function";
  EXPECT_EQ(manual.find("no such text"), std::string::npos);
}

TEST(AlternativesTest, FoundByName) {
  EXPECT_EQ(FindAlternative(ConvAlternatives(), "direct"), &ConvAlternatives()[0]);
  EXPECT_EQ(FindAlternative(ConvAlternatives(), "no such"), nullptr);
}

TEST(IsWinograd, IsTrueOfTheAlternativesThatAreNotExact) {
  for (const ConvAlternative& alternative : ConvAlternatives())
    EXPECT_EQ(IsWinograd(alternative.name), !alternative.exact) << alternative.name;
  for (const MatMulAlternative& alternative : MatMulAlternatives()) EXPECT_FALSE(IsWinograd(alternative.name));
}

}  // namespace
}  // namespace autotune::topi
