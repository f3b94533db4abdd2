// The import of convolutions and pools over 1 to 3 dimensions, BatchNormalization in training mode, Resize with a
// cropped region, and Dropout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

// Returns the outputs' elements, or the reason why the model is refused.
Result<std::vector<Numbers>> Computed(const ModelMaker& model, const std::vector<reference::Tensor>& inputs) {
  ImportedModel imported = TRY(Import(model));
  std::vector<Numbers> out;
  for (const reference::Tensor& t : reference::Evaluate(imported.module.main(), inputs)) out.push_back(t.data);
  return out;
}

// Returns a model of one operator on an image with n dimensions of extent 2, and a window that covers the image.
ModelMaker OverDimensions(const std::string& op, size_t n) {
  std::vector<int64_t> window(n, 2), x(n + 2, 2), w(n + 2, 2);
  x[0] = x[1] = w[0] = w[1] = 1;
  ModelMaker m;
  m.Input("x", x).Output("y");
  if (op == "Conv" || op == "ConvTranspose") {
    m.Floats("w", w, std::vector<float>(size_t{1} << n, 1)).Floats("b", {1}, {100});
    m.Node(op, {"x", "w", "b"}, {"y"});
  } else {
    m.Node(op, {"x"}, {"y"}).Ints("kernel_shape", window);
  }
  return m;
}

TEST(ImportWindows, OverOneToThreeDimensions) {
  for (size_t n = 1; n <= 3; ++n) {
    reference::Tensor x{Shape(n + 2, 2), {}};
    x.shape[0] = x.shape[1] = 1;
    for (int i = 0; i < 1 << n; ++i) x.data.push_back(i);
    double last = x.data.back(), sum = last * (last + 1) / 2;
    EXPECT_EQ((*Computed(OverDimensions("Conv", n), {x}))[0], Numbers{sum + 100});
    EXPECT_EQ((*Computed(OverDimensions("MaxPool", n), {x}))[0], Numbers{last});
    EXPECT_EQ((*Computed(OverDimensions("AveragePool", n), {x}))[0], Numbers{last / 2});
    Numbers spread = (*Computed(OverDimensions("ConvTranspose", n), {x}))[0];
    EXPECT_EQ(spread.size(), static_cast<size_t>(std::pow(3, n)));
    EXPECT_EQ(spread[spread.size() / 2], sum + 100);  // the middle element, to which each input element contributes
    EXPECT_EQ(spread.back(), last + 100);
  }
  for (const char* op : {"Conv", "MaxPool", "AveragePool", "ConvTranspose"})
    EXPECT_THAT(ImportError(OverDimensions(op, 4)), HasSubstr("works on 4-D images; only 1-D to 3-D are supported"))
        << op;
}

TEST(ImportWindows, BiasOfAnotherShape) {
  ModelMaker m;
  m.Input("x", {1, 1, 2, 2, 2}).Floats("w", {1, 1, 1, 1, 1}, {1}).Floats("b", {2}, {1, 1}).Output("y");
  m.Node("Conv", {"x", "w", "b"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("bias must have shape [1], not f32[2]"));
}

TEST(ImportMaxPool, Indices) {
  auto model = [](const std::vector<int64_t>& x, const std::vector<int64_t>& kernel, int64_t storage_order) {
    ModelMaker m;
    m.Input("x", x).Output("y").Output("i");
    m.Node("MaxPool", {"x"}, {"y", "i"}).Ints("kernel_shape", kernel).Int("storage_order", storage_order);
    return m;
  };
  const Numbers data = {1, 5, 2, 7, 5, 0, 0, 0, 9, 4, 8, 4};
  for (const Shape& shape : {Shape{1, 2, 2, 3}, Shape{2, 1, 2, 3}}) {
    auto out = *Computed(model(shape, {1, 2}, 0), {{shape, data}});
    EXPECT_EQ(out[0], (Numbers{5, 5, 7, 5, 0, 9, 8, 8}));
    EXPECT_EQ(out[1], (Numbers{1, 1, 3, 4, 6, 8, 10, 10}));
    out = *Computed(model(shape, {1, 2}, 1), {{shape, data}});
    EXPECT_EQ(out[1], (Numbers{2, 2, 1, 3, 6, 10, 9, 9}));
  }
  const Shape solid = {1, 1, 2, 2, 3}, row = {1, 1, 12};
  EXPECT_EQ((*Computed(model(solid, {2, 2, 3}, 0), {{solid, data}}))[1], Numbers{8});
  EXPECT_EQ((*Computed(model(solid, {2, 2, 3}, 1), {{solid, data}}))[1], Numbers{9});  // d + 2 * (h + 2 * w)
  EXPECT_EQ((*Computed(model(row, {12}, 0), {{row, data}}))[1], Numbers{8});
  EXPECT_EQ((*Computed(model(row, {12}, 1), {{row, data}}))[1], Numbers{8});
  EXPECT_THAT(ImportError(model(solid, {2, 2, 3}, 2)), HasSubstr("storage_order must be 0 or 1, not 2"));
}

TEST(ImportBatchNormalization, InTrainingMode) {
  auto model = [](bool training, int64_t channels) {
    ModelMaker m(14);
    m.Input("x", {2, 2, 2}).Floats("scale", {2}, {2, 1}).Floats("bias", {2}, {0, 10}).Output("y");
    m.Floats("mean", {channels}, std::vector<float>(channels, 4)).Floats("variance", {2}, {8, 8});
    m.Node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, {"y", "m", "v"})
        .Int("training_mode", training)
        .Float("epsilon", 0)
        .Float("momentum", 0.5f);
    return m.Output("m").Output("v");
  };
  // The channels have means 3 and 0, variances 4 and 1.
  const reference::Tensor x{{2, 2, 2}, {1, 5, 1, -1, 1, 5, 1, -1}};
  auto out = *Computed(model(true, 2), {x});
  EXPECT_EQ(out[0], (Numbers{-2, 2, 11, 9, -2, 2, 11, 9}));
  EXPECT_EQ(out[1], (Numbers{3.5, 2}));
  EXPECT_EQ(out[2], (Numbers{6, 4.5}));
  EXPECT_THAT(ImportError(model(true, 3)), HasSubstr("statistics must have shape [2], not f32[3]"));
  EXPECT_THAT(ImportError(model(false, 2)), HasSubstr("output 'm' is used, but without training_mode only inference"));
}

TEST(ImportResize, CropsARegion) {
  // Returns a model that crops a region of a row of four elements and resizes it. The region is the input roi.
  auto model = [](const std::vector<float>& roi, const std::vector<int64_t>& sizes, const std::string& mode) {
    ModelMaker m;
    m.Input("x", {1, 4}).Floats("roi", {static_cast<int64_t>(roi.size())}, roi).Output("y");
    m.Ints("sizes", sizes);
    m.Node("Resize", {"x", "roi", "", "sizes"}, {"y"})
        .String("coordinate_transformation_mode", "tf_crop_and_resize")
        .String("mode", mode)
        .Float("extrapolation_value", -7);
    return m;
  };
  const reference::Tensor x{{1, 4}, {0, 30, 60, 90}};
  auto resized = [&](const std::vector<float>& roi, const std::vector<int64_t>& sizes) {
    return (*Computed(model(roi, sizes, "linear"), {x}))[0];
  };
  EXPECT_EQ(resized({0, 0, 1, 1}, {1, 4}), x.data);
  EXPECT_EQ(resized({0, 0, 1, 1}, {1, 7}), (Numbers{0, 15, 30, 45, 60, 75, 90}));
  EXPECT_EQ(resized({0, 0.5, 1, 1}, {1, 4}), (Numbers{45, 60, 75, 90}));
  EXPECT_EQ(resized({0, 0.5, 1, 1.5}, {1, 3}), (Numbers{45, 90, -7}));
  EXPECT_EQ(resized({0, -0.5, 1, 0.5}, {1, 1}), Numbers{0});
  EXPECT_EQ(resized({0, 1, 1, 0}, {1, 4}), (Numbers{90, 60, 30, 0}));
  EXPECT_EQ((*Computed(model({0, 0.5, 1, 1.5}, {1, 3}, "nearest"), {x}))[0], (Numbers{30, 90, -7}));
  EXPECT_THAT(ImportError(model({0, 1}, {1, 4}, "linear")), HasSubstr("roi has 2 numbers, not a start and an end"));
  EXPECT_THAT(ImportError(model({0, INFINITY, 0, 1}, {1, 4}, "linear")),
              HasSubstr("roi holds inf, which is not between -16777216 and 16777216"));
  ModelMaker m;
  m.Input("x", {1, 4}).Input("roi", {4}).Ints("sizes", {1, 4}).Output("y");
  m.Node("Resize", {"x", "roi", "", "sizes"}, {"y"}).String("coordinate_transformation_mode", "tf_crop_and_resize");
  EXPECT_THAT(ImportError(m), HasSubstr("the starts and ends of roi are computed at run time"));
}

// Source positions that are whole numbers must be computed exactly. As (x / 49) * 98, seven of the 50 positions would
// be rounded to just below 2 * x, and nearest_mode floor would pick the element before.
TEST(ImportResize, CropsAtWholePlaces) {
  ModelMaker m;
  m.Input("x", {99}).Floats("roi", {2}, {0, 1}).Ints("sizes", {50}).Output("y");
  m.Node("Resize", {"x", "roi", "", "sizes"}, {"y"})
      .String("coordinate_transformation_mode", "tf_crop_and_resize")
      .String("nearest_mode", "floor");
  reference::Tensor x{{99}, {}};
  Numbers even;
  for (int i = 0; i < 99; ++i) x.data.push_back(i);
  for (int i = 0; i < 50; ++i) even.push_back(2 * i);
  EXPECT_EQ((*Computed(m, {x}))[0], even);
}

// Where an output element depends on one input element only, it is that element: beyond the border, whose two taps have
// the weights 2/3 and 1/3 there, and where a tap has no weight, although its element is infinite. Elsewhere it is
// interpolated, and infinities of both signs make NaN.
TEST(ImportResize, ReadsNoElementWithoutWeight) {
  auto resized = [](const std::string& mode, const std::string& coordinates, int64_t extent, const Numbers& x) {
    ModelMaker m;
    m.Input("x", {static_cast<int64_t>(x.size())}).Ints("sizes", {extent}).Output("y");
    m.Node("Resize", {"x", "", "", "sizes"}, {"y"})
        .String("mode", mode)
        .String("coordinate_transformation_mode", coordinates);
    return (*Computed(m, {{{static_cast<int64_t>(x.size())}, x}}))[0];
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Numbers thrice = resized("linear", "half_pixel", 6, {5, 11});
  EXPECT_EQ((Numbers{thrice[0], thrice[1], thrice[4], thrice[5]}), (Numbers{5, 5, 11, 11}));
  EXPECT_THAT((Numbers{thrice[2], thrice[3]}), Pointwise(DoubleNear(1e-6), Numbers{7, 9}));
  EXPECT_EQ(resized("linear", "align_corners", 3, {1, inf}), (Numbers{1, inf, inf}));
  EXPECT_TRUE(std::isnan(resized("linear", "align_corners", 3, {-inf, inf})[1]));
  const Numbers cubic = resized("cubic", "align_corners", 7, {1, 2, 4, inf});
  EXPECT_EQ((Numbers{cubic[0], cubic[2], cubic[4], cubic[6]}), (Numbers{1, 2, 4, inf}));
  EXPECT_EQ(cubic[1], 1.3125);
}

// The name "" stands for an omitted input or output. So Clip's omitted input does not read the omitted outputs of
// BatchNormalization.
TEST(ImportBatchNormalization, OutputsLeftOutBesideInputsLeftOut) {
  ModelMaker m;
  m.Input("x", {1, 1, 2, 2}).Floats("most", {}, {6}).Floats("s", {1}, {1}).Output("y");
  m.Node("Clip", {"x", "", "most"}, {"c"});
  m.Node("BatchNormalization", {"c", "s", "s", "s", "s"}, {"y", "", ""});
  EXPECT_EQ(ImportError(m), "no error");
}

TEST(ImportMaxPool, IndicesOfTooManyPlanes) {
  ModelMaker m;
  m.Input("x", {1, (1 << 27) + 1, 1, 1}).Output("y").Output("i");
  m.Node("MaxPool", {"x"}, {"y", "i"}).Ints("kernel_shape", {1, 1});
  EXPECT_THAT(ImportError(m), HasSubstr("makes a constant of shape [1,134217729]"));
}

// In ONNX, average pools take only floats, and max pools also take 8-bit integers.
TEST(ImportPools, ElementTypes) {
  auto error = [](const std::string& op, int type) {
    ModelMaker m;
    m.Input("x", {1, 2, 4, 4}, type).Output("y");
    NodeMaker node = m.Node(op, {"x"}, {"y"}, "pool");
    if (!op.starts_with("Global")) node.Ints("kernel_shape", {2, 2});
    return ImportError(m);
  };
  for (const char* op : {"AveragePool", "GlobalAveragePool"}) {
    EXPECT_EQ(error(op, kFloat), "no error");
    EXPECT_EQ(error(op, kDouble), "no error");
    std::string name = op == std::string("AveragePool") ? "avg_pool2d" : "global_avg_pool";
    EXPECT_EQ(error(op, kInt32), "m.onnx cannot be imported: " + std::string(op) +
                                     " (node 'pool'): is for floats, not i32[1,2,4,4] (in " + name + ")");
  }
  EXPECT_EQ(error("MaxPool", kInt8), "no error");
  EXPECT_THAT(error("MaxPool", kBool), HasSubstr("MaxPool (node 'pool'): is for numbers, not bool[1,2,4,4]"));
}

TEST(ImportDropout, DropsNothingOrIsRandom) {
  auto model = [](float ratio, uint8_t training) {
    ModelMaker m;
    m.Input("x", {3}).Floats("ratio", {}, {ratio}).Output("y").Output("mask");
    m.Bytes8("training", {}, {training}, kBool);
    m.Node("Dropout", {"x", "ratio", "training"}, {"y", "mask"});
    return m;
  };
  for (auto [ratio, training] : {std::pair{0.5f, uint8_t{0}}, std::pair{0.0f, uint8_t{1}}}) {
    auto out = *Computed(model(ratio, training), {{{3}, {1, 2, 3}}});
    EXPECT_EQ(out[0], (Numbers{1, 2, 3}));
    EXPECT_EQ(out[1], (Numbers{1, 1, 1}));
  }
  EXPECT_THAT(ImportError(model(0.5f, 1)), HasSubstr("drops elements at random in training mode"));
  ModelMaker m;  // the default ratio is 0.5
  m.Input("x", {3}).Bytes8("training", {}, {1}, kBool).Output("y");
  m.Node("Dropout", {"x", "", "training"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("drops elements at random in training mode"));
}

// The mask has the data's type before operator set 10, and bool from set 10 on.
TEST(ImportDropout, TypeOfTheMask) {
  auto masked = [](int opset) {
    ModelMaker m(opset);
    m.Input("x", {3}).Output("z");
    m.Node("Dropout", {"x"}, {"y", "mask"});
    m.Node("Mul", {"y", "mask"}, {"z"});
    return m;
  };
  EXPECT_EQ((*Computed(masked(9), {{{3}, {1, 2, 3}}}))[0], (Numbers{1, 2, 3}));
  EXPECT_THAT(ImportError(masked(10)), HasSubstr("element types differ"));
}

}  // namespace
}  // namespace autotune::graph
