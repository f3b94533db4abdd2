// Matrix products. The second operand is [K, N] (a dense layer's weight is stored that way). Thread-safe.
#pragma once
#include <string>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// How the operands of f32 are rounded before they are multiplied: not at all, or to TF32 (ir/op.h).
enum class Rounding { kNone, kTf32 };

// numpy.matmul: [..., M, K] x [..., K, N] -> [..., M, N], leading dimensions broadcast; a vector stands for one row or
// column. Shapes must fit (CHECK). Axes: (m, n), m over all leading dimensions too, if b is a matrix; else (b, m, n), b
// over the broadcast leading dimensions. Reduction: k. A product with one column and 16 terms or more has the form of
// SumRows (topi/reduce.h). Operands of 16 bits are widened to f32, and the result is then f32.
Tensor MatMul(const std::string& name, const Tensor& a, const Tensor& b, Rounding rounding = Rounding::kNone);

// [B, M, 2H] x [B, H, N] -> [B, M, N]: products of f32 with numbers from -8 to 7, of which each element of `b`, an i8,
// has two in two's complement: row 2h in its lower half, row 2h + 1 in its upper half. Axes: (b, m, n). Reduction:
// (h, half).
Tensor NibbleMatMul(const std::string& name, const Tensor& a, const Tensor& b);

// Like MatMul for a matrix b, but with the sum cut into blocks of `block` terms, which must divide K. The sums of the
// blocks are the tensor <name>_blocks in memory. A cache can hold the part of b that one block needs, but not all of b
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication").
Tensor MatMulInBlocks(const std::string& name, const Tensor& a, const Tensor& b, int64_t block);

}  // namespace autotune::topi
