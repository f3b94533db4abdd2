// Repacks the operands of a tiled reduction C[m, n] += A[m, k] * B[k, n]. A register tile then reads both operands from
// contiguous memory, and needs no guards for padding. After Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008). Unlike there, rows are not transposed: the rows of a tile are interleaved in pieces that are
// as long as the reduction is unrolled, so that packing copies whole vectors. Thread-safe.
#pragma once
#include <optional>

#include "tuner/rule/builder.h"

namespace autotune {

inline constexpr int64_t kWorthPacking = 12;  // rows that read a column packed at run time, at least

// An operand that moves with n but not with m: B.
struct ColumnOperand {
  Buffer buffer;
  bool constant = false;  // packed in prepare, untimed
  // False: the copy has a dimension for each subscript. True: the copy has a dimension for each iterator of the block.
  // True in two cases: n shares a subscript with another iterator, as in the weights w[.., g * N + n] of a grouped
  // convolution; or the block reads only a piece of the buffer.
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

// Copies the operand for this block. `width` is the number of columns of a panel, `height` the number of rows of a
// register tile, `piece` the number of unrolled steps of the reduction. The layout of columns is [n // width, others, n
// % width], that of rows [m // height, others, k // piece, m % height, k % piece]. Returns the packing block, which has
// loops of its own and counts as placed.
Result<Name> PackColumns(SketchBuilder& s, const Name& block, const ColumnOperand& operand, const IntArg& width);
Result<Name> PackRows(SketchBuilder& s, const Name& block, const RowOperand& operand, const IntArg& height,
                      const IntArg& piece);

enum class Packing { kColumns, kTransposedColumns, kRows };

inline Packing PackingOf(const ColumnOperand& operand) {
  return operand.transposed ? Packing::kTransposedColumns : Packing::kColumns;
}

// Chooses where a packing block is computed: before the parallel loop by all cores, or inside one of its loops up to
// depth `deepest`, so that packed data is in a cache when it is used. The block copies vectors: `lanes` columns, or the
// pieces of rows. Of transposed columns it copies as many vectors as a vector has lanes. Code generators transpose such
// a square in registers (codegen/llvm/cpu/transposes.h).
Result<Choice> PlacePacked(SketchBuilder& s, const Name& packing, int64_t deepest, Packing kind, int64_t lanes);

}  // namespace autotune
