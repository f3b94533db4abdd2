#include "topi/conv.h"

#include <gtest/gtest.h>

#include "ir/visit.h"
#include "tests/topi/operator_check.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

Array NaiveConv(const Array& x, const Array& w, const ConvAttrs& attrs) {
  size_t dims = x.shape.size() - 2;
  int64_t icg = w.shape[dims], ocg = w.shape[dims + 1] / attrs.groups;
  Shape out = {x.shape[0]};
  for (size_t d = 0; d < dims; ++d) {
    int64_t span = x.shape[d + 1] + attrs.pad[d] + attrs.pad[d + dims] - attrs.dilation[d] * (w.shape[d] - 1) - 1;
    out.push_back(span / attrs.stride[d] + 1);
  }
  out.push_back(w.shape.back());
  Array y(out);
  ForEach(y.shape, [&](const Shape& i) {
    ForEach({w.shape.begin(), w.shape.end() - 1}, [&](const Shape& r) {
      Shape at = {i[0]}, tap = r;
      for (size_t d = 0; d < dims; ++d)
        at.push_back(i[d + 1] * attrs.stride[d] - attrs.pad[d] + r[d] * attrs.dilation[d]);
      at.push_back(i.back() / ocg * icg + r.back());
      tap.push_back(i.back());
      if (x.Has(at)) y.at(i) += x.at(at) * w.at(tap);
    });
  });
  return y;
}

std::string CheckConv(const Shape& in, const Shape& kernel, const ConvAttrs& attrs, Rng& rng,
                      const ConvAttrs* naive_attrs = nullptr, bool use_fma = true) {
  Tensor x = te::Placeholder("x", in), w = te::Placeholder("w", kernel);
  return Mismatch(
      {x, w}, Conv("conv", x, w, attrs),
      [&](const std::vector<Array>& a) { return NaiveConv(a[0], a[1], naive_attrs ? *naive_attrs : attrs); }, rng,
      {.use_fma = use_fma});
}

TEST(ConvTest, OutputExtent) {
  EXPECT_EQ(ConvOutput(224, 7, 2, 1, 3, 3), 112);
  EXPECT_EQ(ConvOutput(5, 3, 1, 2, 0, 0), 1);
  EXPECT_EQ(ConvOutput(4, 3, 1, 2, 0, 0), 0);
}

// With one output channel, vectors have their lanes along the input channels or along a row of the window. Short
// windows have no vectors.
TEST(ConvTest, OneOutputChannel) {
  Rng rng(3);
  for (int64_t ic : {1, 3, 8, 16, 23, 40}) {
    for (const Shape& window : {Shape{1, 1}, {3, 3}, {2, 5}, {7, 1}}) {
      for (const ConvAttrs& attrs : {ConvAttrs{}, {.stride = {2, 1}, .pad = {1, 0, 1, 2}}, {.dilation = {1, 2}}}) {
        SCOPED_TRACE(ic);
        EXPECT_EQ(CheckConv({2, 8, 9, ic}, {window[0], window[1], ic, 1}, attrs, rng), "");
      }
    }
  }
  ConvAttrs shifted{.stride = {2, 1}};
  EXPECT_NE(CheckConv({1, 8, 9, 23}, {3, 3, 23, 1}, {}, rng, &shifted), "");
}

TEST(ConvTest, Shapes) {
  Rng rng(1);
  EXPECT_EQ(CheckConv({1, 5, 5, 3}, {3, 3, 3, 4}, {.pad = {1, 1, 1, 1}}, rng), "");
  EXPECT_EQ(CheckConv({1, 5, 7, 3}, {1, 1, 3, 4}, {}, rng), "");
  EXPECT_EQ(CheckConv({1, 6, 7, 3}, {1, 1, 3, 4}, {.stride = {2, 2}}, rng), "");
  EXPECT_EQ(CheckConv({1, 1, 1, 1}, {1, 1, 1, 1}, {}, rng), "");
  EXPECT_EQ(CheckConv({2, 9, 8, 3}, {7, 7, 3, 2}, {.stride = {2, 2}, .pad = {3, 3, 3, 3}}, rng), "");
  EXPECT_EQ(CheckConv({1, 7, 7, 2}, {3, 3, 2, 2}, {.dilation = {2, 2}, .pad = {2, 2, 2, 2}}, rng), "");
  EXPECT_EQ(CheckConv({1, 4, 4, 6}, {3, 3, 2, 6}, {.pad = {1, 1, 1, 1}, .groups = 3}, rng), "");
  EXPECT_EQ(CheckConv({1, 4, 4, 3}, {3, 3, 1, 3}, {.pad = {1, 1, 1, 1}, .groups = 3}, rng), "");
  EXPECT_EQ(CheckConv({1, 4, 4, 3}, {3, 3, 1, 6}, {.pad = {1, 1, 1, 1}, .groups = 3}, rng), "");
  EXPECT_EQ(CheckConv({1, 4, 5, 3}, {3, 3, 3, 2}, {.pad = {1, 1, 1, 1}}, rng, nullptr, false), "");
}

TEST(ConvTest, RandomShapes) {
  Rng rng(2);
  for (int i = 0; i < 90; ++i) {
    size_t dims = 1 + i % 3;
    ConvAttrs attrs{Shape(dims), Shape(dims), Shape(2 * dims)};
    attrs.groups = rng.Below(3) ? 1 : 1 + rng.Below(3);
    int64_t icg = 1 + rng.Below(3), ocg = 1 + rng.Below(3);
    Shape in = {1 + rng.Below(2)}, kernel;
    for (int64_t& p : attrs.pad) p = rng.Below(3);
    for (size_t d = 0; d < dims; ++d) {
      attrs.stride[d] = 1 + rng.Below(3), attrs.dilation[d] = 1 + rng.Below(2);
      kernel.push_back(1 + rng.Below(3));
      int64_t least = attrs.dilation[d] * (kernel[d] - 1) + 1 - attrs.pad[d] - attrs.pad[d + dims];
      in.push_back(std::max<int64_t>(least, 1 + rng.Below(dims == 3 ? 5 : 8)));
    }
    in.push_back(icg * attrs.groups);
    kernel.insert(kernel.end(), {icg, ocg * attrs.groups});
    EXPECT_EQ(CheckConv(in, kernel, attrs, rng), "") << "case " << i;
  }
}

TEST(ConvTest, AWrongConvolutionIsNoticed) {
  Rng rng(3);
  ConvAttrs attrs{.pad = {1, 0, 1, 2}}, shifted{.pad = {0, 1, 2, 1}};
  EXPECT_NE(CheckConv({1, 5, 5, 2}, {3, 3, 2, 2}, attrs, rng, &shifted), "");
  ConvAttrs dilated{.dilation = {2, 1}, .pad = {1, 1, 1, 1}}, other{.dilation = {1, 2}, .pad = {1, 1, 1, 1}};
  EXPECT_NE(CheckConv({1, 5, 5, 2}, {3, 3, 2, 2}, dilated, rng, &other), "");
  ConvAttrs deep{{1, 1, 1}, {1, 1, 1}, {1, 0, 0, 0, 0, 0}}, shallow{{1, 1, 1}, {1, 1, 1}, {0, 0, 0, 1, 0, 0}};
  EXPECT_EQ(CheckConv({1, 4, 3, 3, 2}, {2, 2, 2, 2, 2}, deep, rng), "");
  EXPECT_NE(CheckConv({1, 4, 3, 3, 2}, {2, 2, 2, 2, 2}, deep, rng, &shallow), "");
}

TEST(ConvTest, ShapesThatDoNotFitAreOurBug) {
  Tensor x = te::Placeholder("x", {1, 4, 4, 3});
  EXPECT_THROW(Conv("c", x, te::Placeholder("w", {3, 3, 4, 2}), {}), InternalError);
  EXPECT_THROW(Conv("c", x, te::Placeholder("w", {5, 5, 3, 2}), {}), InternalError);
  EXPECT_NO_THROW(Conv("c", x, te::Placeholder("w", {3, 3, 3, 2}), {}));
  Tensor solid = te::Placeholder("x", {1, 4, 4, 4, 3}), w = te::Placeholder("w", {3, 3, 3, 3, 2});
  EXPECT_THROW(Conv("c", solid, w, {}), InternalError);  // strides of two dimensions for an image of three
  EXPECT_THROW(WindowAxes("c", {1, 1, 1, 1}), InternalError);
}

// Element-wise operators after a convolution have its collapsed axes: all pixels are one axis, m. Schedules rely on
// this.
TEST(ConvTest, ChainKeepsCollapsedAxes) {
  Tensor x = te::Placeholder("x", {1, 6, 6, 3}), w = te::Placeholder("w", {3, 3, 3, 4});
  Tensor bias = te::Placeholder("bias", {4}), skip = te::Placeholder("skip", {1, 6, 6, 4});
  Tensor conv = Conv("conv", x, w, {.pad = {1, 1, 1, 1}});
  EXPECT_EQ(conv.shape(), (Shape{1, 6, 6, 4}));
  EXPECT_EQ(conv->StoredShape(), (Shape{1, 36, 4}));
  EXPECT_EQ(conv->inputs[0]->name, Name("conv_pad"));
  Tensor y = Relu("relu", Add("add", Add("biased", conv, bias), skip));
  EXPECT_EQ(y->StoredShape(), (Shape{1, 36, 4}));
  PrimFunc f = te::CreatePrimFunc("f", {{x}, {w, ParamRole::kConstant}, {bias}, {skip}, {y, ParamRole::kOutput}});
  EXPECT_EQ(ConstShape(f.params.back().buffer), (Shape{1, 6, 6, 4}));
  std::vector<std::string> blocks;
  Walk(f.body, [&](const Stmt& s) {
    if (const Block* block = s.As<Block>()) {
      blocks.push_back(block->name.str());
      Name m = block->name == Name("conv_pad") ? "v_conv_pad_h" : "v_" + block->name.str() + "_m";
      EXPECT_EQ(block->iters[1].var, m);
    }
    return true;
  });
  EXPECT_EQ(blocks, (std::vector<std::string>{"conv_pad", "conv", "biased", "add", "relu"}));
  Rng rng(4);
  EXPECT_EQ(Mismatch(
                {x, w, bias, skip}, y,
                [&](const std::vector<Array>& a) {
                  Array out = NaiveConv(a[0], a[1], {.pad = {1, 1, 1, 1}});
                  ForEach(out.shape,
                          [&](const Shape& i) { out.at(i) = std::max(0.0, out.at(i) + a[2].at({i[3]}) + a[3].at(i)); });
                  return out;
                },
                rng),
            "");
}

TEST(ConvTest, OnlyWhatIsReadIsPadded) {
  Tensor x = te::Placeholder("x", {1, 4, 4, 1}), w = te::Placeholder("w", {1, 1, 1, 1});
  Tensor conv = Conv("conv", x, w, {.stride = {3, 3}, .pad = {0, 0, 1, 1}});
  EXPECT_EQ(conv->inputs[0].get(), x.get());  // the windows read rows 0 and 3 only, so no padding is needed below
  conv = Conv("conv", x, w, {.stride = {3, 3}, .pad = {1, 1, 0, 0}});
  EXPECT_EQ(conv->inputs[0].shape(), (Shape{1, 4, 4, 1}));  // one row of padding above, then rows 0 to 2
}

// Two convolutions that are not fused: the second indexes the first's logical shape.
TEST(ConvTest, ConvolutionsCompose) {
  Rng rng(5);
  Tensor x = te::Placeholder("x", {1, 4, 5, 2}), w1 = te::Placeholder("w1", {3, 3, 2, 3}),
         w2 = te::Placeholder("w2", {1, 1, 3, 2});
  ConvAttrs pad{.pad = {1, 1, 1, 1}};
  Tensor y = Conv("c2", Conv("c1", x, w1, pad), w2, {});
  auto naive = [&](const std::vector<Array>& a) { return NaiveConv(NaiveConv(a[0], a[1], pad), a[2], {}); };
  EXPECT_EQ(Mismatch({x, w1, w2}, y, naive, rng), "");
  EXPECT_EQ(Mismatch({x, w1, w2}, Conv("c", Conv("c", x, w1, pad), w2, {}), naive, rng), "");  // equal names
}

}  // namespace
}  // namespace autotune::topi
