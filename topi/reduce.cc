#include "topi/reduce.h"

#include <algorithm>

#include "support/check.h"

namespace autotune::topi {
namespace {

constexpr int64_t kMostLanes = 48;  // combined side by side along a row: some vectors, in registers of any target
constexpr int64_t kLanes = 32;      // of a row that they do not divide
constexpr int64_t kLanesLeft = 8;   // and then one vector

// Dimensions from here on are those reduced; -1 if others lie between.
int FirstTrailing(const Tensor& x, const std::vector<int>& axes) {
  int first = x.rank() - static_cast<int>(axes.size());
  return std::all_of(axes.begin(), axes.end(), [&](int d) { return d >= first; }) ? first : -1;
}

// Combines rows of n elements: element k * lanes + l goes to lane l, so that lanes are vectors; then the lanes.
Tensor RowsReduced(const std::string& name, const Tensor& x, int first, te::Combiner combiner, int64_t whole) {
  const Shape &shape = x.shape(), tail(shape.begin() + first, shape.end());
  std::vector<te::Axis> kept = te::NaturalAxes(shape);
  kept.resize(first);
  int64_t n = te::Product(tail), lanes = kMostLanes;
  while (lanes > 0 && n % lanes != 0) lanes -= whole;
  if (lanes == 0) lanes = kLanes;  // and a tail
  auto with = [](std::vector<te::Axis> axes, const te::Axis& last) {
    axes.push_back(last);
    return axes;
  };
  auto upper = [&](const std::vector<Expr>& i) { return std::vector<Expr>(i.begin(), i.begin() + first); };
  Tensor part = te::Reduce(name + "_lanes", with(kept, {"l", lanes}), {{"k", (n + lanes - 1) / lanes}}, combiner, {x},
                           [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                             Expr at = r[0] * lanes + i[first];
                             std::vector<Expr> index = upper(i);
                             for (Expr& e : te::ReshapeIndices({at}, {n}, tail)) index.push_back(std::move(e));
                             if (n % lanes == 0) return x(index);
                             return MakeSelect(at < n, x(index), te::IdentityOf(combiner, x.dtype()));
                           });
  if (lanes > kLanesLeft) {
    part = te::Reduce(name + "_fold", with(kept, {"l", kLanesLeft}), {{"k", lanes / kLanesLeft}}, combiner, {part},
                      [&, wide = part](const std::vector<Expr>& i, const std::vector<Expr>& r) {
                        std::vector<Expr> index = upper(i);
                        index.push_back(r[0] * kLanesLeft + i[first]);
                        return wide(index);
                      });
  }
  Shape out = shape;
  std::fill(out.begin() + first, out.end(), 1);
  return te::Reduce(
      name, kept, {{"l", kLanesLeft}}, combiner, {part},
      [&](const std::vector<Expr>& i, const std::vector<Expr>& r) {
        std::vector<Expr> index = i;
        index.push_back(r[0]);
        return part(index);
      },
      out);
}

// fn gets the full subscripts of an element of x.
Tensor Reduced(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
               const std::vector<Tensor>& inputs, const std::function<Expr(const std::vector<Expr>&)>& fn) {
  std::vector<te::Axis> kept, reduced, natural = te::NaturalAxes(x.shape());
  Shape shape = x.shape();
  auto is_reduced = [&](int d) { return std::find(axes.begin(), axes.end(), d) != axes.end(); };
  for (int d = 0; d < x.rank(); ++d) {
    (is_reduced(d) ? reduced : kept).push_back(natural[d]);
    if (is_reduced(d)) shape[d] = 1;
  }
  CHECK(!axes.empty() && reduced.size() == axes.size()) << name << ": axes out of range or twice";
  return te::Reduce(
      name, kept, reduced, combiner, inputs,
      [&](const std::vector<Expr>& k, const std::vector<Expr>& r) {
        std::vector<Expr> index;
        size_t next_kept = 0, next_reduced = 0;
        for (int d = 0; d < x.rank(); ++d) index.push_back(is_reduced(d) ? r[next_reduced++] : k[next_kept++]);
        return fn(index);
      },
      shape);
}

}  // namespace

Tensor ReduceAxes(const std::string& name, const Tensor& x, const std::vector<int>& axes, te::Combiner combiner,
                  int64_t whole) {
  constexpr int64_t kShort = 2 * kLanesLeft;  // rows not worth the trouble
  int64_t n = 1;
  for (int d : axes) n *= x.shape()[d];
  if (int first = FirstTrailing(x, axes); first >= 0 && n >= kShort)
    return RowsReduced(name, x, first, combiner, whole);
  return Reduced(name, x, axes, combiner, {x}, [&](const std::vector<Expr>& i) { return x(i); });
}

Tensor ArgReduce(const std::string& name, const Tensor& x, int axis, bool largest, bool last) {
  CHECK(axis >= 0 && axis < x.rank()) << name;
  const DType index_type = DType::Int(64);
  Tensor best = ReduceAxes(name + "_best", x, {axis}, largest ? te::Combiner::kMax : te::Combiner::kMin);
  int64_t end = x.shape()[axis] - 1;
  return Reduced(name, x, {axis}, last ? te::Combiner::kMax : te::Combiner::kMin, {x, best},
                 [&](const std::vector<Expr>& i) {
                   std::vector<Expr> at = i;
                   at[axis] = 0;
                   Expr other = IntConst(last ? 0 : end, index_type);
                   return MakeSelect(Eq(x(i), best(at)), MakeCast(index_type, i[axis]), other);
                 });
}

}  // namespace autotune::topi
