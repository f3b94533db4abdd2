// Tensors in doubles and one naive function per operator, for the reference in reference.h.
#pragma once
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "support/rng.h"

namespace autotune::reference {

using namespace graph;
using graph::Graph;  // graph::Graph, not the runtime's Graph
using graph::Op;     // graph::Op, not the kernel language's Op

struct Tensor {
  Shape shape;
  std::vector<double> data;
  DType dtype = DType::Float(32);  // element type; results wrap to integer types, but are not rounded to floats
};

int64_t Count(const Shape& shape);

Tensor FromValue(const TensorValue& value);

inline TensorValue ToValue(const Tensor& t) { return TensorValue::FromNumbers(t.dtype, t.shape, t.data); }

// Returns random numbers: normally distributed floats, rounded to the type; signed integers from -4 to 4; unsigned
// integers from 0 to 8; or bools.
Tensor Random(const Shape& shape, Rng& rng, DType dtype = DType::Float(32));

// Calls f(index) for every index of a shape; the last axis varies fastest.
void ForEachIndex(const Shape& shape, const std::function<void(const Shape&)>& f);

// Returns the element of t for an index of a shape to which t broadcasts.
double AtBroadcast(const Tensor& t, const Shape& index);
double At(const Tensor& t, const Shape& index);

Tensor Transposed(const Tensor& t, const std::vector<int64_t>& perm);

inline Shape Spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

int64_t Flat(const Shape& index, const Shape& shape);

// Returns the input position that tap `k` of the window of output pixel `o` reads. The position may be outside the
// input.
template <class WindowAttrs>
Shape Met(const WindowAttrs& a, const Shape& o, const Shape& k) {
  Shape at;
  for (size_t d = 0; d < k.size(); ++d) at.push_back(o[d] * a.strides[d] + k[d] * a.dilations[d] - a.pads[d]);
  return at;
}

bool Inside(const Shape& at, const Shape& extents);

// Convolution with channels first, over any number of spatial dimensions.
Tensor Conv(const Tensor& x, const Tensor& w, const ConvAttrs& a, const Shape& out_shape);

enum class PoolOf { kMax, kAverage, kPlace };  // kPlace: position of the first maximum within the image

Tensor Pool(const Tensor& x, const PoolAttrs& a, PoolOf what, const Shape& out_shape);

Tensor Matmul(const Tensor& a, const Tensor& b, const Shape& out_shape);
struct BlockKind {
  bool of_integers = false, of_words = false;  // rows of integers; weights in words of nibbles
};
Tensor BlockMatmul(const std::vector<const Tensor*>& in, const BlockKind& kind, const Shape& out_shape);

Tensor Lrn(const Tensor& x, const LrnAttrs& a);

Tensor Softmax(const Tensor& x, int64_t axis);

Tensor Concat(const std::vector<const Tensor*>& in, int64_t axis, const Shape& out_shape);

Tensor BatchNorm(const std::vector<const Tensor*>& in, const BatchNormAttrs& a);

Tensor Reduce(const Tensor& x, const std::vector<int64_t>& axes, Op op, const Shape& out_shape);

Tensor ArgReduce(const Tensor& x, const ArgAttrs& a, const Shape& out_shape);

// Converts a run-time index to a subscript of an axis: negative indices count from the end, others are clamped.
int64_t Subscript(double index, int64_t extent);

Tensor Gather(const Tensor& x, const Tensor& indices, int64_t axis, const Shape& out_shape);

Tensor Pad(const Tensor& x, const PadAttrs& a, const Shape& out_shape);

// Converts a number to a type. For an integer type, rounds towards zero and, below 64 bits, wraps to its width.
double ToType(double v, DType to);

// ToBits returns an integer's bits, sign-extended. FromBits returns the integer that the low bits of a type's width
// represent; 64 bits are always signed, as in the interpreter.
uint64_t ToBits(double v);
double FromBits(uint64_t bits, DType dtype);

// Returns the same bits as numbers of another type of the same width.
Tensor BitCast(const Tensor& x, DType to);

}  // namespace autotune::reference
