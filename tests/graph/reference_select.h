// Operators that scatter, cumulate, sort and select boxes, and determinants, in doubles. Part of
// tests/graph/reference.h.
#pragma once
#include "tests/graph/reference_ops.h"

namespace autotune::reference {

Tensor Scatter(Tensor data, const Tensor& updates, const Tensor& indices, const ScatterAttrs& a, DType dtype);

Tensor Cumulate(const Tensor& x, const CumulateAttrs& a, DType dtype);

// Non-maximum suppression: takes boxes in the given order, and skips a box whose intersection over union with a box
// that was taken exceeds a.overlap. Rows after those of the boxes that were taken are -1.
Tensor SelectBoxes(const Tensor& boxes, const Tensor& scores, const Tensor& order, const BoxesAttrs& a);

Tensor TopK(const Tensor& x, const TopKAttrs& a, const Shape& shape);

// Computes determinants by expansion along the first row.
Tensor Determinants(const Tensor& x, const Shape& shape);

}  // namespace autotune::reference
