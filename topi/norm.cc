#include "topi/norm.h"

#include "support/check.h"
#include "topi/elementwise.h"
#include "topi/reduce.h"

namespace autotune::topi {

Tensor Softmax(const std::string& name, const Tensor& x, const std::vector<int>& axes) {
  CHECK(!axes.empty() && x.dtype().IsFloat()) << name;
  constexpr int64_t kWhole = 8;  // several passes (ReduceAxes)
  Tensor max = ReduceAxes(name + "_max", x, axes, te::Combiner::kMax, kWhole);
  Tensor exp =
      Map(name + "_exp", {x, max}, [](const std::vector<Expr>& e) { return MakeCall(Op::kExp, {e[0] - e[1]}); });
  Tensor sum = ReduceAxes(name + "_sum", exp, axes, te::Combiner::kSum, kWhole);
  // One quotient a row, not one an element: divisions are what vector units are slowest at.
  Tensor scale =
      Map(name + "_scale", {sum}, [&](const std::vector<Expr>& e) { return FloatConst(1, x.dtype()) / e[0]; });
  return Mul(name, exp, scale);
}

Tensor Lrn(const std::string& name, const Tensor& x, const LrnAttrs& attrs) {
  CHECK(x.rank() == 4 && x.dtype().IsFloat() && attrs.size > 0) << name;
  int64_t channels = x.shape()[3], before = (attrs.size - 1) / 2;
  DType dtype = x.dtype();
  Tensor sum = te::Reduce(name + "_sum", te::NaturalAxes(x.shape()), {{"k", attrs.size}}, te::Combiner::kSum, {x},
                          [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                            Expr c = i[3] + r[0] - before;
                            Expr inside = And(c >= 0, c < channels);
                            Expr e = MakeSelect(inside, x({i[0], i[1], i[2], c}), ConstOf(0, dtype));
                            return e * e;
                          });
  return Map(name, {x, sum}, [&](const std::vector<Expr>& e) {
    Expr base = e[1] * FloatConst(attrs.alpha / static_cast<double>(attrs.size), dtype) + FloatConst(attrs.bias, dtype);
    if (attrs.beta == 0.75) {
      Expr root = MakeCall(Op::kSqrt, {base});
      return e[0] / (root * MakeCall(Op::kSqrt, {root}));
    }
    return e[0] / MakeCall(Op::kPow, {base, FloatConst(attrs.beta, dtype)});
  });
}

Tensor BatchNorm(const std::string& name, const Tensor& x, const Tensor& scale, const Tensor& bias, const Tensor& mean,
                 const Tensor& variance, double epsilon, int axis) {
  CHECK(axis >= 0 && axis < x.rank()) << name;
  for (const Tensor& t : {scale, bias, mean, variance}) CHECK(t.shape() == Shape{x.shape()[axis]}) << name;
  Shape domain = x->StoredShape();
  return te::Compute(
      name, x->axes, {x, scale, bias, mean, variance},
      [&](const std::vector<Expr>& i) {
        Expr c = te::ReshapeIndices(i, domain, x.shape())[axis];
        Expr deviation = MakeCall(Op::kSqrt, {variance({c}) + FloatConst(epsilon, x.dtype())});
        return (x.AtAxes(i) - mean({c})) / deviation * scale({c}) + bias({c});
      },
      x.shape());
}

}  // namespace autotune::topi
