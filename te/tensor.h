// Tensor expressions: each element of a tensor as a formula over other tensors, without order, storage or parallelism.
// Values (handles to immutable cells); thread-safe. te/create_prim_func.h makes programs of them.
//
// A tensor has a logical `shape`, which its consumers index, and *axes*, the iterators of the loop nest that computes
// it. Usually they are the same; they may also be another grouping of the same row-major order, as for a convolution of
// shape [N, OH, OW, OC] that is computed over the axes (n, m, oc) with m over OH*OW. An intermediate tensor is stored
// in the shape of its axes; a parameter has its logical shape. Extents are positive constants.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "te/index.h"

namespace autotune::te {

struct TensorCell;

struct Axis {
  Name name;  // short ("n", "oc"); made unique in the function by the block's name
  int64_t extent = 1;
};

enum class Combiner : uint8_t { kSum, kProd, kMax, kMin };
Expr IdentityOf(Combiner combiner, DType dtype);  // 0, 1, lowest (-inf), highest (inf)

// A Tensor is a placeholder (a parameter), a splat (one constant everywhere: never stored), or computed by parts.
class Tensor : public Ref<TensorCell> {
 public:
  using Ref::Ref;
  const TensorCell* operator->() const { return get(); }
  const Shape& shape() const;
  DType dtype() const;
  int rank() const { return static_cast<int>(shape().size()); }
  // The element at these subscripts of the logical shape.
  Expr operator()(const std::vector<Expr>& indices) const;
  // The element at these values of the axes.
  Expr AtAxes(const std::vector<Expr>& axes) const;
};

// One block: a perfect nest over `axes`, then over `reduce_axes`. Expressions use the axes' names as index variables.
struct Part {
  std::string suffix;  // the block is called <tensor><suffix>
  std::vector<Axis> axes;
  std::vector<Axis> reduce_axes;
  std::optional<Combiner> combiner;  // present exactly if there are reduction axes, unless `in_place`
  // Changes elements that earlier parts stored, in the order of the reduction axes: combines them with `body`, or
  // replaces them if there is no combiner. Subscripts may depend on memory. Points that differ in one of `axes` must
  // not access the same element.
  bool in_place = false;
  std::vector<Expr> store;  // subscripts in the stored shape; unless in_place, all parts store different elements
  Expr body;
  Annotations annotations;  // of the block
  // Replaces store and body: a program that runs for each point of `axes` and stores its part of the tensor. It has
  // scratch memory of its own, which is uninitialised at each point.
  Stmt program;
  std::vector<Buffer> scratch;
};

struct TensorCell : Counted {
  Name name;
  DType dtype;
  Shape shape;
  std::vector<Axis> axes;      // their extents are the stored shape
  Buffer buffer;               // of the stored shape; loads in the bodies of consumers refer to it, by handle
  std::vector<Tensor> inputs;  // every tensor that the parts load
  std::vector<Part> parts;     // empty: placeholder or splat
  std::optional<double> splat;
  Shape StoredShape() const;
};

Tensor Placeholder(const std::string& name, const Shape& shape, DType dtype = DType::Float(32));
// A tensor whose elements all are `value`, for constants in element-wise formulas.
Tensor Splat(const Shape& shape, double value, DType dtype = DType::Float(32));

using AxisFn = std::function<Expr(const std::vector<Expr>& axes)>;
using ReduceFn = std::function<Expr(const std::vector<Expr>& axes, const std::vector<Expr>& reduce)>;

// Returns a tensor whose element (a, b, ...) is fn({a, b, ...}); the arguments are the variables of the axes. `inputs`:
// the tensors that fn loads (CHECKed). `shape`: the logical shape, if it is not the extents of the axes. It has the
// same product.
Tensor Compute(const std::string& name, const std::vector<Axis>& axes, const std::vector<Tensor>& inputs,
               const AxisFn& fn, const Shape& shape = {});
// Returns a tensor whose element (a, b, ...) combines fn({a, b, ...}, {r, s, ...}) over all values of the reduction
// axes, in any order.
Tensor Reduce(const std::string& name, const std::vector<Axis>& axes, const std::vector<Axis>& reduce_axes,
              Combiner combiner, const std::vector<Tensor>& inputs, const ReduceFn& fn, const Shape& shape = {});
// A tensor whose elements several blocks write into one buffer. Together the parts must store every element exactly
// once; the caller is responsible, and the interpreter reports a read of an element that was never written. The axes
// are the dimensions of `shape`. `own`: the buffer through which in-place parts load elements that earlier parts
// stored.
Tensor Assemble(const std::string& name, const Shape& shape, const std::vector<Tensor>& inputs, std::vector<Part> parts,
                const Buffer& own = {});

// A tensor that a program with its own loops computes, for results that no formula describes, such as sorting. `axes`
// are independent points. fn makes the statement of one point from the axes' variables, the tensor's buffer, and a
// buffer for each entry of `scratch`, whose names are made unique. Loop variables must differ within the statement. The
// axes are the dimensions of `shape`.
using ProgramFn =
    std::function<Stmt(const std::vector<Expr>& axes, const Buffer& out, const std::vector<Buffer>& scratch)>;
Tensor Program(const std::string& name, const std::vector<Axis>& axes, const std::vector<Tensor>& inputs,
               const Shape& shape, DType dtype, const std::vector<Buffer>& scratch, const ProgramFn& fn);

// Returns the tensor with an annotation on each of its blocks. Use it in place of `t`.
Tensor Annotated(const Tensor& t, const std::string& key, int64_t value);

// Default axes of a shape: n, h, w, c for four dimensions, else i0, i1, ...
std::vector<Axis> NaturalAxes(const Shape& shape);
std::vector<Expr> AxisVars(const std::vector<Axis>& axes);

}  // namespace autotune::te
