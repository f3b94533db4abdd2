// StageShape: what the draft score takes the loops of one block to be, from decisions and extents alone. Each number is
// a fact of the replayed program: tests/tuner/stage_shape_test.cc derives it from the program's Nest, too, and
// compares. Pure functions, which allocate nothing; thread-safe.
#pragma once
#include "tuner/sketch.h"

namespace autotune {

struct StageShape {
  double tasks = 1;  // iterations of the parallel loop that the block is in
  // A register tile, in elements; of windows, `height` rows of an image, else 1. And how many a task has.
  double rows = 1, columns = 1, height = 1;
  double row_tiles = 1, column_tiles = 1;
  // Rows and columns of all tasks, with those that tiles overshoot by.
  double all_rows = 1, all_columns = 1;
  double sum = 1;    // terms of a reduction
  double terms = 1;  // of which so many are unrolled
  // Bytes that one register tile reads: of its columns' operand, and of its rows'; 0: there is no such operand.
  double panel_bytes = 0, rows_bytes = 0;

  double Tile() const { return rows * columns * height; }
  double Unrolled() const { return Tile() * terms; }  // instances that are straight code
  double Points() const { return tasks * row_tiles * column_tiles * Tile() * sum; }
};

// Rows of an image, of `width` pixels each, that a run of consecutive pixels touches at most. Runs lie side by side
// from the first pixel on.
double ImageRowsOf(double width, double pixels);

// Of a stage of a CPU but kAttention. Of kStreaming only `tasks` is set; of kTransform, also
// `column_tiles`, the parallel pieces of each tile.
StageShape ShapeOf(const StageModel& stage, const Decisions& decisions);
// The two products of a stage of kind kAttention.
struct AttentionShapes {
  StageShape scores, weighted;
};
AttentionShapes AttentionShapesOf(const StageModel& stage, const Decisions& decisions);

}  // namespace autotune
