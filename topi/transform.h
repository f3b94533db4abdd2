// Operators that move elements without computing. Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// One block <name>_<i> per input, each copying into its slice of the one output buffer, so that every copy vectorizes.
Tensor Concat(const std::string& name, const std::vector<Tensor>& inputs, int axis);
// Dimension i of the result is dimension perm[i] of x.
Tensor Transpose(const std::string& name, const Tensor& x, const std::vector<int>& perm);
// The same elements in row-major order; shape's product must be x's (CHECK). Flatten, Squeeze and Unsqueeze too.
Tensor Reshape(const std::string& name, const Tensor& x, const Shape& shape);
// `before` and `after` per dimension, `interior` between neighbours (empty: none); none negative.
Tensor Pad(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, double value,
           const Shape& interior = {});
// The elements outside are the nearest ones inside, or those mirrored at the border (which are not repeated).
Tensor PadFromInside(const std::string& name, const Tensor& x, const Shape& before, const Shape& after, bool reflect);
// Elements begin, begin + step, ... (extent of them) per dimension; step may be negative.
Tensor Slice(const std::string& name, const Tensor& x, const Shape& begin, const Shape& extent, const Shape& step);
// NumPy's broadcast of x to the shape.
Tensor BroadcastTo(const std::string& name, const Tensor& x, const Shape& shape);
// A subscript of a dimension from an element of an index tensor: negative ones count from the end, others clamp.
Expr Subscript(const Expr& element, int64_t extent);
// x[..., indices[i...], ...] along the axis. Indices are integers, and negative ones count from the end. No index reads
// outside of x.
Tensor Gather(const std::string& name, const Tensor& x, const Tensor& indices, int axis);
// Element (i, j, ...) is x[i, indices[i, j, ...], ...], the index standing at the axis.
Tensor GatherElements(const std::string& name, const Tensor& x, const Tensor& indices, int axis);

}  // namespace autotune::topi
