#include "te/error_bound.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/interp.h"
#include "te/create_prim_func.h"
#include "te/reference.h"

namespace autotune::te {
namespace {

constexpr double kUnit = kRoundings * 0x1p-24;

using Numbers = std::vector<double>;

Tensor DotProduct(const Tensor& a, const Tensor& b) {
  return Reduce("dot", {{"m", 1}}, {{"k", 3}}, Combiner::kSum, {a, b},
                [&](const std::vector<Expr>&, const std::vector<Expr>& r) { return a({r[0]}) * b({r[0]}); });
}

// Returns the value of the function's one output element and its bound.
std::pair<double, double> Bounded(const PrimFunc& f, const std::vector<Numbers>& inputs) {
  const auto bounded = ToBoundedReference(f);
  EXPECT_TRUE(bounded);
  std::vector<InterpArray> args;
  for (const Numbers& x : inputs) args.push_back({DType::Float(32), {static_cast<int64_t>(x.size())}, x});
  for (int i = 0; i < 2; ++i) args.push_back({DType::Float(32), {1}, Numbers(1)});
  const Status status = Interpret(*bounded, args, {});
  EXPECT_TRUE(status.ok()) << status.error().Text();
  return {args[inputs.size()].data[0], args[inputs.size() + 1].data[0]};
}

TEST(ErrorBound, OfASumFollowsItsTermsNotItsValue) {
  const Tensor a = Placeholder("a", {3}), b = Placeholder("b", {3});
  const PrimFunc f = CreatePrimFunc("f", {{a}, {b}, {DotProduct(a, b), ParamRole::kOutput}}, {.use_fma = true});
  const auto [value, bound] = Bounded(f, {{1e6, -1e6, 3}, {2, 2, 1}});
  EXPECT_EQ(value, 3);
  EXPECT_NEAR(bound / (kUnit * (4e6 + 3)), 1, 1e-6);
  EXPECT_NEAR(Bounded(f, {{1, 2, 3}, {2, 2, 1}}).second / (kUnit * 9), 1, 1e-6);  // no large term, no large bound
  EXPECT_FALSE(std::isfinite(Bounded(f, {{INFINITY, 2, 3}, {2, 2, 1}}).second));
}

TEST(ErrorBound, OfFunctionsFollowsTheirSlope) {
  const Tensor a = Placeholder("a", {3}), b = Placeholder("b", {3}), dot = DotProduct(a, b);
  auto of = [&](const std::function<Expr(const Expr&)>& function, const Numbers& x) {
    const Tensor y = Compute("y", dot->axes, {dot}, [&](const std::vector<Expr>& i) { return function(dot(i)); });
    return Bounded(CreatePrimFunc("f", {{a}, {b}, {y, ParamRole::kOutput}}), {x, {1, 1, 1}});
  };
  // 1 + erf(x) cancels for negative x: its error is that of erf, not of the small result.
  auto gelu = [](const Expr& x) { return x * (FloatConst(1) + MakeCall(Op::kErf, {x})); };
  const auto [value, bound] = of(gelu, {-1, -1, -2});
  EXPECT_LT(std::fabs(value), 1e-6);
  EXPECT_GT(bound, kUnit);
  EXPECT_LT(bound, 8 * kUnit);
  // sigmoid is flat at 40: the error of the sum vanishes.
  auto sigmoid = [](const Expr& x) { return MakeCall(Op::kSigmoid, {x}); };
  EXPECT_LT(of(sigmoid, {20, 10, 10}).second, 1.01 * kUnit);
  EXPECT_GT(of(sigmoid, {1000, -1000, 0}).second, 100 * kUnit);
  auto root = [](const Expr& x) { return MakeCall(Op::kSqrt, {x}); };
  EXPECT_NEAR(of(root, {1000, -1000, 0}).second, std::sqrt(4000 * kUnit), 1e-3);  // a product and a sum round each term
}

TEST(ErrorBound, IsUnknownForStepsAndUnknownOperations) {
  const Tensor x = Placeholder("x", {4});
  auto known = [&](const std::function<Expr(const Expr&)>& f) {
    const Tensor y = Compute("y", x->axes, {x}, [&](const std::vector<Expr>& i) { return f(x(i)); });
    return ToBoundedReference(CreatePrimFunc("f", {{x}, {y, ParamRole::kOutput}})).has_value();
  };
  EXPECT_TRUE(known([](const Expr& e) { return MakeCall(Op::kExp, {e}) / (e + e); }));
  EXPECT_FALSE(known([](const Expr& e) { return MakeCall(Op::kTan, {e}); }));
  EXPECT_FALSE(known([](const Expr& e) { return MakeCall(Op::kRound, {e}); }));
}

}  // namespace
}  // namespace autotune::te
