// Repacks the operands of a tiled reduction C[m, n] += A[m, k] * B[k, n]. A register tile then reads both operands from
// contiguous memory, and needs no guards for padding. After Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (2008). But rows are not transposed as in that paper. The rows of a tile are interleaved in pieces
// whose length is the unroll factor of the reduction, so that packing copies whole vectors. Thread-safe.
#pragma once
#include <optional>

#include "tuner/rule/builder.h"

namespace autotune {

inline constexpr int64_t kWorthPacking = 12;  // least number of rows for which columns are packed at run time

// The operand B, whose subscripts use n but not m.
struct ColumnOperand {
  Buffer buffer;
  bool constant = false;  // true: the operand is a constant, which `prepare` packs, untimed
  // False: the copy has a dimension for each subscript. True: the copy has a dimension for each iterator of the block.
  // True in two cases: n shares a subscript with another iterator, as in the weights w[.., g * N + n] of a grouped
  // convolution; or the block reads only a piece of the buffer.
  bool by_iterators = false;
  int rank = 0, dim = 0;    // rank of the copy, and the dimension of n in it
  int k_dim = -1;           // dimension of the last reduction iterator in it; -1: there is none
  bool transposed = false;  // true: the operand is contiguous along the last reduction iterator
};

// The operand A, whose subscripts use m and the last reduction iterator k, but not n. k is its contiguous dimension.
struct RowOperand {
  Buffer buffer;
  // Rank of the copy, and the dimension of m in it. The copy has one dimension for each iterator of the block that
  // indexes the operand; k is the last.
  int rank = 0, m_dim = 0;
  int64_t row_bytes = 0;        // distance between neighbouring values of m; 0: not constant
  bool is_slice = false;        // whether the last subscript is k plus what depends on other loops: channels of a group
  bool is_conditional = false;  // whether a select chooses between it and something else; it cannot be packed then
};

std::optional<ColumnOperand> FindColumnOperand(const PrimFunc& func, const BlockView& block, const Name& m_iter,
                                               const Name& n_iter);
std::optional<RowOperand> FindRowOperand(const BlockView& block, const Roles& roles);

// Checks that instructions can add the products of groups of neighbouring steps: those of columns, which are packed in
// groups, and of rows that have them side by side. `lanes`: of a vector of results.
Status CheckGroups(const Roles& roles, const std::optional<ColumnOperand>& columns,
                   const std::optional<RowOperand>& rows, int64_t lanes, int64_t group);

// The panels of constants that are streamed: how many are read at the same time, and the columns of one.
struct StreamedPanels {
  Choice count, width;
};
Result<StreamedPanels> ChooseStreamedPanels(SketchBuilder& s, const BlockView::Loop& n, int64_t lanes);

// Returns whether an operand's subscripts use the loop.
bool DependsOn(const BlockView& block, const Buffer& operand, const BlockView::Loop& loop);

// Returns what a product reads of each column of the operand in steps of `group` terms.
ColumnModel ModelOf(const BlockView& block, const ColumnOperand& operand, int64_t group);

// Copies the operand for this block. `width` is the number of columns of a panel, `height` the number of rows of a
// register tile, `piece` the number of unrolled steps of the reduction. The layout of columns is
// [n // width, others, n % width], or with a `group` [n // width, others, k // group, n % width, k % group]; the layout
// of rows is [m // height, others, k // piece, m % height, k % piece].
// Returns the packing block, which has its own loops and is placed.
Result<Name> PackColumns(SketchBuilder& s, const Name& block, const ColumnOperand& operand, const IntArg& width,
                         int64_t group = 1);
Result<Name> PackRows(SketchBuilder& s, const Name& block, const RowOperand& operand, const IntArg& height,
                      const IntArg& piece);

enum class Packing { kColumns, kTransposedColumns, kGroups, kRows };

// `group`: as for PackColumns.
inline Packing PackingOf(const ColumnOperand& operand, int64_t group = 1) {
  if (group > 1) return Packing::kGroups;
  return operand.transposed ? Packing::kTransposedColumns : Packing::kColumns;
}

// Chooses where a packing block is computed: by all cores before the parallel loop, or inside one of the consumer's
// loops up to depth `deepest`, so that packed data is in a cache when it is used. The block copies vectors: `lanes`
// columns, or pieces of rows. It copies transposed columns in squares of `lanes` vectors, which code generators
// transpose in registers (codegen/llvm/cpu/transposes.h). It copies groups one by one: a group of transposed columns is
// a word of memory.
Result<Choice> PlacePacked(SketchBuilder& s, const Name& packing, int64_t deepest, Packing kind, int64_t lanes);

}  // namespace autotune
