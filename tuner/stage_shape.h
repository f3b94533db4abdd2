// StageShape: the loops of one block as the draft score assumes them, computed from decisions and extents alone. Each
// number is a fact of the replayed program: tests/tuner/stage_shape_test.cc derives it from the program's Nest, too,
// and compares. Pure functions, which allocate nothing; thread-safe.
#pragma once
#include "tuner/sketch.h"

namespace autotune {

struct StageShape {
  double tasks = 1;  // iterations of the parallel loop that the block is in
  // The size of a register tile, in elements. `height`: rows of the image in the tile, for kWindow; else 1.
  double rows = 1, columns = 1, height = 1;
  double row_tiles = 1, column_tiles = 1;  // number of register tiles of a task along rows and along columns
  // Rows and columns of one whole result, such as one matrix of a batch, rounded up to whole tiles.
  double all_rows = 1, all_columns = 1;
  double sum = 1;    // terms of a reduction
  double terms = 1;  // unrolled terms of a reduction
  // Bytes that one register tile reads from the operand that depends on columns, and from the one that depends on rows;
  // 0: there is no such operand.
  double panel_bytes = 0, rows_bytes = 0;

  double Tile() const { return rows * columns * height; }
  double Unrolled() const { return Tile() * terms; }  // instances in straight-line code
  double Points() const { return tasks * row_tiles * column_tiles * Tile() * sum; }
};

// Returns the largest number of rows of an image that a run of `pixels` consecutive pixels touches. A row has `width`
// pixels. The runs follow one another from the first pixel of the image on.
double ImageRowsOf(double width, double pixels);

// How a stage is computed inside the loops of its consumer, a tiled stage: in the consumer's parallel loop, or in a
// loop over tiles inside that loop. These numbers are estimates, which no test compares with the replayed program.
struct InsideShape {
  double again = 1;  // how often each element is computed, on average
  double tasks = 1;  // parts of the image that the tasks compute in parallel
};
// `stage` is a streaming stage whose location is a loop of `consumer`.
InsideShape InsideOf(const StageModel& stage, const StageModel& consumer, const Decisions& decisions);

// Returns the number of cache lines of the result that a core shares with another one: each holds elements of two tasks
// that write pieces of the same row. `stage` is tiled. Tasks are handed out in order, and the pieces of a row follow
// one another. So `cores` cores share no rows if there are as many tasks along the rows. An estimate, as InsideShape.
double SharedLines(const StageModel& stage, const StageShape& shape, double cores, int64_t line_bytes);

// Returns the shape of a stage of any kind for CPUs except kAttention. For kStreaming only `tasks` is set. For
// kTransform only `tasks` and `column_tiles` are set, and `column_tiles` is the number of parallel pieces of each tile.
StageShape ShapeOf(const StageModel& stage, const Decisions& decisions);
// The shapes of the two products of a stage of kind kAttention.
struct AttentionShapes {
  StageShape scores, weighted;
};
AttentionShapes AttentionShapesOf(const StageModel& stage, const Decisions& decisions);

}  // namespace autotune
