#include "tuner/stage_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace autotune {
namespace {

// Returns factor `level` of the knob's decision, counted from the outermost; 1 if there is no knob.
double Level(const Decisions& d, int knob, size_t level) {
  return knob < 0 ? 1.0 : static_cast<double>(d[static_cast<size_t>(knob)].values[level]);
}

double Number(int64_t value) { return static_cast<double>(value); }

// Sets the bytes that a tile reads from both operands of a product: each term of its sum multiplies an element of a row
// by an element of a column.
void AddOperands(StageShape& shape, double element_bytes) {
  shape.panel_bytes = shape.sum * shape.columns * element_bytes;
  shape.rows_bytes = shape.rows * shape.sum * element_bytes;
}

// Returns the number of rows (or columns) of an operand that `count` neighbouring windows read. Neighbouring windows
// are `step` rows apart. A window reads `taps` rows, and its first and last row are `reach` apart.
double Touched(double count, int64_t step, int64_t taps, int64_t reach) {
  const int64_t dilation = taps > 1 ? reach / (taps - 1) : 0, apart = std::gcd(count > 1 ? step : 0, dilation);
  if (apart == 0) return 1;
  return std::min(count * Number(taps), ((count - 1) * Number(step) + Number(reach)) / Number(apart) + 1);
}

// Returns the number of elements of an image that the windows of a register tile read. A tile that may cross the end of
// a row reads all columns of each row that it touches.
double WindowElements(const StageModel& s, double pixels) {
  const ImageModel& image = s.m_image;
  if (image.row == 0)
    return Touched(pixels, image.column_step, image.column_taps, image.column_reach) * Number(image.column);
  const double width = Number(image.row), height = Number(s.m) / width;
  const bool within_row = std::fmod(width, pixels) == 0;
  const double rows = within_row ? 1 : std::min(height, ImageRowsOf(width, pixels));
  return Touched(rows, image.row_step, image.row_taps, image.row_reach) *
         Touched(within_row ? pixels : width, image.column_step, image.column_taps, image.column_reach) *
         (Number(s.k) / Number(image.row_taps * image.column_taps));
}

StageShape TiledShape(const StageModel& s, const Decisions& d) {
  const double m0 = Level(d, s.m_knob, 0), n0 = Level(d, s.n_knob, 0), turns = Level(d, s.turns_knob, 0);
  StageShape shape{.tasks = Number(s.outer) * Number(s.shared) / turns * m0 * n0,
                   .rows = Level(d, s.m_knob, 2),
                   .columns = Level(d, s.n_knob, 2),
                   .row_tiles = turns * Level(d, s.m_knob, 1),
                   .column_tiles = Level(d, s.n_knob, 1),
                   .sum = Number(s.k),
                   .terms = Level(d, s.k_knob, 0)};
  shape.all_rows = m0 * Level(d, s.m_knob, 1) * shape.rows;
  shape.all_columns = n0 * shape.column_tiles * shape.columns;
  AddOperands(shape, Number(s.element_bytes));
  if (!s.broadcast) {  // one operand is indexed by both row and column
    shape.panel_bytes *= shape.rows;
    shape.rows_bytes = 0;
  } else if ((s.m_image.row > 0 || s.m_image.column > 0) && s.rows_knob < 0) {
    shape.rows_bytes = std::min(shape.rows_bytes, WindowElements(s, shape.rows) * Number(s.element_bytes));
  }
  return shape;
}

// A Winograd convolution may cut its tiles into groups (tuner/rule/winograd.cc); s.tasks is then the number of groups,
// and a task computes all products of one group. If s.tasks is 0, each panel of each product is a task.
StageShape BatchedShape(const StageModel& s, const Decisions& d) {
  const double panels = Number(s.outer) * Level(d, s.n_knob, 0);
  StageShape shape{.tasks = s.tasks ? Number(s.tasks) : panels,
                   .rows = Level(d, s.m_knob, 1),
                   .columns = Level(d, s.n_knob, 1),
                   .row_tiles = Level(d, s.m_knob, 0),
                   .sum = Number(s.k),
                   .terms = Level(d, s.k_knob, 0)};
  shape.column_tiles = panels / shape.tasks;
  shape.all_rows = shape.row_tiles * shape.rows;
  shape.all_columns = Level(d, s.n_knob, 0) * shape.columns;
  AddOperands(shape, Number(s.element_bytes));
  return shape;
}

StageShape WindowShape(const StageModel& s, const Decisions& d) {
  const double h0 = Level(d, s.h_knob, 0), c0 = Level(d, s.n_knob, 0);
  StageShape shape{.tasks = Number(s.outer) * c0 * (s.rows_in_order ? 1 : h0),
                   .rows = Level(d, s.m_knob, 1),
                   .columns = Level(d, s.n_knob, 2),
                   .height = Level(d, s.h_knob, 1),
                   .row_tiles = Level(d, s.m_knob, 0) * (s.rows_in_order ? h0 : 1),
                   .column_tiles = Level(d, s.n_knob, 1),
                   .sum = Number(s.depth * s.window_rows * s.k),
                   .terms = Level(d, s.k_knob, 0) * Level(d, s.row_knob, 0) * Level(d, s.depth_knob, 0)};
  shape.all_rows = h0 * shape.height * Level(d, s.m_knob, 0) * shape.rows;
  shape.all_columns = c0 * shape.column_tiles * shape.columns;
  return shape;
}

StageShape StreamsShape(const StageModel& s, const Decisions& d) {
  StageShape shape{.rows = s.row_knob < 0 ? Number(s.m) : Level(d, s.row_knob, 0),
                   .columns = Level(d, s.m_knob, 0) * Level(d, s.n_knob, 0),
                   .sum = Number(s.k),
                   .terms = Level(d, s.k_knob, 0)};
  shape.tasks = std::ceil(Number(s.n) / shape.columns);
  shape.row_tiles = std::ceil(Number(s.m) / shape.rows);
  shape.all_rows = shape.row_tiles * shape.rows;
  shape.all_columns = shape.tasks * shape.columns;
  AddOperands(shape, Number(s.element_bytes));
  return shape;
}

// Returns the iterations of the parallel loop over vectors of s.n elements; 1 if there is none.
double Pieces(const StageModel& s, const Decisions& d) {
  return s.shares_vectors ? std::ceil(Number(s.n) / (Number(s.lanes) * Level(d, s.k_knob, 0))) : 1;
}

// Returns the shape of passes over whole buffers.
StageShape PassesShape(const StageModel& s, const Decisions& d) { return {.tasks = Number(s.outer) * Pieces(s, d)}; }

// If s.tasks is set, it is the number of groups of Winograd tiles, and a task transforms all tiles of one group.
// Otherwise `tasks` is the number of tiles, and the `column_tiles` pieces of each tile are parallel, too.
StageShape TransformShape(const StageModel& s, const Decisions& d) {
  return {.tasks = Number(s.tasks ? s.tasks : s.m), .column_tiles = Pieces(s, d)};
}

// Returns how often an element of a stage that makes an image is computed, on average. The consumer has `all` positions
// in `image`, and each of its tasks computes the elements that `positions` consecutive ones need. A task that crosses
// the end of a row needs all columns of each row that it touches. Rows and columns that the windows of two tasks share
// are computed for both.
double Recomputed(const StageModel& s, const ImageModel& image, double positions, double all) {
  if (image.row == 0 || s.columns == 0) return 1;
  const double width = Number(image.row), height = all / width;
  const double rows = Number(s.rows), columns = Number(s.columns);
  const bool within_row = std::fmod(width, positions) == 0;
  const double touched = std::min(ImageRowsOf(width, positions), height);
  const double needed_rows = (touched - 1) * Number(image.row_step) + Number(image.row_reach) + 1;
  const double needed_columns =
      within_row ? (positions - 1) * Number(image.column_step) + Number(image.column_reach) + 1 : columns;
  const double part = std::min(1.0, needed_rows / rows) * std::min(1.0, needed_columns / columns);
  return std::max(1.0, std::ceil(all / positions) * part);
}

// Recomputed for a consumer `c` that skips padding: its tiles lie within one row. A tile, or a task, computes its
// columns in all rows of its image, of which the large windows of such a consumer need most.
double RecomputedRows(const StageModel& c, const Decisions& d, double positions, bool in_tile) {
  const ImageModel& image = c.m_image;
  const double turns = in_tile ? 1 : Level(d, c.turns_knob, 0), tiles = in_tile ? Level(d, c.m_knob, 1) : 1;
  const double parts = Number(c.shared) / turns * Level(d, c.m_knob, 0) * tiles / Number(image.images);
  const double columns = (positions - 1) * Number(image.column_step) + Number(image.column_reach) + 1;
  return std::max(1.0, parts * std::min(1.0, columns / Number(std::max<int64_t>(1, image.length))));
}

}  // namespace

double ImageRowsOf(double width, double pixels) {
  if (std::fmod(width, pixels) == 0) return 1;
  return std::fmod(pixels, width) == 0 ? pixels / width : std::floor((pixels - 2) / width) + 2;
}

double SharedLines(const StageModel& stage, const StageShape& shape, double cores, int64_t line_bytes) {
  const double columns = shape.column_tiles * shape.columns;  // of a task
  const double pieces = Number(stage.pieces) * shape.all_columns / columns, row_tasks = shape.tasks / pieces;
  if (pieces == 1 || row_tasks >= cores) return 0;
  const double piece_bytes = std::min(columns, Number(stage.n)) * Number(stage.element_bytes);
  const int64_t row_bytes = stage.pieces * stage.n * stage.element_bytes;
  if (std::fmod(piece_bytes, Number(line_bytes)) == 0 && row_bytes % line_bytes == 0) return 0;
  return shape.row_tiles * shape.rows;
}

InsideShape InsideOf(const StageModel& s, const StageModel& c, const Decisions& d) {
  const int64_t depth = d[static_cast<size_t>(s.location_knob)].values[0];
  // Depth 0 is the parallel loop, and the middle loops over tiles follow.
  const bool has_m = c.m_knob >= 0, has_n = c.n_knob >= 0;
  const bool in_m = depth >= (c.n_inside || !has_n ? 1 : 2), in_n = depth >= (c.n_inside && has_m ? 2 : 1);
  double again = has_n ? Level(d, c.n_knob, 0) * (in_n ? Level(d, c.n_knob, 1) : 1) : 1;
  if (has_m) {
    const double positions = Level(d, c.m_knob, 2) * (in_m ? 1 : Level(d, c.m_knob, 1));
    again *= c.met < 1 ? RecomputedRows(c, d, positions, in_m) : Recomputed(s, c.m_image, positions, Number(c.m));
  }
  return {again, Level(d, c.m_knob, 0) * Number(c.shared) / Level(d, c.turns_knob, 0)};
}

StageShape ShapeOf(const StageModel& stage, const Decisions& decisions) {
  switch (stage.kind) {
    case StageModel::kBatched:
      return BatchedShape(stage, decisions);
    case StageModel::kWindow:
      return WindowShape(stage, decisions);
    case StageModel::kStreams:
      return StreamsShape(stage, decisions);
    case StageModel::kStreaming:
      return PassesShape(stage, decisions);
    case StageModel::kTransform:
      return TransformShape(stage, decisions);
    default:
      return TiledShape(stage, decisions);
  }
}

AttentionShapes AttentionShapesOf(const StageModel& s, const Decisions& d) {
  const double m0 = Level(d, s.m_knob, 0);
  AttentionShapes shapes;
  for (StageShape* shape : {&shapes.scores, &shapes.weighted}) {
    shape->tasks = Number(s.outer) * m0;
    shape->row_tiles = Level(d, s.m_knob, 1);
    shape->rows = Level(d, s.m_knob, 2);
    shape->all_rows = m0 * shape->row_tiles * shape->rows;
    const bool first = shape == &shapes.scores;
    const int columns = first ? s.n_knob : s.depth_knob;
    shape->column_tiles = Level(d, columns, 0);
    shape->columns = Level(d, columns, 1);
    shape->all_columns = shape->column_tiles * shape->columns;
    shape->sum = Number(first ? s.k : s.n) / Number(s.group);
    shape->terms = Level(d, first ? s.k_knob : s.row_knob, 0);
    AddOperands(*shape, Number(s.element_bytes));
  }
  return shapes;
}

}  // namespace autotune
