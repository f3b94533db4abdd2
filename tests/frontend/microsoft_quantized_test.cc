// Operators of com.microsoft on quantized tensors, compared with numbers computed from their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::graph {
namespace {

using testing::HasSubstr;

// A quantized tensor's scale and zero point.
struct Steps {
  double scale = 1;
  int zero = 0;
  double Floats(double x) const { return (x - zero) * scale; }
};
double Quantized(double y, const Steps& steps, bool is_signed) {
  const double low = is_signed ? -128 : 0;
  return std::clamp(std::nearbyint(y / steps.scale) + steps.zero, low, low + 255);
}

// Adds the scale and the zero point of tensor `name` as constants.
void Add(ModelMaker& m, const std::string& name, const Steps& steps, int type) {
  m.Floats(name + "_scale", {}, {static_cast<float>(steps.scale)});
  m.Bytes8(name + "_zero", {}, {static_cast<uint8_t>(steps.zero)}, type);
}

NodeMaker Node(ModelMaker& m, const std::string& op, const std::vector<std::string>& inputs) {
  m.Output("y").ImportDomain("com.microsoft");
  return m.Node(op, inputs, {"y"}).Domain("com.microsoft");
}

constexpr Steps kA = {0.25, 3}, kB = {0.5, 7}, kY = {0.75, 5};

// An operator with the inputs a, a's steps, and the steps of the result. `zeros`: false without zero points.
ModelMaker OfOne(
    const std::string& op, const std::vector<int64_t>& shape, int type,
    const std::function<void(NodeMaker&)>& change = [](NodeMaker&) {}, bool zeros = true) {
  ModelMaker m(21);
  m.Input("a", shape, type);
  Add(m, "a", kA, type);
  Add(m, "y", kY, type);
  NodeMaker node = Node(m, op, {"a", "a_scale", zeros ? "a_zero" : "", "y_scale", zeros ? "y_zero" : ""});
  change(node);
  return m;
}

TEST(MicrosoftQuantized, SumsAndProducts) {
  const Numbers a = {0, 3, 100, 255, 17, 60}, b = {7, 0, 255, 255, 90, 1};
  for (const bool is_signed : {false, true}) {
    const int type = is_signed ? kInt8 : kUInt8;
    for (const bool product : {false, true}) {
      ModelMaker m(21);
      m.Input("a", {2, 3}, type).Input("b", {2, 3}, type);
      for (const auto& [name, steps] : {std::pair{"a", kA}, {"b", kB}, {"y", kY}}) Add(m, name, steps, type);
      Node(m, product ? "QLinearMul" : "QLinearAdd",
           {"a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"});
      Numbers x = a, z = b, want;
      for (size_t i = 0; i < x.size(); ++i) {
        if (is_signed) x[i] -= 128, z[i] -= 128;
        const double p = kA.Floats(x[i]), q = kB.Floats(z[i]);
        want.push_back(Quantized(product ? p * q : p + q, kY, is_signed));
      }
      EXPECT_EQ(Output(m, {x, z}), want) << (product ? "product" : "sum") << " of " << (is_signed ? "i8" : "u8");
    }
  }
}

TEST(MicrosoftQuantized, Activations) {
  const Numbers a = {0, 3, 100, 255, 1, 60};
  Numbers leaky, sigmoid, without_zeros;
  for (double x : a) {
    const double v = kA.Floats(x);
    leaky.push_back(Quantized(v < 0 ? 0.5 * v : v, kY, false));
    sigmoid.push_back(Quantized(Sigmoid(v), kY, false));
    without_zeros.push_back(Quantized(x * kA.scale, {kY.scale, 0}, false));
  }
  const auto alpha = [](NodeMaker& node) { node.Float("alpha", 0.5f); };
  EXPECT_EQ(Output(OfOne("QLinearLeakyRelu", {6}, kUInt8, alpha), {a}), leaky);
  EXPECT_EQ(Output(OfOne("QLinearSigmoid", {6}, kUInt8), {a}), sigmoid);
  EXPECT_EQ(Output(OfOne("QLinearLeakyRelu", {6}, kUInt8, alpha, false), {a}), without_zeros);
}

TEST(MicrosoftQuantized, Pools) {
  const Numbers a = {0, 10, 20, 30, 100, 110, 120, 255};
  const auto mean = [&](std::initializer_list<int> places) {
    double sum = 0;
    for (int i : places) sum += kA.Floats(a[static_cast<size_t>(i)]);
    return Quantized(sum / static_cast<double>(places.size()), kY, false);
  };
  EXPECT_EQ(Output(OfOne("QLinearGlobalAveragePool", {1, 2, 2, 2}, kUInt8), {a}),
            (Numbers{mean({0, 1, 2, 3}), mean({4, 5, 6, 7})}));
  const auto window = [](NodeMaker& node) { node.Ints("kernel_shape", {1, 2}).Ints("strides", {1, 2}); };
  EXPECT_EQ(Output(OfOne("QLinearAveragePool", {1, 1, 2, 4}, kUInt8, window), {a}),
            (Numbers{mean({0, 1}), mean({2, 3}), mean({4, 5}), mean({6, 7})}));
  const auto last = [](NodeMaker& node) { node.Int("channels_last", 1); };
  EXPECT_THAT(ImportError(OfOne("QLinearGlobalAveragePool", {1, 2, 2, 2}, kUInt8, last)),
              HasSubstr("channels_last is not supported"));
  EXPECT_THAT(ImportError(OfOne("QLinearGlobalAveragePool", {2, 2}, kUInt8)), HasSubstr("is no image"));
}

TEST(MicrosoftQuantized, Concatenations) {
  const auto model = [](const std::vector<std::string>& operands) {
    ModelMaker m(21);
    m.Input("a", {1, 2}, kUInt8).Input("b", {1, 2}, kUInt8);
    for (const auto& [name, steps] : {std::pair{"a", kA}, {"b", kB}, {"y", kY}}) Add(m, name, steps, kUInt8);
    std::vector<std::string> inputs = {"y_scale", "y_zero"};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    Node(m, "QLinearConcat", inputs).Int("axis", 1);
    return m;
  };
  const Numbers a = {3, 200}, b = {7, 50};
  Numbers want;
  for (double x : a) want.push_back(Quantized(kA.Floats(x), kY, false));
  for (double x : b) want.push_back(Quantized(kB.Floats(x), kY, false));
  EXPECT_EQ(Output(model({"a", "a_scale", "a_zero", "b", "b_scale", "b_zero"}), {a, b}), want);
  EXPECT_THAT(ImportError(model({"a", "a_scale", "a_zero", "b"})), HasSubstr("needs a scale and a zero point"));
}

// A product of 2 x 4 and 4 x 3 numbers, with a scale and a zero point for each column of b.
TEST(MicrosoftQuantized, Products) {
  const Numbers a = {0, 3, 100, 255, 17, 60, 1, 9};
  const std::vector<uint8_t> b = {7, 0, 255, 251, 90, 1, 128, 130, 5, 6, 7, 8};  // as i8
  const std::vector<float> columns = {0.5f, 0.25f, 1};
  const int zeros[] = {1, -2, 0}, bias[] = {10, -300, 7};
  for (const bool quantized : {false, true}) {
    for (const bool transposed : {false, true}) {
      ModelMaker m(21);
      m.Input("a", {2, 4}, kUInt8).Floats("b_scale", {3}, columns).Bytes8("b_zero", {3}, {1, 0xfe, 0}, kInt8);
      Add(m, "a", kA, kUInt8);
      Add(m, "y", kY, kUInt8);
      std::vector<uint8_t> turned = b;
      for (size_t i = 0; i < b.size() && transposed; ++i) turned[i % 3 * 4 + i / 3] = b[i];
      m.Bytes8("b", transposed ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4, 3}, turned, kInt8);
      m.Input("c", {3}, kInt32);
      std::vector<std::string> inputs = {"a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "c"};
      if (quantized) inputs.insert(inputs.end(), {"y_scale", "y_zero"});
      Node(m, "QGemm", inputs).Int("transB", transposed ? 1 : 0).Float("alpha", 2);
      Numbers want;
      for (size_t row = 0; row < 2; ++row) {
        for (size_t column = 0; column < 3; ++column) {
          double sum = bias[column];
          for (size_t k = 0; k < 4; ++k)
            sum += (a[row * 4 + k] - kA.zero) * (static_cast<int8_t>(b[k * 3 + column]) - zeros[column]);
          sum *= 2 * kA.scale * columns[column];
          want.push_back(quantized ? Quantized(sum, kY, false) : sum);
        }
      }
      EXPECT_EQ(Output(m, {a, {10, -300, 7}}), want) << quantized << transposed;
    }
  }
}

TEST(MicrosoftQuantized, RefusesScalesOfWrongShape) {
  ModelMaker m(21);
  m.Input("a", {4}, kUInt8).Floats("many", {4}, {1, 2, 3, 4});
  Add(m, "y", kY, kUInt8);
  Node(m, "QLinearSigmoid", {"a", "many", "", "y_scale", "y_zero"});
  EXPECT_THAT(ImportError(m), HasSubstr("a scale or zero point must be one number, not f32[4]"));
}

}  // namespace
}  // namespace autotune::graph
