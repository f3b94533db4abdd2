// Matrix products. The second operand is [K, N] (a dense layer's weight is stored that way). Thread-safe.
#pragma once
#include <string>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// Most rows of a product that takes as long as its constants need from memory, whatever their size. With more rows, a
// register tile is as fast if a core's own cache holds the constants. [chosen]
inline constexpr int64_t kMostStreamedRows = 4;

// How the operands of f32 are rounded before they are multiplied: not at all, or to TF32 (ir/op.h).
enum class Rounding { kNone, kTf32 };

// numpy.matmul: [..., M, K] x [..., K, N] -> [..., M, N], leading dimensions broadcast; a vector stands for one row or
// column. Shapes must fit (CHECK). Axes: (m, n), m over all leading dimensions too, if b is a matrix; else (b, m, n), b
// over the broadcast leading dimensions. Reduction: k. A product with one column and 16 terms or more has the form of
// SumRows (topi/reduce.h). Operands of 16 bits are widened to f32, and the result is then f32.
Tensor MatMul(const std::string& name, const Tensor& a, const Tensor& b, Rounding rounding = Rounding::kNone);

// Operands of BlockMatMul, whose sums have blocks of terms. Each block has a scale. Rows are either integers, [M, B *
// K] of i8 with scales [M, B] of f32 and offsets [M, B] of i32, or floats, [M, B * K] of f32 without scales; these have
// offsets [M, B] of f32 if the weights have zero points.
struct BlockRows {
  Tensor numbers, scales, offsets;
};
// Weights. For rows of integers: [B, K, N] of u8, or [B, K / 2, N] with two numbers from 0 to 15 a byte: byte 4 q + k
// has number 8 q + k in its lower half, and number 8 q + 4 + k in its upper half. For rows of floats: [B, K, N] of i8,
// or words [B, K / 8, N] of numbers of 4 bits (ir/nibble.h). Scales [B, N] of f32, and zero points [B, N] of a byte, or
// none.
struct BlockColumns {
  Tensor numbers, scales, zeros;
};
// Returns [M, N]: the sum over the blocks b of scales times (x[b] w[b] - offsets[m, b] zeros[b, n]). Products of
// integers are exact; without zero points, these are 1 for rows of integers, and 0 for rows of floats. The sums of the
// blocks are the tensor <name>_blocks, with the axes (b, m, n) and the reduction (k), or (q, half, k), or (q, k) for
// words. The result has the axes (m, n) and the reduction (b).
Tensor BlockMatMul(const std::string& name, const BlockRows& x, const BlockColumns& w);

// Like MatMul for a matrix b, but with the sum cut into blocks of `block` terms, which must divide K. The sums of the
// blocks are the tensor <name>_blocks in memory. A cache can hold the part of b that one block needs, but not all of b
// (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication").
Tensor MatMulInBlocks(const std::string& name, const Tensor& a, const Tensor& b, int64_t block);

}  // namespace autotune::topi
