// Maps indices between two shapes with the same row-major order, for reshapes and for fused and split iterators.
// Thread-safe. Not a simplifier (arith/analyzer.h): it only avoids expressions that would have to be simplified.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/expr.h"

namespace autotune::te {

using Shape = std::vector<int64_t>;

int64_t Product(const Shape& shape);  // 1 for rank 0

// `indices` address an element of an array of shape `from`. Returns the indices of the same element in the same memory
// as an array of shape `to`. Dimensions that correspond one to one keep their index; fused or split dimensions get
// arithmetic: (h, w) -> h*W + w, and m -> (m // W, m % W). Both shapes have the same number of elements (CHECK).
std::vector<Expr> ReshapeIndices(const std::vector<Expr>& indices, const Shape& from, const Shape& to);

// Returns the subscripts of an operand of shape `operand` that belong to the element `indices` of a NumPy broadcast
// with result shape `result`. Shapes are aligned at the last dimension; a dimension of extent 1 has subscript 0.
std::vector<Expr> BroadcastIndices(const std::vector<Expr>& indices, const Shape& result, const Shape& operand);

// Sets `result` to NumPy's broadcast of two shapes. Returns false if the shapes do not broadcast.
bool BroadcastShapes(const Shape& a, const Shape& b, Shape* result);

}  // namespace autotune::te
