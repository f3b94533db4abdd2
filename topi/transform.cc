#include "topi/transform.h"

#include <algorithm>

#include "support/check.h"

namespace autotune::topi {

Tensor Concat(const std::string& name, const std::vector<Tensor>& inputs, int axis) {
  CHECK(!inputs.empty() && axis >= 0 && axis < inputs[0].rank()) << name;
  Shape shape = inputs[0].shape();
  shape[axis] = 0;
  std::vector<te::Part> parts;
  std::vector<Tensor> loaded;
  for (const Tensor& t : inputs) {
    Shape expected = shape, extents = t.shape();
    CHECK(extents.size() == shape.size()) << name;
    expected[axis] = extents[axis];
    CHECK(extents == expected && t.dtype() == inputs[0].dtype()) << name << ": inputs differ beyond the axis";
    te::Part part{.suffix = "_" + std::to_string(parts.size()), .axes = te::NaturalAxes(extents)};
    std::vector<Expr> vars = te::AxisVars(part.axes);
    part.body = t(vars);
    part.store = vars;
    part.store[axis] = vars[axis] + shape[axis];
    parts.push_back(std::move(part));
    shape[axis] += extents[axis];
    if (!t->splat) loaded.push_back(t);
  }
  return te::Assemble(name, shape, loaded, std::move(parts));
}

Tensor Transpose(const std::string& name, const Tensor& x, const std::vector<int>& perm) {
  CHECK(static_cast<int>(perm.size()) == x.rank()) << name;
  Shape shape;
  for (size_t i = 0; i < perm.size(); ++i) {
    CHECK(std::count(perm.begin(), perm.end(), static_cast<int>(i)) == 1) << name << ": not a permutation";
    shape.push_back(x.shape()[perm[i]]);
  }
  return te::Compute(name, te::NaturalAxes(shape), {x}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> index(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) index[perm[d]] = i[d];
    return x(index);
  });
}

Tensor Reshape(const std::string& name, const Tensor& x, const Shape& shape) {
  CHECK(te::Product(shape) == te::Product(x.shape())) << name << ": another number of elements";
  return te::Compute(
      name, x->axes, {x}, [&](const std::vector<Expr>& i) { return x.AtAxes(i); }, shape);
}

namespace {

// Adds elements behind the last dimension of x, whose other dimensions have fewer loops than dimensions, such as those
// of a batch of products. The result has these loops, too, so that a kernel can have one loop over rows for all of
// them.
Tensor PadRows(const std::string& name, const Tensor& x, int64_t after, double value) {
  std::vector<te::Axis> axes = x->axes;
  Shape shape = x.shape();
  const int64_t length = shape.back();
  axes.back().extent = shape.back() = length + after;
  return te::Compute(
      name, axes, {x},
      [&](const std::vector<Expr>& i) { return MakeSelect(i.back() < length, x.AtAxes(i), ConstOf(value, x.dtype())); },
      shape);
}

}  // namespace

Tensor Pad(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, double value,
           const Shape& interior) {
  CHECK(before.size() == x.shape().size() && after.size() == x.shape().size()) << name;
  CHECK(interior.empty() || interior.size() == x.shape().size()) << name;
  Shape shape = x.shape();
  auto step = [&](size_t d) { return interior.empty() ? 1 : interior[d] + 1; };
  for (size_t d = 0; d < shape.size(); ++d) {
    CHECK(before[d] >= 0 && after[d] >= 0 && step(d) > 0) << name;
    shape[d] = (shape[d] - 1) * step(d) + 1 + before[d] + after[d];
  }
  Shape behind = x.shape();  // x with the elements behind its last dimension alone
  if (!behind.empty()) behind.back() += after.back();
  if (shape == behind && !x->parts.empty() && x->axes.size() < shape.size() && !x->axes.empty() &&
      x->axes.back().extent == x.shape().back())
    return PadRows(name, x, after.back(), value);
  return te::Compute(name, te::NaturalAxes(shape), {x}, [&](const std::vector<Expr>& i) {
    Expr inside;
    std::vector<Expr> index;
    auto require = [&](const Expr& c) { inside = inside ? And(inside, c) : c; };
    for (size_t d = 0; d < i.size(); ++d) {
      Expr at = i[d] - before[d];
      index.push_back(FloorDiv(at, step(d)));
      if (before[d] > 0) require(at >= 0);
      if (after[d] > 0) require(at < (x.shape()[d] - 1) * step(d) + 1);
      if (step(d) > 1) require(Eq(FloorMod(at, step(d)), 0));
    }
    return inside ? MakeSelect(inside, x(index), ConstOf(value, x.dtype())) : x(index);
  });
}

Tensor PadFromInside(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, bool reflect) {
  CHECK(before.size() == x.shape().size() && after.size() == x.shape().size()) << name;
  Shape shape = x.shape();
  for (size_t d = 0; d < shape.size(); ++d) {
    CHECK(before[d] >= 0 && after[d] >= 0) << name;
    CHECK(!reflect || (before[d] < shape[d] && after[d] < shape[d])) << name;
    shape[d] += before[d] + after[d];
  }
  return te::Compute(name, te::NaturalAxes(shape), {x}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> index;
    for (size_t d = 0; d < i.size(); ++d) {
      Expr at = i[d] - before[d];
      int64_t last = x.shape()[d] - 1;
      if (before[d] > 0) at = Max(at, reflect ? Expr(before[d]) - i[d] : Expr(0));
      if (after[d] > 0) at = Min(at, reflect ? Expr(2 * last + before[d]) - i[d] : Expr(last));
      index.push_back(at);
    }
    return x(index);
  });
}

Tensor Slice(const std::string& name, const Tensor& x, const Shape& begin, const Shape& extent, const Shape& step) {
  CHECK(begin.size() == x.shape().size() && extent.size() == begin.size() && step.size() == begin.size()) << name;
  for (size_t d = 0; d < begin.size(); ++d) {
    int64_t last = begin[d] + (extent[d] - 1) * step[d];
    CHECK(begin[d] >= 0 && begin[d] < x.shape()[d] && last >= 0 && last < x.shape()[d]) << name << ": out of range";
  }
  return te::Compute(name, te::NaturalAxes(extent), {x}, [&](const std::vector<Expr>& i) {
    std::vector<Expr> index;
    for (size_t d = 0; d < i.size(); ++d) index.push_back(i[d] * step[d] + begin[d]);
    return x(index);
  });
}

Tensor BroadcastTo(const std::string& name, const Tensor& x, const Shape& shape) {
  Shape result;
  CHECK(te::BroadcastShapes(x.shape(), shape, &result) && result == shape) << name;
  std::vector<Tensor> loaded;
  if (!x->splat) loaded.push_back(x);
  return te::Compute(name, te::NaturalAxes(shape), loaded,
                     [&](const std::vector<Expr>& i) { return x(te::BroadcastIndices(i, shape, x.shape())); });
}

Expr Subscript(const Expr& element, int64_t extent) {
  Expr e = MakeCast(DType::Index(), element);
  e = MakeSelect(e < 0, e + extent, e);
  return Max(0, Min(e, extent - 1));
}

namespace {

std::vector<Tensor> Stored(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    if (!t->splat) out.push_back(t);
  }
  return out;
}

}  // namespace

Tensor Gather(const std::string& name, const Tensor& x, const Tensor& indices, int axis) {
  CHECK(axis >= 0 && axis < x.rank() && indices.dtype().IsInt()) << name;
  const Shape &data = x.shape(), &inner = indices.shape();
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), inner.begin(), inner.end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  return te::Compute(name, te::NaturalAxes(shape), Stored({x, indices}), [&](const std::vector<Expr>& i) {
    auto first = i.begin() + axis, rest = first + indices.rank();
    std::vector<Expr> index(i.begin(), first);
    index.push_back(Subscript(indices(std::vector<Expr>(first, rest)), data[axis]));
    index.insert(index.end(), rest, i.end());
    return x(index);
  });
}

Tensor GatherElements(const std::string& name, const Tensor& x, const Tensor& indices, int axis) {
  CHECK(axis >= 0 && axis < x.rank() && indices.rank() == x.rank() && indices.dtype().IsInt()) << name;
  return te::Compute(name, te::NaturalAxes(indices.shape()), Stored({x, indices}), [&](const std::vector<Expr>& i) {
    std::vector<Expr> index = i;
    index[axis] = Subscript(indices(i), x.shape()[axis]);
    return x(index);
  });
}

}  // namespace autotune::topi
