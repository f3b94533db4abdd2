// Repacking the operands of a tiled reduction C[m, n] += A[m, k] * B[k, n], so that a register tile reads both from
// contiguous memory, and nothing that was padded needs a guard where it is used. After Goto and van de Geijn, "Anatomy
// of high-performance matrix multiplication" (2008), but rows are not transposed: a tile's rows are interleaved in
// pieces as long as the reduction is unrolled, which copies whole vectors. Thread-safe.
#pragma once
#include <optional>

#include "tuner/rule/builder.h"

namespace autotune {

inline constexpr int64_t kWorthPacking = 12;  // rows that read a column packed at run time, at least

// An operand that moves with n but not with m: B.
struct ColumnOperand {
  Buffer buffer;
  bool constant = false;  // packed in prepare, untimed
  // The copy has one dimension for each subscript. If n shares a subscript with another iterator, as in the weights
  // w[.., g * N + n] of a grouped convolution, or if the block reads a piece of the buffer, the copy has one for each
  // iterator of the block that indexes it.
  bool by_iterators = false;
  int rank = 0, dim = 0;    // of the copy; `dim` is n's
  bool transposed = false;  // the reduction's last iterator is its contiguous dimension
};

// An operand that moves with m and the last reduction iterator, which is its contiguous dimension, but not with n: A.
struct RowOperand {
  Buffer buffer;
  int rank = 0, m_dim = 0;  // of its copy, one dimension for each iterator of the block that indexes it; k is the last
  int64_t row_bytes = 0;    // from one m to the next; 0: not constant
};

std::optional<ColumnOperand> FindColumnOperand(const PrimFunc& func, const BlockView& block, const Name& m_iter,
                                               const Name& n_iter);
std::optional<RowOperand> FindRowOperand(const BlockView& block, const Roles& roles);

// Copies the operand for this block; `width` is how many columns a panel has, `height` how many rows a register tile,
// `piece` how far the reduction is unrolled. Columns: [n // width, others, n % width]; rows: [m // height, others,
// k // piece, m % height, k % piece]. Returns the packing block, which stands in loops of its own and counts as placed.
Result<Name> PackColumns(SketchBuilder& s, const Name& block, const ColumnOperand& operand, const IntArg& width);
Result<Name> PackRows(SketchBuilder& s, const Name& block, const RowOperand& operand, const IntArg& height,
                      const IntArg& piece);

enum class Packing { kColumns, kTransposedColumns, kRows };

inline Packing PackingOf(const ColumnOperand& operand) {
  return operand.transposed ? Packing::kTransposedColumns : Packing::kColumns;
}

// Chooses where a packing block is computed: before the parallel loop, by all cores, or inside the loop of a depth up
// to `deepest`, so that what is packed is in a cache when it is used. It copies vectors: of `lanes` columns, or the
// pieces of rows. Of transposed columns it takes as many vectors as they have lanes together: a square, which code
// generators transpose in registers (codegen/llvm/cpu/transposes.h).
Result<Choice> PlacePacked(SketchBuilder& s, const Name& packing, int64_t deepest, Packing kind, int64_t lanes);

}  // namespace autotune
