// Sketches: traces whose sampling steps are undecided, together with what search needs to draw, change and judge
// decisions without replaying them. Plain values; thread-safe once made. Rules make them (tuner/rule/rule.h).
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
  int64_t extent = 0;               // sample_tile: of the loop
  std::vector<int64_t> candidates;  // sample_categorical: values; sample_compute_location: depths (-1: at the root)
};

// The facts about one block that the draft score needs. Extents are those of the whole loops. A knob of -1 is not
// sampled.
struct StageModel {
  // The meaning of the members by kind. kTiled, kStreaming and kWindow: see the members.
  //  - kBatched: `outer` matrix products m x n x k, with tiles of (outer, register).
  //  - kTransform: `outer` times m tiles of n channels. k vector operations for each vector of a tile.
  //  - kStreams: m rows. n_knob: columns of a panel. m_knob: panels read side by side.
  //  - kGpuTiled: `outer` products m x n x k. m_knob, n_knob: elements of a thread. rows_knob, row_knob: threads of a
  //    block along m and n. k_knob times depth: steps of a piece of the sum, whose operands are in shared memory.
  //    stages_knob: pieces under way.
  //  - kGpuTensor: the same by tensor cores. m_knob times n_knob matrices of 16 x 8 for each warp, rows_knob times
  //    row_knob warps, k_knob pieces of `depth`.
  //  - kGpuUnbound: m elements, each by a thread, of k steps.
  //  - kGpuRows: m rows of k pieces of n elements, in passes with `depth` sums. rows_knob: rows of a block of threads.
  //    k_knob: threads along the pieces of a row, each with `lanes` neighbouring elements of a piece. `packed`: threads
  //    keep their elements in registers; otherwise row_bytes of each row are in shared memory.
  //  - kAttention: `outer` times m rows of n scores, which are sums of k products; and m rows of `depth` results, which
  //    are sums of n products. `operations`: those of the passes between. m_knob: rows of both products. n_knob,
  //    k_knob: columns and unrolled steps of the first product; depth_knob, row_knob: of the second one. location_knob:
  //    where the keys are packed.
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
    kGpuUnbound,
    kGpuRows
  } kind = kStreaming;
  // The block that this stage models; for attention the second product, for several passes over rows the last one.
  // Empty for a program without blocks to model, whose loops are not counted.
  Name block;
  int m_knob = -1, n_knob = -1, k_knob = -1;  // tiles of (outer, middle, register); k: unroll factor
  int64_t outer = 1, m = 1, n = 1, k = 1;     // iterations; n is the vector dimension, k all reductions together
  bool n_inside = false;                      // level-1 order: n's middle loop inside m's
  bool packed = false;                        // the n operand is repacked into panels of the register tile's width
  bool broadcast = true;                      // the other operand is broadcast along n (matmul-like), not read along it
  int64_t element_bytes = 4;                  // of the result; operands are assumed to have the same size
  double flops = 2;                           // GPUs: per point
  // Streaming: of all passes and `block`. Attention: of the passes. Transforms: the larger of what they read and write.
  double operations = 0, read_bytes = 0, write_bytes = 0;
  // Where the stage is computed (streaming; models `consumer`), or where the panels are packed at run time (tiled).
  int location_knob = -1;
  int rows_knob = -1;      // tiled: where the broadcast operand is packed
  int64_t panel_sets = 1;  // tiled: of the `outer` products, how many have an n operand of their own
  // Tiled and batched, streaming: how many panels, or tiles (of rows), ahead of the present one memory is asked.
  int panel_ahead_knob = -1, rows_ahead_knob = -1;
  int stages_knob = -1;
  int64_t row_bytes = 0;  // tiled: from one row of the broadcast operand to the next; 0: unknown
  // Tiled: the length of a row of the image, if operands split m into a row and a column of an image; else 0.
  // Streaming: the extent of the last loop but one, which is one of `rows` such loops; 0: there are fewer loops.
  int64_t image_row = 0;
  // Tiled: steps of the operand's rows and columns from one row or column of the image to the next, and the distance
  // from the first to the last that one window reads.
  int64_t row_step = 1, row_reach = 0, column_step = 1, column_reach = 0;
  int64_t row_taps = 1, column_taps = 1;  // rows and columns that one window reads
  int consumer = -1;                      // index of the stage that reads it
  int64_t tasks = 0;  // iterations of the parallel loop that the stage is in; 0: it has parallel loops of its own
  // Window: m pixels of `rows` rows, n channels; k columns and window_rows rows of a window; m_knob: (outer, register).
  int h_knob = -1;                     // tile of the rows (outer, register)
  int row_knob = -1, depth_knob = -1;  // rows of a window, and channels, unrolled
  int64_t rows = 1, window_rows = 1, stride = 1, lanes = 1;
  int64_t depth = 1;          // channels that an output sums over, each a permutation of the vector that holds them
  int operands = 1;           // buffers read in an update: 2 with weights
  double epilogue_flops = 0;  // per point
  // Window: an image's tiles of rows are in one task, one after the other.
  bool rows_in_order = false;
  // Streaming: a parallel loop over vectors of n elements. Transform: each piece of the channels is a task.
  bool shares_vectors = false;
  // Attention: the first product. Attention, streaming: passes that the stage computes beside `block`.
  Name scores;
  std::vector<Name> passes;
};

struct Sketch {
  std::string name;     // for people: which rules and variants made it
  int alternative = 0;  // index into the task's alternatives
  Trace trace;
  std::vector<Knob> knobs;
  std::vector<StageModel> stages;
};

// One decision for each knob.
using Decisions = std::vector<Decision>;

// Seeded draws. Uniform over what the steps allow, weighted as the steps say; they need no replay.
Decision DrawDecision(const Sketch& sketch, int knob, Rng& rng);
Decisions DrawDecisions(const Sketch& sketch, Rng& rng);
// Returns every decision that is one move away from `from`: tiles with another factor, or the other choices. `from`
// itself is not among them.
std::vector<Decision> NeighboursOf(const Sketch& sketch, int knob, const Decision& from);
// Returns a random neighbour of `from`. A knob without neighbours, and one tile in four, is drawn anew instead; that
// may return `from` itself.
Decision MutateDecision(const Sketch& sketch, int knob, const Decision& from, Rng& rng);
// Returns true if the knob can take this decision, which may come from a record or an imported trace.
bool Allows(const Sketch& sketch, int knob, const Decision& decision);

// The sketch's trace with these decisions filled in.
Trace Decide(const Sketch& sketch, const Decisions& decisions);
uint64_t HashDecisions(const Sketch& sketch, const Decisions& decisions);

// The draft score: estimated seconds of one run from decisions and shapes alone, good only for comparing candidates of
// one task. An analytic model: issue slots of the register tile, cache traffic of the blocking, waste by overshoot,
// balance over cores. Infinite if the register tile cannot fit the register file.
double DraftSeconds(const Sketch& sketch, const Decisions& decisions, const Target& target);
// The part of one stage on a GPU (gpu_draft.cc).
double GpuStageSeconds(const StageModel& stage, const Decisions& decisions, const Target& target);

}  // namespace autotune
