// Rows of a product that are rounded to 8 bits, with a scale for each block of terms, as ONNX Runtime's MatMulNBits
// does with accuracy_level 4. Thread-safe.
//
// The graph states them as floats, x ~ f32(numbers) * (most / 127). So every pass and every target computes the same
// product; the pass block_products finds the numbers in it, and multiplies these.
#pragma once
#include <optional>

#include "graph/graph.h"

namespace autotune::graph {

// Rows [rows, blocks, block] of i8, and the largest magnitudes [rows, blocks, 1] of f32.
struct RowsInBlocks {
  ValueId numbers = -1, most = -1;
};
inline constexpr double kScaleOfMost = 1.0 / 127;  // the scale of a block, as a multiple of its largest magnitude

// Adds the rows x, f32 of any shape, with blocks along the last dimension: the numbers are round(x / scale), half to
// even, so that they lie from -127 to 127.
RowsInBlocks AddRowsInBlocks(GraphBuilder& builder, ValueId x, int64_t block);

// Adds the floats that these rows stand for, in the given shape.
ValueId AddFloatsOf(GraphBuilder& builder, const RowsInBlocks& rows, const Shape& shape);

// Returns the rows in blocks of which AddFloatsOf has made the value; nothing if it did not.
std::optional<RowsInBlocks> RowsInBlocksOf(const Graph& graph, ValueId floats);

}  // namespace autotune::graph
