// Operators that sort, scatter, select by constants, or read images at computed positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using reference::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

ModelMaker TopK(int opset, const std::vector<int64_t>& shape, int64_t k, int64_t axis, bool largest) {
  ModelMaker m(opset);
  m.Input("x", shape).Output("v").Output("i");
  if (opset >= 10) m.Ints("k", {k});
  NodeMaker node =
      m.Node("TopK", opset >= 10 ? std::vector<std::string>{"x", "k"} : std::vector<std::string>{"x"}, {"v", "i"}, "t");
  node.Int("axis", axis);
  if (opset < 10) node.Int("k", k);
  if (opset >= 11) node.Int("largest", largest);
  return m;
}

// Two boxes overlap and a third is apart. In the second class only one box scores above the threshold.
ModelMaker Suppressing(const std::string& threshold, int64_t most = 2) {
  ModelMaker m(11);
  m.Input("boxes", {1, 3, 4}).Input("scores", {1, 2, 3}).Ints("most", {most}).Floats("iou", {1}, {0.5f});
  m.Floats("score", {1}, {0.4f}).Output("selected");
  m.Node("NonMaxSuppression", {"boxes", "scores", "most", "iou", threshold}, {"selected"});
  return m;
}

TEST(NonMaxSuppression, TheMostBoxesAreStated) {
  const std::vector<Numbers> inputs = {{0, 0, 1, 1, 0, 0.1, 1, 1.1, 5, 5, 6, 6}, {0.6, 0.9, 0.5, 0.1, 0.2, 0.7}};
  ImportOptions options;
  options.dims = {{"selected", 5}};
  auto selected = [&](const std::string& threshold) {
    Result<ImportedModel> imported = Import(Suppressing(threshold), options);
    if (!imported.ok()) return Numbers{};
    EXPECT_THAT(imported->notes, ElementsAre(HasSubstr("selected, has 4 rows; the rows after the last selected box")));
    const Graph& g = imported->module.main();
    return reference::Evaluate(g,
                               {{{1, 3, 4}, inputs[0], DType::Float(32)}, {{1, 2, 3}, inputs[1], DType::Float(32)}})[0]
        .data;
  };
  EXPECT_EQ(selected("score"), (Numbers{0, 0, 1, 0, 0, 2, 0, 1, 2, -1, -1, -1}));
  EXPECT_EQ(selected(""), (Numbers{0, 0, 1, 0, 0, 2, 0, 1, 2, 0, 1, 1}));
  // Exporters write the largest integer for "all boxes".
  Result<ImportedModel> all = Import(Suppressing("score", std::numeric_limits<int64_t>::max()), options);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->module.main().Spec(all->module.main().outputs[0]).shape, (Shape{5, 3}));
  EXPECT_THAT(ImportError(Suppressing("score")), HasSubstr("state the largest number with --dim selected=100"));
  options.dims = {{"selected", 0}};
  EXPECT_EQ(Outputs(Suppressing("score"), inputs, options)[0].shape, (Shape{0, 3}));
  options.dims = {{"chosen", 5}};
  EXPECT_THAT(ImportError(Suppressing("score"), options), HasSubstr("--dim names 'chosen'"));
}

TEST(Selection, TopKOfEveryOperatorSet) {
  const Numbers x = {3, 1, 2, 5, 5, 0};
  for (int opset : {1, 9, 10, 11, 24, 28}) {
    auto y = Outputs(TopK(opset, {2, 3}, 2, -1, true), {x});
    EXPECT_THAT(y[0].data, ElementsAre(3, 2, 5, 5)) << opset;
    EXPECT_THAT(y[1].data, ElementsAre(0, 2, 0, 1)) << opset;
  }
  auto y = Outputs(TopK(11, {2, 3}, 1, 0, false), {x});
  EXPECT_THAT(y[0].data, ElementsAre(3, 1, 0));
  EXPECT_THAT(y[1].data, ElementsAre(0, 0, 1));
  EXPECT_THAT(ImportError(TopK(11, {2, 3}, 4, 1, true)), HasSubstr("TopK (node 't'): takes 4 of 3 elements"));
  EXPECT_THAT(ImportError(TopK(11, {2, 3}, 1, 2, true)), HasSubstr("axis 2 is outside"));
  ModelMaker open(11);
  open.Input("x", {3}).Input("k", {1}, kInt64).Output("v").Node("TopK", {"x", "k"}, {"v", "i"});
  EXPECT_THAT(ImportError(open), HasSubstr("K is computed at run time; it must be a constant"));
}

ModelMaker Scatter(const char* op, int opset, const char* reduction, const std::vector<int64_t>& places = {2, 2}) {
  ModelMaker m(opset);
  m.Input("x", {3, 2}).Input("i", places, kInt64).Input("u", {2, 2}).Output("y");
  NodeMaker node = m.Node(op, {"x", "i", "u"}, {"y"}, "s");
  if (reduction) node.String("reduction", reduction);
  return m;
}

TEST(Selection, ScatteredElements) {
  const Numbers x = {1, 2, 3, 4, 5, 6}, places = {0, -1, 0, 1}, updates = {10, 20, 30, 40};
  for (auto [op, opset] : {std::pair{"Scatter", 9}, {"ScatterElements", 11}, {"ScatterElements", 28}})
    EXPECT_THAT(Outputs(Scatter(op, opset, nullptr), {x, places, updates})[0].data, ElementsAre(30, 2, 3, 40, 5, 20));
  EXPECT_THAT(Outputs(Scatter("ScatterElements", 16, "add"), {x, places, updates})[0].data,
              ElementsAre(41, 2, 3, 44, 5, 26));
  EXPECT_THAT(Outputs(Scatter("ScatterElements", 16, "mul"), {x, places, updates})[0].data,
              ElementsAre(300, 2, 3, 160, 5, 120));
  EXPECT_THAT(Outputs(Scatter("ScatterElements", 18, "max"), {x, places, updates})[0].data,
              ElementsAre(30, 2, 3, 40, 5, 20));
  EXPECT_THAT(Outputs(Scatter("ScatterElements", 18, "min"), {x, places, updates})[0].data,
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(ImportError(Scatter("ScatterElements", 16, "max")),
              HasSubstr("ScatterElements (node 's'): reduction 'max' is not supported in operator set 16"));
  EXPECT_THAT(ImportError(Scatter("ScatterElements", 18, "xor")), HasSubstr("reduction 'xor' is not supported"));
  EXPECT_THAT(ImportError(Scatter("ScatterElements", 18, "add", {2, 1})), HasSubstr("differ in shape"));
  EXPECT_THAT(ImportError(Scatter("Scatter", 8, nullptr)), HasSubstr("is supported in operator sets"));
}

TEST(Selection, ScatteredSlices) {
  ModelMaker m(16);
  m.Input("x", {3, 2}).Input("i", {2, 1}, kInt64).Input("u", {2, 2}).Output("y");
  m.Node("ScatterND", {"x", "i", "u"}, {"y"}).String("reduction", "add");
  EXPECT_THAT(Outputs(m, {{1, 2, 3, 4, 5, 6}, {-1, 2}, {10, 20, 30, 40}})[0].data, ElementsAre(1, 2, 3, 4, 45, 66));
  ModelMaker deep(16);
  deep.Input("x", {3, 2}).Input("i", {2, 2}, kInt64).Input("u", {2}).Output("y");
  deep.Node("ScatterND", {"x", "i", "u"}, {"y"});
  EXPECT_THAT(Outputs(deep, {{1, 2, 3, 4, 5, 6}, {1, 0, 0, -1}, {10, 20}})[0].data, ElementsAre(1, 20, 10, 4, 5, 6));
  ModelMaker wrong(16);
  wrong.Input("x", {3, 2}).Input("i", {2, 1}, kInt64).Input("u", {2, 3}).Output("y");
  wrong.Node("ScatterND", {"x", "i", "u"}, {"y"}, "s");
  EXPECT_THAT(ImportError(wrong), HasSubstr("ScatterND (node 's'): updates must have shape [2,2], not f32[2,3]"));
  ModelMaker none(16);
  none.Input("x", {0, 3}).Input("i", {2, 1}, kInt64).Input("u", {2, 3}).Output("y");
  none.Node("ScatterND", {"x", "i", "u"}, {"y"}, "s");
  EXPECT_THAT(ImportError(none), HasSubstr("ScatterND (node 's'): updates elements of f32[0,3], which has none"));
}

TEST(Selection, ConstantsDecideShapes) {
  ModelMaker m(13);
  m.Ints("x", {3, 0, 3, 1, 0, 3}).Output("y").Output("i").Output("inverse").Output("counts").Output("zeros");
  m.Node("Unique", {"x"}, {"y", "i", "inverse", "counts"});
  m.Node("NonZero", {"x"}, {"zeros"});
  auto y = Outputs(m, {});
  EXPECT_THAT(y[0].data, ElementsAre(0, 1, 3));
  EXPECT_THAT(y[1].data, ElementsAre(1, 3, 0));
  EXPECT_THAT(y[2].data, ElementsAre(2, 0, 2, 1, 0, 2));
  EXPECT_THAT(y[3].data, ElementsAre(2, 1, 3));
  EXPECT_THAT(y[4].data, ElementsAre(0, 2, 3, 5));
  ModelMaker slices(13);
  slices.Floats("x", {3, 2}, {5, 6, 1, 2, 5, 6}).Output("y");
  slices.Node("Unique", {"x"}, {"y"}).Int("axis", 0).Int("sorted", 0);
  EXPECT_THAT(Outputs(slices, {})[0].data, ElementsAre(5, 6, 1, 2));
  for (const char* op : {"Unique", "NonZero"}) {
    ModelMaker open(13);
    open.Input("x", {3}).Output("y").Node(op, {"x"}, {"y"}, "n");
    EXPECT_THAT(ImportError(open), HasSubstr(std::string(op) + " (node 'n'): has a result whose shape depends on"));
  }
}

// The pool holds the 1-grams 2 and 3 and the 2-grams (5, 4), (5, 6) and (7, 8).
ModelMaker Ngrams(const char* mode, int64_t shortest, int64_t skips) {
  ModelMaker m(9);
  m.Input("x", {12}, kInt64).Output("y");
  m.Node("TfIdfVectorizer", {"x"}, {"y"}, "n")
      .String("mode", mode)
      .Int("min_gram_length", shortest)
      .Int("max_gram_length", 2)
      .Int("max_skip_count", skips)
      .Ints("ngram_counts", {0, 2})
      .Ints("ngram_indexes", {4, 1, 2, 3, 0})
      .Ints("pool_int64s", {2, 3, 5, 4, 5, 6, 7, 8})
      .Floats("weights", {2, 3, 4, 5, 6});
  return m;
}

TEST(Selection, SequencesOfAPool) {
  const Numbers x = {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8};
  EXPECT_THAT(Outputs(Ngrams("TF", 1, 0), {x})[0].data, ElementsAre(1, 3, 0, 1, 0));
  EXPECT_THAT(Outputs(Ngrams("TF", 2, 5), {x})[0].data,
              ElementsAre(3, 0, 0, 1, 0));  // with skips, (7, 8) occurs 3 times
  EXPECT_THAT(Outputs(Ngrams("IDF", 1, 0), {x})[0].data, ElementsAre(6, 3, 0, 5, 0));
  EXPECT_THAT(Outputs(Ngrams("TFIDF", 1, 0), {x})[0].data, ElementsAre(6, 9, 0, 5, 0));
  EXPECT_THAT(ImportError(Ngrams("DF", 1, 0)), HasSubstr("TfIdfVectorizer (node 'n'): mode 'DF' is not one of"));
  EXPECT_THAT(ImportError(Ngrams("TF", 3, 0)), HasSubstr("min_gram_length, max_gram_length"));
}

TEST(Selection, Determinants) {
  ModelMaker m(11);
  m.Input("x", {2, 2, 2}).Output("y").Node("Det", {"x"}, {"y"});
  EXPECT_THAT(Outputs(m, {{0, 2, 3, 4, 1, 2, 2, 4}})[0].data, ElementsAre(-6, 0));
  ModelMaker wide(11);
  wide.Input("x", {2, 3}).Output("y").Node("Det", {"x"}, {"y"}, "d");
  EXPECT_THAT(ImportError(wide), HasSubstr("Det (node 'd'): needs square matrices, not f32[2,3]"));
}

// Samples a row of four pixels with the values 1 to 4 at the given position.
double Sampled(double position, const char* mode, const char* outside, bool align) {
  ModelMaker m(20);
  m.Floats("x", {1, 1, 1, 4}, {1, 2, 3, 4}).Input("g", {1, 1, 1, 2}).Output("y");
  m.Node("GridSample", {"x", "g"}, {"y"})
      .String("mode", mode)
      .String("padding_mode", outside)
      .Int("align_corners", align);
  return Outputs(m, {{position, 0}})[0].data[0];
}

TEST(Sampling, PositionsAndPixelsOutside) {
  EXPECT_NEAR(Sampled(-1, "linear", "zeros", true), 1, 1e-6);
  EXPECT_NEAR(Sampled(0, "linear", "zeros", true), 2.5, 1e-6);
  EXPECT_NEAR(Sampled(-1, "linear", "zeros", false), 0.5, 1e-6);  // half of the first pixel
  EXPECT_NEAR(Sampled(-1, "linear", "border", false), 1, 1e-6);
  EXPECT_NEAR(Sampled(1.75, "linear", "zeros", false), 0, 1e-6);
  EXPECT_NEAR(Sampled(1.5, "nearest", "reflection", false), 4, 1e-6);  // pixel 4.5 rounds to 4, mirrored to 3
  EXPECT_NEAR(Sampled(2, "linear", "reflection", true), 2.5, 1e-6);    // pixel 4.5 mirrored to 1.5
  EXPECT_NEAR(Sampled(0, "nearest", "zeros", true), 3, 1e-6);          // pixel 1.5 rounds to even
  EXPECT_NEAR(Sampled(0, "cubic", "border", true), 2.5, 1e-6);
  EXPECT_NEAR(Sampled(-1. / 3, "cubic", "zeros", true), 2, 1e-6);
  ModelMaker m(16);
  m.Input("x", {1, 1, 2, 2}).Input("g", {1, 1, 1, 3}).Output("y").Node("GridSample", {"x", "g"}, {"y"}, "g");
  EXPECT_THAT(ImportError(m), HasSubstr("GridSample (node 'g'): the grid [1,1,1,3] does not fit the image"));
  ModelMaker mode(16);
  mode.Input("x", {1, 1, 2, 2}).Input("g", {1, 1, 1, 2}).Output("y");
  mode.Node("GridSample", {"x", "g"}, {"y"}).String("mode", "best");
  EXPECT_THAT(ImportError(mode), HasSubstr("mode 'best' is not one of"));
}

TEST(Sampling, ImagesWithoutElementsAreRefused) {
  for (const Shape& shape : {Shape{0, 1, 2, 2}, Shape{1, 0, 2, 2}, Shape{1, 1, 0, 2}, Shape{1, 1, 2, 0}}) {
    ModelMaker grid(16);
    grid.Input("x", shape).Input("g", {shape[0], 1, 1, 2}).Output("y").Node("GridSample", {"x", "g"}, {"y"}, "g");
    EXPECT_THAT(ImportError(grid), HasSubstr("GridSample (node 'g'): the image f32[")) << shape[0];
    ModelMaker align(16);
    align.Input("x", shape).Input("r", {1, 4}).Input("b", {1}, kInt64).Output("y");
    align.Node("RoiAlign", {"x", "r", "b"}, {"y"}, "r").Int("sampling_ratio", 1);
    EXPECT_THAT(ImportError(align), HasSubstr("RoiAlign (node 'r'): the image f32["));
  }
}

ModelMaker RoiAlign(int ratio, bool constant) {
  ModelMaker m(16);
  m.Input("x", {1, 1, 4, 4}).Output("y");
  if (constant) {
    m.Floats("r", {1, 4}, {0, 0, 4, 4});
  } else {
    m.Input("r", {1, 4});
  }
  m.Input("b", {1}, kInt64);
  m.Node("RoiAlign", {"x", "r", "b"}, {"y"}, "r")
      .Int("output_height", 2)
      .Int("output_width", 2)
      .Int("sampling_ratio", ratio);
  return m;
}

TEST(Sampling, Regions) {
  Numbers x(16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  // Each bin has 2 x 2 pixels; the results are their averages.
  EXPECT_THAT(Outputs(RoiAlign(2, true), {x, {0}})[0].data, Near(Numbers{2.5, 4.5, 10.5, 12.5}));
  EXPECT_THAT(Outputs(RoiAlign(0, true), {x, {0}})[0].data, Near(Numbers{2.5, 4.5, 10.5, 12.5}));
  EXPECT_THAT(Outputs(RoiAlign(2, false), {x, {0, 0, 4, 4}, {0}})[0].data, Near(Numbers{2.5, 4.5, 10.5, 12.5}));
  EXPECT_THAT(ImportError(RoiAlign(0, false)),
              HasSubstr("RoiAlign (node 'r'): with sampling_ratio 0 the regions must be constants"));
  ModelMaker m(1);
  m.Input("x", {1, 1, 4, 4}).Floats("r", {2, 5}, {0, 0, 0, 3, 3, 0, 5, 5, 6, 6}).Output("y");
  m.Node("MaxRoiPool", {"x", "r"}, {"y"}).Ints("pooled_shape", {2, 2});
  EXPECT_THAT(Outputs(m, {x})[0].data, ElementsAre(5, 7, 13, 15, 0, 0, 0, 0));  // the second region lies outside
}

TEST(Sampling, ColumnsAndPools) {
  ModelMaker m(18);
  m.Input("x", {1, 4, 4}).Ints("image", {3, 3}).Ints("block", {2, 2}).Output("y");
  m.Node("Col2Im", {"x", "image", "block"}, {"y"});
  EXPECT_THAT(Outputs(m, {Numbers(16, 1)})[0].data, ElementsAre(1, 2, 1, 2, 4, 2, 1, 2, 1));
  ModelMaker wrong(18);
  wrong.Input("x", {1, 4, 5}).Ints("image", {3, 3}).Ints("block", {2, 2}).Output("y");
  wrong.Node("Col2Im", {"x", "image", "block"}, {"y"}, "c");
  EXPECT_THAT(ImportError(wrong), HasSubstr("Col2Im (node 'c'): columns [1,4,5] do not fit an image [3,3]"));
  ModelMaker pool(11);
  pool.Input("x", {1, 1, 1, 2}).Input("i", {1, 1, 1, 2}, kInt64).Output("y");
  pool.Node("MaxUnpool", {"x", "i"}, {"y"}).Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2});
  EXPECT_THAT(Outputs(pool, {{7, 8}, {5, 2}})[0].data, ElementsAre(0, 0, 8, 0, 0, 7, 0, 0));
}

// With zero offsets, DeformConv is a convolution.
TEST(Sampling, DeformedConvolution) {
  ModelMaker m(19);
  m.Input("x", {1, 2, 3, 3}).Floats("w", {2, 1, 2, 2}, {1, 2, 3, 4, 1, 0, 0, 1}).Input("o", {1, 8, 2, 2}).Output("y");
  m.Node("DeformConv", {"x", "w", "o"}, {"y"}).Int("group", 2);
  Numbers x(18), offsets(32, 0);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  EXPECT_THAT(Outputs(m, {x, offsets})[0].data, Near(Numbers{27, 37, 57, 67, 22, 24, 28, 30}));
  // These offsets move all columns by one pixel, so the last column reads outside the image.
  for (size_t i = 4; i < offsets.size(); ++i) offsets[i] = i / 4 % 2 ? 1 : 0;
  EXPECT_THAT(Outputs(m, {x, offsets})[0].data, Near(Numbers{37, 17, 67, 29, 24, 11, 30, 14}));
}

Numbers NaiveDft(const Numbers& x, int64_t n, bool complex, bool inverse, int64_t kept) {
  Numbers out;
  for (int64_t k = 0; k < kept; ++k) {
    std::complex<double> sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const std::complex<double> v = complex ? std::complex<double>(x[2 * i], x[2 * i + 1]) : x[i];
      sum += v * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(i * k % n) / n);
    }
    if (inverse) sum /= static_cast<double>(n);
    out.insert(out.end(), {sum.real(), sum.imag()});
  }
  return out;
}

TEST(Spectral, TransformsOfAnyLength) {
  Rng rng(3);
  for (int64_t n : {1, 2, 5, 64, 66, 97, 256, 500}) {  // by a table, in two stages or in three
    for (bool complex : {false, true}) {
      for (bool inverse : {false, true}) {
        for (bool one_sided : {false, true}) {
          if (one_sided && (complex || inverse)) continue;
          ModelMaker m(20);
          m.Input("x", {1, n, complex ? 2 : 1}).Output("y");
          m.Node("DFT", {"x"}, {"y"}).Int("inverse", inverse).Int("onesided", one_sided);
          Numbers x(complex ? 2 * n : n);
          for (double& v : x) v = rng.Normal();
          const Numbers want = NaiveDft(x, n, complex, inverse, one_sided ? n / 2 + 1 : n);
          ASSERT_THAT(Outputs(m, {x})[0].data, Near(want)) << n;
        }
      }
    }
  }
}

TEST(Spectral, RealInverseAndLengths) {
  for (int64_t n : {6, 7}) {
    ModelMaker m(20);
    m.Input("x", {1, n / 2 + 1, 2}).Ints("n", {n}).Output("y");
    m.Node("DFT", {"x", "n"}, {"y"}).Int("inverse", 1).Int("onesided", 1);
    const Numbers x = {1, -2, 3, 0.5, 0, 2, 1};
    const Numbers spectrum = NaiveDft(x, n, false, false, n / 2 + 1);
    EXPECT_THAT(Outputs(m, {spectrum})[0].data, Near(Numbers(x.begin(), x.begin() + n)));
  }
  ModelMaker padded(17);
  padded.Input("x", {1, 3, 1}).Ints("n", {4}).Output("y").Node("DFT", {"x", "n"}, {"y"}).Int("axis", 1);
  EXPECT_THAT(Outputs(padded, {{1, 2, 3}})[0].data, Near(NaiveDft({1, 2, 3, 0}, 4, false, false, 4)));
  ModelMaker wrong(20);
  wrong.Input("x", {1, 3, 2}).Output("y").Node("DFT", {"x"}, {"y"}, "d").Int("onesided", 1);
  EXPECT_THAT(ImportError(wrong), HasSubstr("DFT (node 'd'): onesided takes real input"));
  ModelMaker parts(20);
  parts.Input("x", {1, 3, 3}).Output("y").Node("DFT", {"x"}, {"y"});
  EXPECT_THAT(ImportError(parts), HasSubstr("whose last dimension is 1 (real) or 2 (complex)"));
}

TEST(Spectral, Windows) {
  ModelMaker m(17);
  m.Ints("n", {4}).Output("a").Output("b").Output("c");
  m.Node("HannWindow", {"n"}, {"a"});
  m.Node("HammingWindow", {"n"}, {"b"}).Int("periodic", 0);
  m.Node("BlackmanWindow", {"n"}, {"c"}).Int("output_datatype", 11);
  auto y = Outputs(m, {});
  EXPECT_THAT(y[0].data, Near(Numbers{0, 0.5, 1, 0.5}));
  const double low = 25. / 46 + 21. / 46 / 2;
  EXPECT_THAT(y[1].data, Near(Numbers{4. / 46, low, low, 4. / 46}));
  EXPECT_THAT(y[2].data, Near(Numbers{0, 0.34, 1, 0.34}));
}

TEST(Quantized, ConvolutionsOfIntegers) {
  ModelMaker m(10);
  m.Input("x", {1, 1, 2, 2}, kUInt8).Input("w", {2, 1, 1, 1}, kInt8).Input("z", {}, kUInt8).Input("wz", {2}, kInt8);
  m.Output("y").Node("ConvInteger", {"x", "w", "z", "wz"}, {"y"});
  EXPECT_THAT(Outputs(m, {{0, 10, 20, 255}, {2, -3}, {10}, {0, 1}})[0].data,
              ElementsAre(-20, 0, 20, 490, 40, 0, -40, -980));
  ModelMaker q(10);
  q.Input("x", {1, 1, 1, 2}, kUInt8).Floats("xs", {}, {0.5f}).Input("z", {}, kUInt8);
  q.Input("w", {2, 1, 1, 1}, kInt8).Floats("ws", {2}, {1, 2}).Input("wz", {}, kInt8);
  q.Floats("ys", {}, {1}).Input("yz", {}, kUInt8).Input("b", {2}, kInt32).Output("y");
  q.Node("QLinearConv", {"x", "xs", "z", "w", "ws", "wz", "ys", "yz", "b"}, {"y"});
  // The result is (x - 2) * w + b, times 0.5 for the first channel and 1 for the second, plus 3, clamped to [0, 255].
  EXPECT_THAT(Outputs(q, {{4, 250}, {2}, {3, -1}, {0}, {3}, {2, 1}})[0].data, ElementsAre(7, 255, 2, 0));
}

}  // namespace
}  // namespace autotune::graph
