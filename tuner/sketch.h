// Sketches: traces whose sampling steps are undecided, together with the facts by which a search draws, changes and
// scores decisions without a replay. Plain values; thread-safe once made. Rules make them (tuner/rule/rule.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "schedule/trace.h"
#include "support/rng.h"
#include "target/target.h"

namespace autotune {

// One undecided sampling step of a sketch. Its domain does not depend on the other decisions.
struct Knob {
  int step = 0;                     // index in the trace
  int64_t extent = 0;               // sample_tile: extent of the loop
  std::vector<int64_t> candidates;  // sample_categorical: values; sample_compute_location: depths (-1: at the root)
};

// A tiled loop may run over all pixels of an image, while an operand is indexed by the row and the column of the pixel.
// This struct says how the operand splits the loop's index. For each pixel the operand is read in a window, and the
// windows slide over the image. If the loop runs along one row only, windows slide along its columns.
struct ImageModel {
  int64_t row = 0;                 // pixels of a row; 0: all addresses are linear in the index
  int64_t column = 0;              // elements in each column of a window, if row is 0; 0: no window slides
  int64_t length = 0, images = 1;  // if row is 0: elements of the operand along the row; its images
  // `step`: distance in the operand between the windows of neighbouring rows or columns of the image. `reach`: distance
  // between the first and the last row or column that one window reads.
  int64_t row_step = 1, row_reach = 0, column_step = 1, column_reach = 0;
  int64_t row_taps = 1, column_taps = 1;  // rows and columns that one window reads
};

// What a product reads of each column. A step of its sum is a term, or a group of terms that one instruction takes.
struct ColumnModel {
  int64_t bytes = 4;    // of one loaded element
  int64_t held = 1;     // steps whose terms a loaded element holds
  int conversions = 0;  // operations that make the factors of a step from loaded elements
};

// The facts about one block that the draft score needs. Extents are those of the whole loops. Members called ..._knob
// are indices in Sketch::knobs; -1: there is no such knob.
struct StageModel {
  // The meaning of the members for each kind. The comments of the members describe kTiled, kStreaming and kWindow.
  //  - kBatched: `outer` matrix products m x n x k. Tiles have two factors: outer and register.
  //  - kTransform: `outer` times m tiles of n channels, with k results for each tile and channel.
  //  - kStreams: m rows. row_knob: rows of a tile; all rows without it. n_knob: columns of a panel. m_knob: panels read
  //    side by side. `operands`: constants with such panels.
  //  - kGpuTiled: `outer` products m x n x k. m_knob: rows of a thread. n_knob times `lanes`: columns of a thread;
  //    depth_knob: replaces these `lanes`. rows_knob, row_knob: threads of a block along m and n. k_knob times `depth`:
  //    steps of a piece of the sum, whose operands are in shared memory. stages_knob: stages of the software pipeline
  //    over pieces. `pieces`: slices of the sum, of k steps each, that different threads of a block compute.
  //  - kGpuTensor: `outer` products m x n x k on tensor cores. m_knob times n_knob: matrices of 16 x 8 elements for
  //    each warp. rows_knob: lanes along m, 8 for each warp. row_knob: warps along n. k_knob times `depth`: steps of a
  //    piece of the sum. stages_knob: as for kGpuTiled.
  //  - kGpuElements: m elements of k steps each, of which a thread unrolls `depth`. n_knob: neighbouring elements of a
  //    thread. rows_knob times `lanes`: threads of a block. `columns`: elements of a block, if they do not follow from
  //    its threads. row_bytes: bytes that the loads of one step of an element move through the L1 cache.
  //  - kGpuUnbound: as kGpuElements, but lowering chooses the threads (lower/bind_rest.cc).
  //  - kGpuRows: m rows of k pieces of n elements, in passes with `depth` sums. rows_knob: rows of a block of threads.
  //    k_knob: threads along the pieces of a row, each with `lanes` neighbouring elements of a piece. `packed`: threads
  //    keep their elements in registers; otherwise row_bytes of each row are in shared memory.
  //  - kGpuSums: `outer` times m rows of n sums of k steps. The rows share the operand that depends on the columns.
  //    n_knob: threads along columns, each with `lanes` columns. k_knob: threads along the steps, each of which unrolls
  //    `depth` steps.
  //  - kAttention: `outer` times m rows of n scores, which are sums of k products; and m rows of `depth` results, which
  //    are sums of n products. `operations`: operations of the passes between the products. m_knob: rows of both
  //    products. n_knob, k_knob: columns and unrolled steps of the first product. depth_knob, row_knob: columns and
  //    unrolled steps of the second product. location_knob, rows_knob: where the keys and the values are packed; -1:
  //    they are not. `group`: steps of both sums that one instruction takes, together as wide as a result.
  enum Kind {
    kTiled,
    kStreaming,
    kBatched,
    kTransform,
    kWindow,
    kStreams,
    kAttention,
    kGpuTiled,
    kGpuTensor,
    kGpuElements,
    kGpuUnbound,
    kGpuRows,
    kGpuSums
  } kind = kStreaming;
  // The block that this stage models: for attention the second product, for several passes over rows the last pass.
  // Empty for a block whose body is a whole program.
  Name block;
  int m_knob = -1, n_knob = -1, k_knob = -1;  // tiles (outer, middle, register) of m and n; unroll factor of k
  // Tiled: each of the `outer` n operands has `shared` products, such as the images of a batch. turns_knob: how many of
  // them a task computes, one after the other. m and m_knob are those of one product.
  int64_t shared = 1;
  int turns_knob = -1;
  int64_t outer = 1, m = 1, n = 1, k = 1;  // iterations of loops; n: the vectorized one; k: all reductions together
  // Tiled: iterations of those `outer` loops that are inside the loop over m, such as the groups of a convolution. So a
  // row of the result consists of that many pieces of n elements.
  int64_t pieces = 1;
  bool n_inside = false;      // true: the middle loop over n is inside the middle loop over m
  int64_t group = 1;          // attention: see there
  bool packed = false;        // true: the n operand is packed into panels as wide as the register tile
  bool broadcast = true;      // true: the m operand does not depend on n, as in a matrix product
  int64_t element_bytes = 4;  // size of a result's element; operands are assumed to have the same size
  ColumnModel column;         // streams: the constants of a column
  double flops = 2;           // GPUs: operations per point
  // Streaming: totals of all passes and `block`. Attention: totals of the passes. Transforms: write_bytes is the larger
  // of the bytes that they read and write.
  double operations = 0, read_bytes = 0, write_bytes = 0;
  // Streaming: where the stage is computed, inside the loops of `consumer`. Tiled: where panels are packed at run time.
  int location_knob = -1;
  int rows_knob = -1;      // tiled: where the m operand is packed at run time
  int64_t panel_sets = 1;  // tiled: number of different matrices from which n operands of the `outer` products come
  // Prefetch distances: panel_ahead_knob in panels (tiled, batched), rows_ahead_knob in tiles of rows (tiled,
  // streaming, window).
  int panel_ahead_knob = -1, rows_ahead_knob = -1;
  int stages_knob = -1;
  int64_t row_bytes = 0;        // tiled: distance of neighbouring rows of the m operand; 0: unknown
  ImageModel m_image;           // tiled: the image that operands split m into
  bool tile_registers = false;  // tiled: by registers of two dimensions; k counts groups (ir/tile_product.h)
  double met = 1;            // tiled: share of the steps of the sum that are not skipped as padding, over all results
  bool added_apart = false;  // tiled: one instruction multiplies and another one adds, as for words (ir/dot.h)
  int consumer = -1;         // index of the stage that reads this stage's result
  int64_t tasks = 0;  // iterations of the parallel loop that the stage is in; 0: it has parallel loops of its own
  // Window: `rows` rows of m pixels with n channels each; a window has window_rows rows and k columns; m_knob: a tile
  // of pixels (outer, register).
  int h_knob = -1;                     // tile of the rows (outer, register)
  int row_knob = -1, depth_knob = -1;  // unroll factors over the rows of a window and over channels
  int64_t rows = 1, window_rows = 1, stride = 1, lanes = 1;
  int64_t columns = 0;        // streaming: pixels in each of the `rows` rows of an image; 0: there is no image
  int64_t depth = 1;          // input channels that an output sums over
  int operands = 1;           // number of buffers that an update reads; 2 with weights
  double epilogue_flops = 0;  // operations per point
  // Window: one task computes all tiles of rows of an image, one after the other.
  bool rows_in_order = false;
  // Streaming: a parallel loop over vectors of n elements. Transform: each piece of the channels is a task.
  bool shares_vectors = false;
  // Attention: the first product. Attention, streaming: passes that the stage computes beside `block`.
  Name scores;
  std::vector<Name> passes;
};

struct Sketch {
  std::string name;     // for people: the rules and the ways that made the sketch
  int alternative = 0;  // index into the task's alternatives
  Trace trace;
  std::vector<Knob> knobs;
  std::vector<StageModel> stages;
};

// One decision for each knob.
using Decisions = std::vector<Decision>;

// Draws decisions: by the probabilities of the step if it has some, else uniformly. Drawing needs no replay.
Decision DrawDecision(const Sketch& sketch, int knob, Rng& rng);
Decisions DrawDecisions(const Sketch& sketch, Rng& rng);
// Returns every decision that is one move away from `from`: tiles with another factor, or the other choices. `from`
// itself is not among them.
std::vector<Decision> NeighboursOf(const Sketch& sketch, int knob, const Decision& from);
// Returns a random neighbour of `from`. In one of four cases it draws a new tile instead. It also draws anew if there
// are no neighbours. A new draw may return `from` itself.
Decision MutateDecision(const Sketch& sketch, int knob, const Decision& from, Rng& rng);
// Returns the decisions with each innermost tile and each unroll factor as small as it can be. Middle tiles grow by as
// much, so that parallel tasks stay about the same. Stages are computed outside the loops of their consumers, since
// addresses inside them would take registers. Other choices, such as prefetch distances, get their smallest value, too.
// Builds rarely reject such a body.
Decisions WithSmallestBody(const Sketch& sketch, Decisions decisions);
// Returns true if the knob can take this decision, which may come from a record or an imported trace.
bool Allows(const Sketch& sketch, int knob, const Decision& decision);

// Returns the sketch's trace with these decisions filled in.
Trace Decide(const Sketch& sketch, const Decisions& decisions);
uint64_t HashDecisions(const Sketch& sketch, const Decisions& decisions);

// The draft score: estimates the seconds of one run from decisions and shapes alone, by an analytic model of issue
// slots in the register tile, cache traffic, overshoot of tiles, and balance over cores. Good only for comparing
// candidates of one task. Infinite if a tile does not fit its memory: the registers, and on GPUs the shared memory.
double DraftSeconds(const Sketch& sketch, const Decisions& decisions, const Target& target);
// Returns the seconds of one stage on a GPU. They are a part of the draft score (gpu_draft.cc).
double GpuStageSeconds(const StageModel& stage, const Decisions& decisions, const Target& target);

}  // namespace autotune
