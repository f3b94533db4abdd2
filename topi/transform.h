// Operators that move elements without computing. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// Concatenates along an axis. Has one block <name>_<i> per input, which copies into its slice of the output, so that
// every copy vectorizes.
Tensor Concat(const std::string& name, const std::vector<Tensor>& inputs, int axis);
// Dimension i of the result is dimension perm[i] of x.
Tensor Transpose(const std::string& name, const Tensor& x, const std::vector<int>& perm);
// The same elements in row-major order, with another shape of the same product (CHECK). Also for Flatten, Squeeze and
// Unsqueeze.
Tensor Reshape(const std::string& name, const Tensor& x, const Shape& shape);
// Adds elements of `value` to each dimension: `before` and `after` it, and `interior` between neighbours (empty: none).
// No number may be negative.
Tensor Pad(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, double value,
           const Shape& interior = {});
// Pads with the nearest element inside or, if `reflect`, with the elements mirrored at the border, which is not
// repeated.
Tensor PadFromInside(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, bool reflect);
// Takes the `extent` elements begin, begin + step, ... of each dimension; step may be negative.
Tensor Slice(const std::string& name, const Tensor& x, const Shape& begin, const Shape& extent, const Shape& step);
// NumPy's broadcast of x to the shape.
Tensor BroadcastTo(const std::string& name, const Tensor& x, const Shape& shape);
// Returns the subscript for an element of an index tensor. A negative element counts from the end; the subscript is
// clamped to the dimension.
Expr Subscript(const Expr& element, int64_t extent);
// x[..., indices[i...], ...] along the axis. Indices are integers, and negative ones count from the end. No index reads
// outside of x.
Tensor Gather(const std::string& name, const Tensor& x, const Tensor& indices, int axis);
// Element (i, j, ...) is x[i, indices[i, j, ...], ...], with the index at position `axis`.
Tensor GatherElements(const std::string& name, const Tensor& x, const Tensor& indices, int axis);

}  // namespace autotune::topi
