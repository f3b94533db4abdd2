#include "topi/elementwise.h"

#include <gtest/gtest.h>

#include "ir/interp.h"
#include "tests/topi/operator_check.h"

namespace autotune::topi {
namespace {

using Fn = std::function<double(double, double)>;

Naive Broadcasting(const Shape& shape, const Fn& fn) {
  return [=](const std::vector<Array>& v) {
    Array y(shape);
    ForEach(shape, [&](const Shape& i) {
      auto element = [&](const Array& a) {
        Shape index;
        size_t skip = shape.size() - a.shape.size();
        for (size_t d = 0; d < a.shape.size(); ++d) index.push_back(a.shape[d] == 1 ? 0 : i[skip + d]);
        return a.at(index);
      };
      y.at(i) = fn(element(v[0]), v.size() > 1 ? element(v[1]) : 0);
    });
    return y;
  };
}

TEST(ElementwiseTest, BinaryWithBroadcasting) {
  Rng rng(1);
  struct Row {
    Tensor (*op)(const std::string&, const Tensor&, const Tensor&);
    Fn fn;
  };
  const Row rows[] = {{Add, [](double a, double b) { return a + b; }},
                      {Sub, [](double a, double b) { return a - b; }},
                      {Mul, [](double a, double b) { return a * b; }},
                      {Maximum, [](double a, double b) { return std::max(a, b); }},
                      {Minimum, [](double a, double b) { return std::min(a, b); }}};
  const std::pair<Shape, Shape> shapes[] = {{{2, 3, 4, 5}, {5}}, {{2, 3, 4, 5}, {2, 3, 4, 5}},
                                            {{4, 1}, {1, 3}},    {{1, 1, 1, 5}, {2, 3, 4, 5}},
                                            {{3}, {1}},          {{2, 1, 3}, {4, 1}}};
  for (const Row& row : rows) {
    for (const auto& [sa, sb] : shapes) {
      Tensor a = te::Placeholder("a", sa), b = te::Placeholder("b", sb);
      Shape shape;
      ASSERT_TRUE(te::BroadcastShapes(sa, sb, &shape));
      Tensor y = row.op("y", a, b);
      EXPECT_EQ(Mismatch({a, b}, y, Broadcasting(shape, row.fn), rng), "");
      EXPECT_NE(Mismatch({a, b}, y, Broadcasting(shape, [&](double p, double q) { return row.fn(p, q) + 1; }), rng),
                "");
    }
  }
  EXPECT_THROW(Add("y", te::Placeholder("a", {2, 3}), te::Placeholder("b", {2})), InternalError);
}

TEST(ElementwiseTest, DivisionByPowersOfTwoIsExact) {
  Rng rng(2);
  Tensor a = te::Placeholder("a", {3, 4});
  Tensor y = Div("y", a, te::Splat({}, 4));
  EXPECT_EQ(Mismatch({a}, y, Broadcasting({3, 4}, [](double p, double) { return p / 4; }), rng), "");
}

TEST(ElementwiseTest, Unary) {
  Rng rng(3);
  Shape shape = {2, 3, 3};
  Tensor x = te::Placeholder("x", shape);
  auto check = [&](const Tensor& y, const std::function<double(double)>& fn, double tolerance) {
    EXPECT_EQ(Mismatch({x}, y, Broadcasting(shape, [&](double a, double) { return fn(a); }), rng, {tolerance}), "");
    EXPECT_NE(Mismatch({x}, y, Broadcasting(shape, [&](double a, double) { return fn(a) + 0.1; }), rng, {tolerance}),
              "");
  };
  check(
      Relu("y", x), [](double a) { return std::max(a, 0.0); }, 0);
  check(
      Clip("y", x, -2, 3), [](double a) { return std::min(std::max(a, -2.0), 3.0); }, 0);
  check(
      Clip("y", x, -INFINITY, 1), [](double a) { return std::min(a, 1.0); }, 0);
  check(
      Clip("y", x, 0, INFINITY), [](double a) { return std::max(a, 0.0); }, 0);
  check(
      LeakyRelu("y", x, 0.25), [](double a) { return a < 0 ? a / 4 : a; }, 0);
  check(
      Neg("y", x), [](double a) { return -a; }, 0);
  check(
      Identity("y", x), [](double a) { return a; }, 0);
  check(
      ApplyOp("y", Op::kSigmoid, x), [](double a) { return 1 / (1 + std::exp(-a)); }, 1e-5);
  check(
      ApplyOp("y", Op::kTanh, x), [](double a) { return std::tanh(a); }, 1e-5);
  check(
      ApplyOp("y", Op::kAbs, x), [](double a) { return std::abs(a); }, 0);
  check(
      CastTo("y", CastTo("i", x, DType::Int(32)), DType::Float(32)), [](double a) { return a; }, 0);
}

TEST(ElementwiseTest, Bits) {
  Tensor a = te::Placeholder("a", {5}, DType::UInt(8)), b = te::Placeholder("b", {5}, DType::UInt(8));
  auto run = [&](const Tensor& y) {
    PrimFunc f = te::CreatePrimFunc("f", {{a}, {b}, {y, ParamRole::kOutput}});
    std::vector<InterpArray> args = {
        {a.dtype(), {5}, {0, 255, 6, 129, 200}}, {b.dtype(), {5}, {0, 1, 3, 7, 8}}, {y.dtype(), {5}, {9, 9, 9, 9, 9}}};
    EXPECT_TRUE(Interpret(f, args).ok());
    return args[2].data;
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(run(And("y", a, b)), (Numbers{0, 1, 2, 1, 8}));
  EXPECT_EQ(run(Or("y", a, b)), (Numbers{0, 255, 7, 135, 200}));
  EXPECT_EQ(run(Xor("y", a, b)), (Numbers{0, 254, 5, 134, 192}));
  EXPECT_EQ(run(Add("y", Not("z", a), b)), (Numbers{255, 1, 252, 133, 63}));
  EXPECT_EQ(run(ShiftLeft("y", a, b)), (Numbers{0, 254, 48, 128, 0}));  // the last shift is by the type's width
  EXPECT_EQ(run(ShiftRight("y", a, b)), (Numbers{0, 127, 0, 1, 0}));
}

TEST(ElementwiseTest, NanPassesThroughReluAndClip) {
  Tensor x = te::Placeholder("x", {2});
  for (const Tensor& y : {Relu("y", x), Clip("y", x, -1, 1)}) {
    PrimFunc f = te::CreatePrimFunc("f", {{x}, {y, ParamRole::kOutput}});
    std::vector<InterpArray> args = {{x.dtype(), {2}, {NAN, -5}}, {x.dtype(), {2}, {0, 0}}};
    ASSERT_TRUE(Interpret(f, args).ok());
    EXPECT_TRUE(std::isnan(args[1].data[0]));
    EXPECT_FALSE(std::isnan(args[1].data[1]));
  }
}

TEST(ElementwiseTest, SumOfMany) {
  Rng rng(4);
  Tensor a = te::Placeholder("a", {2, 3}), b = te::Placeholder("b", {3});
  Tensor y = Sum("y", {a, b, a, te::Splat({1}, 7)});
  EXPECT_EQ(Mismatch({a, b}, y, Broadcasting({2, 3}, [](double p, double q) { return p + q + p + 7; }), rng), "");
}

}  // namespace
}  // namespace autotune::topi
