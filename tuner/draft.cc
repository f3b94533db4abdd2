// The analytic draft score. Numbers are cycles of a core with two FMA ports and two vector loads a cycle, which fits
// the x86 and Arm cores of the last decade well enough to rank candidates.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tuner/rule/rule.h"
#include "tuner/sketch.h"

namespace autotune {
namespace {

constexpr double kHz = 3e9;
constexpr double kTaskCycles = 120;   // handing one parallel task out
constexpr double kForkCycles = 450;   // fork and join of one parallel loop: 0.12 to 0.18 us (bench/fork_join.cc)
constexpr double kBytesPerCycle = 6;  // memory, one core
constexpr double kL2BytesPerCycle = 32;
constexpr double kL3BytesPerCycle = 10;
constexpr double kLatency = 4;    // of an FMA
constexpr double kIssue = 0.4;    // part of a step's loads that its multiply-adds do not hide
constexpr double kAddresses = 8;  // that stay in registers
// General registers that a loop over k needs beside the addresses of pixels in several rows: the stack, the panel, the
// counter, its end, and one to compute with. With 11 such pixels, no loop on x86-64 spills; with 12, each does.
constexpr double kLoopRegisters = 5;
constexpr double kWays = 8;         // of an L1 cache
constexpr double kLongPiece = 256;  // bytes in a row that come in as fast as all of it
// Times the traffic, if prefetched lines are evicted before they are used: between 1 (none) and 2 (all). The oracle's
// recording of a Zen 5 shows 1.38 for panels of 0.7 MB and an L2 cache of 1 MB.
constexpr double kEvicted = 1.35;

// Returns the number of elements in a vector register.
double Lanes(const StageModel& s, const Target& target) {
  return target.VectorLanes(static_cast<int>(8 * s.element_bytes));
}

double Ceil(double a, double b) { return std::ceil(a / b); }

// Cycles until all tasks are done: whole waves of tasks over the cores.
double Spread(double tasks, double cycles_per_task, const Target& target) {
  double waves = Ceil(tasks, target.num_cores);
  return waves * (cycles_per_task + kTaskCycles) + (tasks > 1 ? kForkCycles : 0);
}

// Bytes a cycle at which data of this size comes in, when it is read again and again.
double Bandwidth(double bytes, const Target& target) {
  if (bytes <= 0.75 * static_cast<double>(target.l1_bytes)) return 64;
  if (bytes <= 0.75 * static_cast<double>(target.l2_bytes)) return kL2BytesPerCycle;
  if (bytes <= 0.5 * static_cast<double>(target.l3_bytes)) return kL3BytesPerCycle;
  return kBytesPerCycle;
}

// Bytes a cycle at which constants of this size come in once a run. Between two runs the rest of a network passes: what
// a core's own cache cannot hold comes from memory.
double FirstBandwidth(double bytes, const Target& target) {
  return bytes <= 0.75 * static_cast<double>(target.l2_bytes) ? kL2BytesPerCycle : kBytesPerCycle;
}

// Whether a register tile of these accumulators, `loaded` vectors, a broadcast, and a product where no instruction adds
// it at once fits the register file. With all registers taken, many steps of k in a row leave the scheduler none for
// what comes next: it spills.
bool FitsRegisters(double accumulators, double loaded, double unroll, const Target& target) {
  double registers = accumulators + loaded + (target.has_fma ? 1 : 2);
  bool crowded = target.vector_registers > 16 && unroll > 4 && registers > target.vector_registers - 2;
  return registers <= target.vector_registers && !crowded;
}

// Cycles of one step of k: multiply-adds on two ports, loads on two ports, and the chain through each accumulator.
// Loads cost even where they do not bind: they share the issue width, and a neighbour on the same core takes half of
// their ports. So 6 x 4 accumulators (10 loads) beat 12 x 2 (14) by a tenth where both have 24 multiply-adds.
double StepCycles(double fma, double load, double unroll) {
  return std::max({fma, load, kLatency}) + kIssue * std::min(fma, load) + 0.5 / unroll;
}

// Returns true if a register tile may begin a new row of the image. Then each of its rows has an address of its own;
// within one row of an image, they are one address and offsets.
bool CrossesRows(const StageModel& s, double mr) {
  return s.broadcast && s.rows_knob < 0 && s.image_row > 0 && s.image_row % static_cast<int64_t>(mr) != 0;
}

// Cycles that addresses cost in an iteration of the inner loop. Rows of a tile that overshoots are clamped, so each has
// an address of its own, too.
double AddressCycles(const StageModel& s, double covered, double mr) {
  if (!s.broadcast || s.rows_knob >= 0 || mr == 1) return 0;
  if (!CrossesRows(s, mr) && covered == static_cast<double>(s.m)) return 0;
  return 0.8 * (s.image_row > 0 ? mr : std::max(0.0, mr - kAddresses));
}

double TiledCycles(const StageModel& s, const Decisions& d, const Target& target) {
  auto tile = [&](int knob, int level) { return knob < 0 ? 1.0 : static_cast<double>(d[knob].values[level]); };
  const double bytes = static_cast<double>(s.element_bytes);
  double lanes = Lanes(s, target);
  double m0 = tile(s.m_knob, 0), m1 = tile(s.m_knob, 1), mr = tile(s.m_knob, 2);
  double n0 = tile(s.n_knob, 0), n1 = tile(s.n_knob, 1), nr = tile(s.n_knob, 2);
  if (s.n_knob < 0) nr = static_cast<double>(s.n);
  double unroll = s.k_knob < 0 ? 1 : static_cast<double>(d[s.k_knob].values[0]);
  double nv = Ceil(nr, lanes);
  double k = static_cast<double>(s.k);

  if (!FitsRegisters(mr * nv, s.broadcast ? nv : 0, unroll, target)) return std::numeric_limits<double>::infinity();

  if (CrossesRows(s, mr) && mr + kLoopRegisters > target.general_registers)
    return std::numeric_limits<double>::infinity();

  double fma = mr * nv / 2, load = (s.broadcast ? mr + nv : mr * nv + nv) / 2;
  double step = StepCycles(fma, load, unroll);
  // The panel of n (k x nr) is streamed once for each row tile, rows of m (mr x k) once for each column tile.
  double panel = k * nr * bytes, rows = mr * k * bytes;
  // Unpacked, its rows lie apart: they compete for few sets of a cache, and no prefetcher follows them.
  double spread = s.packed || !s.broadcast
                      ? 1
                      : static_cast<double>(std::min<int64_t>(s.n * s.element_bytes, kPage)) / (nr * bytes);
  double weights = k * static_cast<double>(s.n) * bytes;
  double panel_from = panel * std::max(1.0, spread) * (s.n_inside ? n1 : 1);  // touched before the panel comes again
  double rows_from = s.n_inside ? rows : rows * m1;
  double traffic = 0;
  if (s.broadcast) {
    double a = mr * bytes / Bandwidth(rows_from + panel, target);
    // Rows that far apart share one set of the L1 cache, and evict each other.
    if (s.rows_knob < 0 && s.row_bytes > 0 && s.row_bytes % kPage == 0 && mr + nv > kWays) a *= 6;
    // A task reads each panel for m1 row tiles in a row. Before the task's first one, all other panels came by.
    double near = 1 / Bandwidth(panel_from + rows, target), far = near;
    if (!s.n_inside && m0 > 1) far = std::max(near, 1 / Bandwidth(weights, target));
    traffic = nr * bytes * (spread > 4 ? 2 : 1) * (far + (m1 - 1) * near) / m1 + a;
  } else {
    traffic = mr * nr * bytes / Bandwidth(mr * nr * k * bytes, target);
  }
  double overlap = std::max(step, traffic) + 0.15 * std::min(step, traffic);
  if (!s.packed && s.broadcast) overlap *= 1.1;  // translations
  double micro = k * overlap + mr * nv * 3 + 30 + AddressCycles(s, m0 * m1 * mr, mr) * k / unroll;
  double outer = static_cast<double>(s.outer), task = m1 * n1 * micro, before = 0;

  const double cores = static_cast<double>(target.num_cores);
  // Packing at run time: everything beforehand, or what a task needs in it, once or again in each turn of a middle
  // loop.
  auto pack = [&](int knob, double all, double part, double parts, bool outermost, double turns) {
    if (knob < 0) return;
    int64_t depth = d[knob].values[0];
    double read = 1 / Bandwidth(2 * all, target);
    if (depth < 0) {
      before += Spread(all / part, 2 * part * read, target);
      // Each core packs a share of the panels, and later reads those of the others from their caches.
      before += all / kL3BytesPerCycle / cores * (1 - 1 / cores);
      return;
    }
    double held = depth > 0 && outermost ? part : part * parts;
    task += (depth > 0 && !outermost ? turns : 1) * parts * part * (read + 1 / Bandwidth(held, target));
  };
  pack(s.location_knob, k * static_cast<double>(s.n) * bytes, panel, n1, !s.n_inside, m1);
  pack(s.rows_knob, k * static_cast<double>(s.m) * bytes * outer, rows, m1, s.n_inside, n1);
  double tasks = outer * m0 * n0, busy = before + Spread(tasks, task, target);
  // What each operand costs when it comes for the first time, from further away than its copy in the inner caches,
  // hides behind the multiply-adds as far as it was asked for early; asking costs a little itself.
  double workers = std::min(tasks, static_cast<double>(target.num_cores));
  auto first = [&](double size, double bandwidth, double tile, int knob) {
    bool ahead = knob >= 0 && d[knob].values[0] > 0;
    double cycles = size / bandwidth / workers;
    // The tile in use and the next one must both stay in a core's own cache. Else lines that were asked for leave it
    // before they are used, and come a second time.
    if (ahead && 2 * tile > 0.75 * static_cast<double>(target.l2_bytes)) {
      ahead = false;
      cycles *= kEvicted;
    }
    busy = (ahead ? 1.01 : 1) * std::max(busy, cycles) + (ahead ? 0.1 : 0.3) * std::min(busy, cycles);
  };
  double all_rows = k * static_cast<double>(s.m) * bytes * outer;
  if (s.packed && s.location_knob < 0) {
    first(weights, FirstBandwidth(weights, target), panel, s.panel_ahead_knob);
  } else if (s.panel_ahead_knob >= 0) {
    first(weights, Bandwidth(weights, target), panel, s.panel_ahead_knob);
  }
  if (s.rows_ahead_knob >= 0) first(all_rows, Bandwidth(2 * all_rows, target), rows, s.rows_ahead_knob);
  return busy;
}

// Work inside a parallel loop of `tasks` equal iterations, which another stage pays for.
double Shared(double tasks, double cycles, const Target& target) {
  return Ceil(tasks, target.num_cores) / tasks * cycles;
}

double BatchedCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const double bytes = static_cast<double>(s.element_bytes);
  double lanes = Lanes(s, target);
  double mo = static_cast<double>(d[s.m_knob].values[0]), mr = static_cast<double>(d[s.m_knob].values[1]);
  double no = static_cast<double>(d[s.n_knob].values[0]), nr = static_cast<double>(d[s.n_knob].values[1]);
  double unroll = static_cast<double>(d[s.k_knob].values[0]);
  double nv = Ceil(nr, lanes), k = static_cast<double>(s.k), m = static_cast<double>(s.m), n = static_cast<double>(s.n);
  // Of a column of rows, several steps of k in a row have no registers left for what comes next.
  bool column = nv == 1 && mr > 7 && unroll > 1 && target.vector_registers <= 16;
  if (column || !FitsRegisters(mr * nv, nv, unroll, target)) return std::numeric_limits<double>::infinity();
  double step = StepCycles(mr * nv / 2, (mr + nv) / 2, unroll);
  // A panel comes from far for the first rows, from near for the others; rows are read again for every panel.
  double points = static_cast<double>(s.tasks ? s.outer / s.tasks : s.outer);
  double panel = k * nr * bytes, far = FirstBandwidth(points * k * n * bytes, target),
         near = Bandwidth(panel + mr * k * bytes, target);
  double traffic = nr * bytes * (1 / far + (mo - 1) / near) / mo + mr * bytes / Bandwidth(m * k * bytes, target);
  bool ahead = s.panel_ahead_knob >= 0 && d[s.panel_ahead_knob].values[0] > 0;
  double overlap = (ahead ? 1.01 : 1) * std::max(step, traffic) + (ahead ? 0.1 : 0.3) * std::min(step, traffic);
  double micro = k * overlap + mr * nv * 3 + 30, panels = static_cast<double>(s.outer) * no;
  if (s.tasks) return Shared(static_cast<double>(s.tasks), panels * mo * micro, target);
  return Spread(panels, mo * micro, target);
}

double TransformCycles(const StageModel& s, const Target& target) {
  double vectors = static_cast<double>(s.m) * Ceil(static_cast<double>(s.n), Lanes(s, target));
  // Two passes of about two operations, a load and a store for each element.
  double cycles = 4 * static_cast<double>(s.k) * vectors + s.write_bytes / Bandwidth(2 * s.write_bytes, target);
  double outer = static_cast<double>(s.outer);
  if (s.tasks) return Shared(static_cast<double>(s.tasks), outer * cycles, target);
  return Spread(static_cast<double>(s.m), cycles * outer / static_cast<double>(s.m), target);
}

double WindowCycles(const StageModel& s, const Decisions& d, const Target& target) {
  auto tile = [&](int knob, int level) { return knob < 0 ? 1.0 : static_cast<double>(d[knob].values[level]); };
  const double bytes = static_cast<double>(s.element_bytes);
  // One vector of the schedule may take several vector registers of the machine.
  double lanes = static_cast<double>(s.lanes), registers = std::max(1.0, lanes / Lanes(s, target));
  double h0 = tile(s.h_knob, 0), hr = tile(s.h_knob, 1), wr = tile(s.m_knob, 1);
  double c0 = tile(s.n_knob, 0), c1 = tile(s.n_knob, 1), cr = tile(s.n_knob, 2);
  double nv = cr / lanes * registers;
  double rows = static_cast<double>(s.window_rows), columns = tile(s.k_knob, 0);
  bool whole = columns == static_cast<double>(s.k), tall = tile(s.row_knob, 0) == rows;
  double stride = static_cast<double>(s.stride);
  double depth = static_cast<double>(s.depth);
  double tile_vectors = hr * wr * nv, taps = depth * rows * static_cast<double>(s.k);
  double row = whole ? (wr - 1) * stride + static_cast<double>(s.k) : wr;  // input vectors of a row in use at a time
  if (tile_vectors + nv + 1 > target.vector_registers) return std::numeric_limits<double>::infinity();
  double in_rows = tall ? (hr - 1) * stride + rows : hr;  // of the input, in use at a time
  // Channels of a group are permutations of one vector, which costs a port of the multiply-adds; unrolled, all are made
  // of what was loaded once, which stays in registers.
  bool deep = depth > 1 && tile(s.depth_knob, 0) == depth;
  double held = row + 1 + (deep ? row * in_rows : 0);
  double excess = std::max(0.0, tile_vectors + held * nv - target.vector_registers);

  // Inputs are loaded once for each use that unrolling does not show to be the same; weights once a tile.
  double input = nv * (tall ? in_rows : hr * rows) * (whole ? row : wr * static_cast<double>(s.k));
  double loads = (deep ? 1 : depth) * input + (s.operands > 1 ? taps * nv : 0);
  double permuted = depth > 1 ? depth * input : 0;
  double issue = std::max(tile_vectors * taps + permuted, loads) / 2 + excess * rows * depth;
  double chain =
      taps * kLatency / (tall && whole ? 2 : 1);  // tiles overlap as far as the window of instructions reaches
  double epilogue = tile_vectors * (3 + s.epilogue_flops / 2);
  double overhead =
      12 + (deep ? 1 : depth) * ((tall ? 0 : 6 * rows) + (whole ? 0 : 3 * rows * static_cast<double>(s.k) / columns));
  double cycles = std::max(issue, chain) + epilogue + overhead;
  double tiles = std::ceil(static_cast<double>(s.m) / wr * 4) / 4 * c1;
  // What overshoots is guarded: a branch for each of its rows or pixels, and nothing of it is shared.
  if (h0 * hr > static_cast<double>(s.rows)) cycles *= 1.1;
  if (tile(s.m_knob, 0) * wr > static_cast<double>(s.m)) cycles *= 1.1;

  // A task reads hr * stride new rows; the others were read by the task before.
  double slice = static_cast<double>(s.m) * stride * c1 * cr * bytes;
  double all = slice * static_cast<double>(s.rows) * stride * c0 * static_cast<double>(s.outer);
  double old = std::max(0.0, rows - stride);
  double traffic = slice * (hr * stride + 1) / Bandwidth(2 * all, target) +
                   slice * old / Bandwidth(slice * (rows + hr * stride), target);
  // Channels in pieces: what lies between them is skipped, and prefetchers follow less well.
  double piece = (s.n_inside ? c1 : 1) * cr * bytes;
  if (piece < kLongPiece && c0 * c1 > 1) traffic *= 1 + 0.5 * std::log2(kLongPiece / piece);
  // From memory, a tile of many pixels waits: it touches more lines at once than a core has misses in flight, and a
  // piece of the channels only, it comes back to each pixel when prefetchers have left it.
  if (Bandwidth(2 * all, target) == kBytesPerCycle) traffic *= 1 + (c1 > 1 ? 0.12 : 0.06) * (wr - 1) * stride;
  double busy = tiles * cycles;
  bool ahead = s.rows_ahead_knob >= 0 && d[s.rows_ahead_knob].values[0] > 0;
  return Spread(static_cast<double>(s.outer) * c0 * h0,
                std::max(busy, traffic) + (ahead ? 0.1 : 0.3) * std::min(busy, traffic), target);
}

double StreamsCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const double bytes = static_cast<double>(s.element_bytes);
  double lanes = Lanes(s, target), panels = static_cast<double>(d[s.m_knob].values[0]);
  double width = static_cast<double>(d[s.n_knob].values[0]), unroll = static_cast<double>(d[s.k_knob].values[0]);
  double k = static_cast<double>(s.k), n = static_cast<double>(s.n), rows = static_cast<double>(s.m);
  double vectors = panels * width / lanes;
  if (!FitsRegisters(rows * vectors, rows > 1 ? vectors : 0, unroll, target)) {
    return std::numeric_limits<double>::infinity();
  }
  double step = std::max({rows * vectors / 2, (rows + vectors) / 2, kLatency}) + 0.5 / unroll;
  double share = std::min(1.0, 0.65 + 0.117 * std::log2(panels));  // of the bandwidth that many streams reach
  double traffic = panels * width * bytes / (share * FirstBandwidth(k * n * bytes, target));
  double task = k * (std::max(step, traffic) + 0.1 * std::min(step, traffic)) + rows * vectors * 3 + 30;
  return Spread(Ceil(n, panels * width), task, target);
}

// How often an image stage is computed over, if it is computed inside its consumer `c` for tasks of `positions`
// consecutive positions each. A task that crosses the end of a row needs all columns of each row that it touches; rows
// and columns that the windows of two tasks share are computed for both.
double Recomputed(const StageModel& s, const StageModel& c, double positions) {
  if (c.image_row == 0 || s.image_row == 0) return 1;
  const double width = static_cast<double>(c.image_row), all = static_cast<double>(c.m), height = all / width;
  const double rows = static_cast<double>(s.rows), columns = static_cast<double>(s.image_row);
  const bool within_row = std::fmod(width, positions) == 0, whole_rows = std::fmod(positions, width) == 0;
  double touched = within_row ? 1 : whole_rows ? positions / width : std::floor((positions - 2) / width) + 2;
  touched = std::min(touched, height);
  const double needed_rows = (touched - 1) * static_cast<double>(c.row_step) + static_cast<double>(c.row_reach) + 1;
  const double needed_columns =
      within_row ? (positions - 1) * static_cast<double>(c.column_step) + static_cast<double>(c.column_reach) + 1
                 : columns;
  const double part = std::min(1.0, needed_rows / rows) * std::min(1.0, needed_columns / columns);
  return std::max(1.0, Ceil(all, positions) * part);
}

double StreamingCycles(const StageModel& s, const Sketch& sketch, const Decisions& d, const Target& target) {
  double bytes = s.read_bytes + s.write_bytes;
  double cycles = bytes / Bandwidth(bytes, target) + static_cast<double>(s.outer * s.m * s.n) * s.flops / 8;
  if (s.location_knob >= 0 && d[s.location_knob].values[0] >= 0 && s.consumer >= 0) {
    // Computed inside its consumer: from the cache, but again for every column tile and every halo.
    const StageModel& c = sketch.stages[s.consumer];
    double again = 1;
    if (c.n_knob >= 0) again *= static_cast<double>(d[c.n_knob].values[0]);
    double m0 = 1;
    if (c.m_knob >= 0) {
      const std::vector<int64_t>& tile = d[c.m_knob].values;
      m0 = static_cast<double>(tile[0]);
      const bool deeper = d[s.location_knob].values[0] >= 1;
      again *= Recomputed(s, c, static_cast<double>(tile.back() * (deeper || tile.size() < 3 ? 1 : tile[1])));
    }
    double per_task = bytes / std::max(1.0, m0);
    double fast = bytes / Bandwidth(per_task, target);
    return (0.5 * fast + cycles * 0.3) * again * 1.2 / target.num_cores;
  }
  if (s.rows_ahead_knob >= 0) cycles *= 1 + 0.2 / (1 + static_cast<double>(d[s.rows_ahead_knob].values[0]));
  double tasks = static_cast<double>(s.outer);
  double unroll = s.k_knob < 0 ? 1 : static_cast<double>(d[s.k_knob].values[0]);
  return Spread(tasks, cycles / tasks * (1 + 0.05 / unroll), target);
}

}  // namespace

double DraftSeconds(const Sketch& sketch, const Decisions& decisions, const Target& target) {
  double cycles = 0;
  for (const StageModel& stage : sketch.stages) {
    switch (stage.kind) {
      case StageModel::kTiled:
        cycles += TiledCycles(stage, decisions, target);
        break;
      case StageModel::kStreaming:
        cycles += StreamingCycles(stage, sketch, decisions, target);
        break;
      case StageModel::kBatched:
        cycles += BatchedCycles(stage, decisions, target);
        break;
      case StageModel::kTransform:
        cycles += TransformCycles(stage, target);
        break;
      case StageModel::kStreams:
        cycles += StreamsCycles(stage, decisions, target);
        break;
      case StageModel::kWindow:
        cycles += WindowCycles(stage, decisions, target);
        break;
    }
  }
  return cycles / kHz;
}

}  // namespace autotune
