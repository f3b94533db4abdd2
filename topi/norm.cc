#include "topi/norm.h"

#include <algorithm>
#include <functional>

#include "support/check.h"
#include "topi/elementwise.h"
#include "topi/reduce.h"

namespace autotune::topi {

namespace {

// Computes fn(x, row) for each element of x and the element of `row` that belongs to it; `row` has extent 1 along the
// reduced dimensions `axes`. If the dimensions behind the reduced ones have fewer than 16 elements (`side_by_side`), a
// loop over them would be too short for vectors. Then all dimensions from the first reduced one on are one axis of the
// nest, and its element e uses element e % side_by_side of `row`.
Tensor MapRows(const std::string& name, const Tensor& x, const Tensor& row, const std::vector<int>& axes,
               const std::function<Expr(const Expr& x, const Expr& row)>& fn) {
  const Shape& shape = x.shape();
  const int first = *std::min_element(axes.begin(), axes.end()), last = *std::max_element(axes.begin(), axes.end());
  const Shape tail(shape.begin() + first, shape.end()), inner(shape.begin() + last + 1, shape.end());
  const int64_t side_by_side = te::Product(inner), length = te::Product(tail);
  const bool together = te::Product(row.shape()) * length == te::Product(shape) * side_by_side;
  if (!together || side_by_side == 1 || side_by_side >= kShortestRow || length < kShortestRow)
    return Map(name, {x, row}, [&](const std::vector<Expr>& e) { return fn(e[0], e[1]); });
  std::vector<te::Axis> nest = te::NaturalAxes(shape);
  nest.resize(first);
  nest.push_back({"e", length});
  return te::Compute(
      name, nest, {x, row},
      [&](const std::vector<Expr>& i) {
        std::vector<Expr> at(i.begin(), i.end() - 1), of = at;
        of.resize(last + 1, Expr(0));
        for (Expr& e : te::ReshapeIndices({i.back()}, {length}, tail)) at.push_back(std::move(e));
        for (Expr& e : te::ReshapeIndices({FloorMod(i.back(), side_by_side)}, {side_by_side}, inner))
          of.push_back(std::move(e));
        return fn(x(at), row(of));
      },
      shape);
}

}  // namespace

SoftmaxFactors FactorsOfSoftmax(const std::string& name, const Tensor& x, const std::vector<int>& axes) {
  CHECK(!axes.empty() && x.dtype().IsFloat()) << name;
  constexpr int64_t kWhole = 8;  // lanes are a multiple of it (ReduceAxes)
  Tensor max = ReduceAxes(name + "_max", x, axes, te::Combiner::kMax, kWhole);
  Tensor exp = MapRows(name + "_exp", x, max, axes,
                       [](const Expr& e, const Expr& most) { return MakeCall(Op::kExpOfNegative, {e - most}); });
  Tensor sum = ReduceAxes(name + "_sum", exp, axes, te::Combiner::kSum, kWhole);
  // Divides once per row instead of once per element, since divisions are slow.
  Tensor scale =
      Map(name + "_scale", {sum}, [&](const std::vector<Expr>& e) { return FloatConst(1, x.dtype()) / e[0]; });
  return {exp, scale};
}

Tensor Softmax(const std::string& name, const Tensor& x, const std::vector<int>& axes) {
  const SoftmaxFactors f = FactorsOfSoftmax(name, x, axes);
  return MapRows(name, f.exp, f.scale, axes, [](const Expr& e, const Expr& factor) { return e * factor; });
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

}  // namespace autotune::topi
