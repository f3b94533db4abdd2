#include "te/tensor.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "ir/combiner.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune::te {
namespace {

void CheckExtents(const std::string& name, const Shape& shape) {
  for (int64_t extent : shape) CHECK(extent > 0) << "tensor " << name << " has extent " << extent;
}

std::vector<Expr> ToExprs(const Shape& shape) { return {shape.begin(), shape.end()}; }

Shape Extents(const std::vector<Axis>& axes) {
  Shape shape;
  for (const Axis& axis : axes) shape.push_back(axis.extent);
  return shape;
}

// Makes the buffer if it is absent. CHECKs that every load is of an input and that every variable is an axis.
Tensor Finish(std::unique_ptr<TensorCell> cell) {
  CheckExtents(cell->name.str(), cell->shape);
  Shape stored = cell->StoredShape();
  CHECK(Product(stored) == Product(cell->shape)) << "tensor " << cell->name.str() << ": axes do not cover the shape";
  if (!cell->splat && !cell->buffer) cell->buffer = Buffer::Make(cell->name, cell->dtype, ToExprs(stored));
  for (const Part& part : cell->parts) {
    if (part.program) continue;
    CHECK(part.body.dtype() == cell->dtype) << "tensor " << cell->name.str() << ": parts of different dtypes";
    CHECK(part.store.size() == stored.size());
    CHECK(part.in_place || part.combiner.has_value() == !part.reduce_axes.empty());
    CheckExtents(cell->name.str(), Extents(part.axes));
    CheckExtents(cell->name.str(), Extents(part.reduce_axes));
    auto is_axis = [&](const Name& name) {
      auto named = [&](const Axis& axis) { return axis.name == name; };
      return std::any_of(part.axes.begin(), part.axes.end(), named) ||
             std::any_of(part.reduce_axes.begin(), part.reduce_axes.end(), named);
    };
    auto is_input = [&](const Buffer& buffer) {
      if (part.in_place && buffer.get() == cell->buffer.get()) return true;
      return std::any_of(cell->inputs.begin(), cell->inputs.end(),
                         [&](const Tensor& t) { return t->buffer.get() == buffer.get(); });
    };
    auto check = [&](const Expr& e) {
      if (const Load* load = e.As<Load>()) {
        CHECK(is_input(load->buffer)) << cell->name.str() << " loads " << load->buffer->name.str()
                                      << ", which is not among its inputs";
      }
      if (const Var* var = e.As<Var>()) CHECK(is_axis(var->name)) << cell->name.str() << " uses " << var->name.str();
      return true;
    };
    Walk(part.body, check);
    for (const Expr& index : part.store) Walk(index, check);
  }
  return Tensor(cell.release());
}

std::unique_ptr<TensorCell> NewCell(const std::string& name, DType dtype, const Shape& shape,
                                    const std::vector<Axis>& axes) {
  auto cell = std::make_unique<TensorCell>();
  cell->name = name;
  cell->dtype = dtype;
  cell->shape = shape;
  cell->axes = axes;
  return cell;
}

Tensor MakeComputed(const std::string& name, const std::vector<Axis>& axes, const std::vector<Tensor>& inputs,
                    const Shape& shape, Part part) {
  part.axes = axes;
  part.store = AxisVars(axes);
  std::unique_ptr<TensorCell> cell = NewCell(name, part.body.dtype(), shape.empty() ? Extents(axes) : shape, axes);
  cell->inputs = inputs;
  cell->parts.push_back(std::move(part));
  return Finish(std::move(cell));
}

}  // namespace

Expr IdentityOf(Combiner combiner, DType dtype) {
  constexpr BinaryOp kOps[] = {BinaryOp::kAdd, BinaryOp::kMul, BinaryOp::kMax, BinaryOp::kMin};
  return autotune::IdentityOf(kOps[static_cast<int>(combiner)], dtype);
}

const Shape& Tensor::shape() const { return get()->shape; }
DType Tensor::dtype() const { return get()->dtype; }
Shape TensorCell::StoredShape() const { return Extents(axes); }

Expr Tensor::operator()(const std::vector<Expr>& indices) const {
  return AtAxes(ReshapeIndices(indices, shape(), get()->StoredShape()));
}

Expr Tensor::AtAxes(const std::vector<Expr>& axes) const {
  CHECK(axes.size() == get()->axes.size());
  if (get()->splat) return ConstOf(*get()->splat, dtype());
  return MakeLoad(get()->buffer, axes);
}

Tensor Placeholder(const std::string& name, const Shape& shape, DType dtype) {
  return Finish(NewCell(name, dtype, shape, NaturalAxes(shape)));
}

Tensor Splat(const Shape& shape, double value, DType dtype) {
  std::unique_ptr<TensorCell> cell = NewCell("splat", dtype, shape, NaturalAxes(shape));
  cell->splat = value;
  return Finish(std::move(cell));
}

Tensor Compute(const std::string& name, const std::vector<Axis>& axes, const std::vector<Tensor>& inputs,
               const AxisFn& fn, const Shape& shape) {
  return MakeComputed(name, axes, inputs, shape, Part{.body = fn(AxisVars(axes))});
}

Tensor Reduce(const std::string& name, const std::vector<Axis>& axes, const std::vector<Axis>& reduce_axes,
              Combiner combiner, const std::vector<Tensor>& inputs, const ReduceFn& fn, const Shape& shape) {
  CHECK(!reduce_axes.empty());
  Part part{.reduce_axes = reduce_axes, .combiner = combiner, .body = fn(AxisVars(axes), AxisVars(reduce_axes))};
  return MakeComputed(name, axes, inputs, shape, std::move(part));
}

Tensor Assemble(const std::string& name, const Shape& shape, const std::vector<Tensor>& inputs, std::vector<Part> parts,
                const Buffer& own) {
  CHECK(!parts.empty());
  std::unique_ptr<TensorCell> cell = NewCell(name, parts[0].body.dtype(), shape, NaturalAxes(shape));
  cell->inputs = inputs;
  cell->buffer = own;
  cell->parts = std::move(parts);
  return Finish(std::move(cell));
}

Tensor Program(const std::string& name, const std::vector<Axis>& axes, const std::vector<Tensor>& inputs,
               const Shape& shape, DType dtype, const std::vector<Buffer>& scratch, const ProgramFn& fn) {
  std::unique_ptr<TensorCell> cell = NewCell(name, dtype, shape, NaturalAxes(shape));
  cell->inputs = inputs;
  cell->buffer = Buffer::Make(cell->name, dtype, ToExprs(shape));
  Part part{.axes = axes, .scratch = scratch};
  part.program = fn(AxisVars(axes), cell->buffer, scratch);
  cell->parts.push_back(std::move(part));
  return Finish(std::move(cell));
}

Tensor Annotated(const Tensor& t, const std::string& key, int64_t value) {
  std::unique_ptr<TensorCell> cell = NewCell(t->name.str(), t->dtype, t->shape, t->axes);
  cell->buffer = t->buffer;
  cell->inputs = t->inputs;
  cell->parts = t->parts;
  cell->splat = t->splat;
  for (Part& part : cell->parts) part.annotations[key] = value;
  return Tensor(cell.release());
}

std::vector<Axis> NaturalAxes(const Shape& shape) {
  static constexpr const char* kImage[] = {"n", "h", "w", "c"};
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i) {
    axes.push_back({shape.size() == 4 ? Name(kImage[i]) : Name("i" + std::to_string(i)), shape[i]});
  }
  return axes;
}

std::vector<Expr> AxisVars(const std::vector<Axis>& axes) {
  std::vector<Expr> vars;
  for (const Axis& axis : axes) vars.push_back(IndexVar(axis.name));
  return vars;
}

}  // namespace autotune::te
