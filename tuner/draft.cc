// The analytic draft score: cycles of the cores that target/machine.h describes.
//
// Unless a source is named, the constants below and in draft_cycles.h were fitted by hand, so that candidates rank as
// measured on Zen 3 and Zen 5. Constants without a unit are ratios.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tuner/draft_cycles.h"
#include "tuner/stage_shape.h"

namespace autotune {
namespace {

// ---- Transforms and windows
constexpr double kTransformCycles = 4;    // cycles per vector: two passes of about two operations
constexpr double kTilesInFlight = 2;      // number of unrolled tiles that overlap in the out-of-order window
constexpr double kWindowTileCycles = 12;  // cycles to enter a tile
constexpr double kWindowRowCycles = 6, kWindowColumnCycles = 3;  // cycles of an iteration over rows or columns
constexpr double kGuarded = 1.1;  // factor of the cycles if tiles overshoot: each row or pixel then has a branch
constexpr double kTailParts = 4;  // a partial last tile counts as whole quarters (1 / kTailParts) of a tile
// Relative extra traffic from memory for each input pixel of a tile after the first. Such a tile touches more lines
// than a core can have outstanding misses. kWaitsAll: if it reads all channels of a pixel. kWaitsPieces: if it reads
// the channels in pieces.
constexpr double kWaitsAll = 0.06;
constexpr double kWaitsPieces = 0.12;

// ---- Streams and streaming
// Bandwidth of one stream as a share of the bandwidth of the best number of streams, and the share that each doubling
// of the number of streams adds. Beyond the best number, each doubling takes a share [measured on Zen 4, weights of
// bytes and their scales: 16 streams have 0.81 to 0.85 of the bandwidth of 8].
constexpr double kOneStream = 0.65, kMoreStreams = 0.117, kBestStreams = 8, kTooManyStreams = 0.17;
constexpr int kAvx512Bits = 512;
constexpr double kStreamingFlops = 8;  // operations per cycle
// Factors of the traffic, the cycles and the total of a stage that is computed inside its consumer.
constexpr double kInsideTraffic = 0.5, kInsideCycles = 0.3, kInsideCost = 1.2;
constexpr double kTransposeWaits = 0.2;  // relative extra cycles of a transpose without prefetches: stores stall
constexpr double kStreamingLoop = 0.05;  // relative extra cycles of a loop over vectors that is not unrolled

// Returns true if a register tile may extend over the end of a row of the image. Each row of such a tile needs an
// address of its own. The rows of a tile within one row of the image share one address with constant offsets.
bool CrossesRows(const StageModel& s, double mr) {
  return s.broadcast && s.rows_knob < 0 && s.m_image.row > 0 && s.m_image.row % static_cast<int64_t>(mr) != 0;
}

// Returns true if each row of a tile has an address of its own: the tile may extend over the end of a row of the image,
// or the last tile overshoots, so that its rows are clamped.
bool HasRowAddresses(const StageModel& s, double covered, double mr) {
  if (s.tile_registers) return false;
  if (!s.broadcast || s.rows_knob >= 0 || mr == 1) return false;
  return CrossesRows(s, mr) || covered != static_cast<double>(s.m);
}

// Returns true if the addresses of a tile's rows fit the general registers. Rows that are prefetched have addresses of
// their own. Without prefetches, clamped rows of one matrix share some addresses.
bool FitsAddresses(const StageModel& s, double covered, double mr, bool rows_ahead, const Target& target) {
  double addresses = !s.tile_registers && CrossesRows(s, mr) ? mr : 0;
  if (rows_ahead && HasRowAddresses(s, covered, mr)) addresses = 2 * mr;
  return addresses == 0 || addresses + MachineOf(target).loop_registers <= target.general_registers;
}

// Returns the cycles for addresses in an iteration of the inner loop.
double AddressCycles(const StageModel& s, double covered, double mr) {
  if (!HasRowAddresses(s, covered, mr)) return 0;
  return kAddressCycles * (s.m_image.row > 0 ? mr : std::max(0.0, mr - kAddresses));
}

// Returns the cycles in which the caches deliver the operands of one step of the sum to a register tile. The panel of n
// is streamed once for each row tile, rows of m once for each column tile. `weights` are the bytes of all panels.
double TiledTraffic(const StageModel& s, const StageShape& shape, double weights, const Target& target) {
  const Machine& machine = MachineOf(target);
  const double bytes = static_cast<double>(s.element_bytes);
  const double m1 = shape.row_tiles, mr = shape.rows, n1 = shape.column_tiles, nr = shape.columns;
  const double panel = shape.panel_bytes, rows = shape.rows_bytes;
  if (!s.broadcast) return mr * nr * bytes / Bandwidth(panel, target);
  // Rows of an unpacked panel are apart: they compete for few sets of a cache, and prefetchers do not follow them.
  const double spread =
      s.packed ? 1 : static_cast<double>(std::min<int64_t>(s.n * s.element_bytes, machine.page_bytes)) / (nr * bytes);
  // Bytes that are read before the panel is read again, and before the rows are read again.
  const double panel_from = panel * std::max(1.0, spread) * (s.n_inside ? n1 : 1);
  const double rows_from = s.n_inside ? rows : rows * m1;
  double broadcast = mr * bytes / Bandwidth(rows_from + panel, target);
  // Rows at a distance of whole pages share one set of the L1 cache and evict each other.
  if (s.rows_knob < 0 && s.row_bytes > 0 && s.row_bytes % machine.page_bytes == 0 &&
      mr + Ceil(nr, Lanes(s, target)) > machine.l1_ways)
    broadcast *= kSetConflicts;
  // A task reads each panel for m1 row tiles. Before the first of them, other tasks read all other panels.
  double near = 1 / Bandwidth(panel_from + rows, target), far = near;
  if (shape.all_rows * static_cast<double>(s.shared) > m1 * mr) far = std::max(near, 1 / Bandwidth(weights, target));
  return nr * bytes * (spread > kFarRows ? kFarRowsCost : 1) * (far + (m1 - 1) * near) / m1 + broadcast;
}

double TiledCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const StageShape shape = ShapeOf(s, d);
  const Machine& machine = MachineOf(target);
  const double bytes = static_cast<double>(s.element_bytes);
  double lanes = Lanes(s, target);
  const double m1 = shape.row_tiles, mr = shape.rows, n1 = shape.column_tiles, nr = shape.columns;
  const double unroll = shape.terms, k = shape.sum * s.met, nv = Ceil(nr, lanes);

  if (!s.tile_registers && !FitsRegisters(mr * nv, s.broadcast ? nv : 0, unroll, target, s.added_apart))
    return std::numeric_limits<double>::infinity();

  const bool rows_ahead = s.rows_ahead_knob >= 0 && d[s.rows_ahead_knob].values[0] > 0;
  if (!FitsAddresses(s, shape.all_rows, mr, rows_ahead, target)) return std::numeric_limits<double>::infinity();

  double step = s.tile_registers
                    ? TileStepCycles(mr, nv)
                    : StepCycles(mr * nv, s.broadcast ? mr + nv : mr * nv + nv, unroll, machine, s.added_apart);
  const double panel = shape.panel_bytes, rows = shape.rows_bytes;
  const double weights = shape.sum * static_cast<double>(s.n) * bytes;
  double overlap = Overlapped(step, TiledTraffic(s, shape, weights, target), kExposed);
  if (!s.packed && s.broadcast) overlap *= kTranslations;
  double micro = k * overlap + mr * nv * kStoreCycles + kTileCycles + AddressCycles(s, shape.all_rows, mr) * k / unroll;
  double outer = static_cast<double>(s.outer * s.shared), task = m1 * n1 * micro, before = 0;

  const double cores = static_cast<double>(target.num_cores);
  // Packing at run time happens before all tasks, or inside a task: once, or in each iteration of a middle loop.
  auto pack = [&](int knob, double all, double part, double parts, bool outermost, double turns) {
    if (knob < 0) return;
    int64_t depth = d[knob].values[0];
    double read = 1 / Bandwidth(2 * all, target);
    if (depth < 0) {
      before += Spread(all / part, 2 * part * read, target);
      // Each core packs a share of the panels, and later reads the other panels from other cores' caches.
      before += all / machine.l3_bytes_per_cycle / cores * (1 - 1 / cores);
      return;
    }
    double held = depth > 0 && outermost ? part : part * parts;
    task += (depth > 0 && !outermost ? turns : 1) * parts * part * (read + 1 / Bandwidth(held, target));
  };
  pack(s.location_knob, weights * static_cast<double>(s.panel_sets), panel, n1, !s.n_inside, m1);
  pack(s.rows_knob, shape.sum * static_cast<double>(s.m) * bytes * outer, rows, m1, s.n_inside, n1);
  double busy = before + Spread(shape.tasks, task, target);
  busy += kSharedLine * SharedLines(s, shape, cores, target.cache_line);
  // Adds the time of the first read of an operand, from a farther level than the inner caches that hold the operand
  // later. If the operand is prefetched, its first read overlaps with the multiply-adds, and the prefetches cost a
  // little.
  double workers = std::min(shape.tasks, static_cast<double>(target.num_cores));
  auto first = [&](double size, double bandwidth, double tile, int knob) {
    bool ahead = knob >= 0 && d[knob].values[0] > 0;
    double cycles = size / bandwidth / workers;
    // The tile in use and the next one must both stay in a core's own cache. Otherwise prefetched lines are evicted
    // before they are used, and are fetched a second time.
    if (ahead && 2 * tile > kPrivatePart * static_cast<double>(target.l2_bytes)) {
      ahead = false;
      cycles *= kEvicted;
    }
    busy = OverlappedFirst(busy, cycles, ahead);
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

// Returns the cycles of work inside a parallel loop of `tasks` equal iterations. Another stage counts the loop's cost.
double Shared(double tasks, double cycles, const Target& target) {
  return Ceil(tasks, target.num_cores) / tasks * cycles;
}

// Returns the cycles in which cores read data that another parallel loop wrote. A task reads another part than it
// wrote. So a core has written only its share of its input.
double ExchangeCycles(double bytes, double tasks, const Target& target) {
  const double cores = std::min(tasks, static_cast<double>(target.num_cores)), share = bytes / cores;
  return share * (1 - 1 / cores) / MachineOf(target).other_core_bytes_per_cycle;
}

double BatchedCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const StageShape shape = ShapeOf(s, d);
  const double bytes = static_cast<double>(s.element_bytes);
  const double mo = shape.row_tiles, mr = shape.rows, nr = shape.columns, nv = Ceil(nr, Lanes(s, target));
  const double unroll = shape.terms, k = shape.sum, m = static_cast<double>(s.m), n = static_cast<double>(s.n);
  // On CPUs with few registers, a tile of one vector column and many rows spills if the loop over k is unrolled.
  bool column = nv == 1 && mr > kCrowdedColumn && unroll > 1 && target.vector_registers <= kFewRegisters;
  if (column || !FitsRegisters(mr * nv, nv, unroll, target)) return std::numeric_limits<double>::infinity();
  double step = StepCycles(mr * nv, mr + nv, unroll, MachineOf(target));
  // The first row tile reads a panel from a far level, the others from a near one. For each panel all rows are read
  // again.
  double points = static_cast<double>(s.tasks ? s.outer / s.tasks : s.outer);
  double far = FirstBandwidth(points * k * n * bytes, target),
         near = Bandwidth(shape.panel_bytes + shape.rows_bytes, target);
  double traffic = nr * bytes * (1 / far + (mo - 1) / near) / mo + mr * bytes / Bandwidth(m * k * bytes, target);
  double overlap = OverlappedFirst(step, traffic, s.panel_ahead_knob >= 0 && d[s.panel_ahead_knob].values[0] > 0);
  const double task = shape.column_tiles * mo * (k * overlap + mr * nv * kStoreCycles + kTileCycles);
  if (s.tasks) return Shared(shape.tasks, shape.tasks * task, target);
  return Spread(shape.tasks, task, target) + ExchangeCycles(points * m * (k + n) * bytes, shape.tasks, target);
}

double TransformCycles(const StageModel& s, const Decisions& d, const Target& target) {
  double vectors = static_cast<double>(s.m) * Ceil(static_cast<double>(s.n), Lanes(s, target));
  double cycles =
      kTransformCycles * static_cast<double>(s.k) * vectors + s.write_bytes / Bandwidth(2 * s.write_bytes, target);
  double outer = static_cast<double>(s.outer);
  if (s.tasks) return Shared(static_cast<double>(s.tasks), outer * cycles, target);
  // Tiles are the tasks. Cutting a tile's channels into pieces costs nothing: the oracle's recording of a 3x3
  // convolution has equal times for pieces of one and two vectors (median ratio 1.001 of 89 pairs).
  const double tiles = ShapeOf(s, d).tasks;
  return Spread(tiles, cycles * outer / tiles, target);
}

double WindowCycles(const StageModel& s, const Decisions& d, const Target& target) {
  auto chosen = [&](int knob) { return knob < 0 ? 1.0 : static_cast<double>(d[knob].values[0]); };
  const StageShape shape = ShapeOf(s, d);
  const Machine& machine = MachineOf(target);
  const double bytes = static_cast<double>(s.element_bytes);
  // One vector of the schedule may take several vector registers of the machine.
  double lanes = static_cast<double>(s.lanes), registers = std::max(1.0, lanes / Lanes(s, target));
  const double h0 = chosen(s.h_knob), hr = shape.height, wr = shape.rows;
  const double c0 = chosen(s.n_knob), c1 = shape.column_tiles, cr = shape.columns;
  double nv = cr / lanes * registers;
  double rows = static_cast<double>(s.window_rows), columns = chosen(s.k_knob);
  bool whole = columns == static_cast<double>(s.k), tall = chosen(s.row_knob) == rows;
  double stride = static_cast<double>(s.stride);
  double depth = static_cast<double>(s.depth);
  double tile_vectors = hr * wr * nv, taps = shape.sum;
  double row = std::min(wr * columns, (wr - 1) * stride + columns);  // input vectors of a row in use at a time
  // A tile must not spill inside the loop over the window's columns. If this loop is partly unrolled, the inputs that
  // its unrolled columns share stay in registers, too.
  const bool masked = std::fmod(static_cast<double>(s.n), lanes) != 0 && target.vector_registers <= kFewRegisters;
  double needed = tile_vectors + nv + 1;
  if (!whole && columns > 1) needed += (row - 1) * nv + (masked ? 1 : 0);
  if (needed > target.vector_registers) return std::numeric_limits<double>::infinity();
  double in_rows = tall ? (hr - 1) * stride + rows : hr;  // input rows in use at a time
  // In a grouped convolution, the input channels of a group are permutations of one vector, and a permutation uses a
  // port of the multiply-adds. If the loop over these channels is unrolled, all permutations come from one load, which
  // stays in registers.
  bool deep = depth > 1 && chosen(s.depth_knob) == depth;
  double held = row + 1 + (deep ? row * in_rows : 0);
  double excess = std::max(0.0, tile_vectors + held * nv - target.vector_registers);

  // Unrolled code loads an input once for all its uses; a loop loads it again in each iteration. Weights are loaded
  // once per tile.
  double input = nv * (tall ? in_rows : hr * rows) * row * static_cast<double>(s.k) / columns;
  double loads = (deep ? 1 : depth) * input + (s.operands > 1 ? taps * nv : 0);
  double permuted = depth > 1 ? depth * input : 0;
  double issue = std::max((tile_vectors * taps + permuted) / machine.multiply_add_ports, loads / machine.load_ports) +
                 excess * rows * depth;
  double chain = taps * machine.multiply_add_latency / (tall && whole ? kTilesInFlight : 1);
  double epilogue = tile_vectors * (kStoreCycles + s.epilogue_flops / machine.multiply_add_ports);
  double overhead =
      kWindowTileCycles +
      (deep ? 1 : depth) * ((tall ? 0 : kWindowRowCycles * rows) +
                            (whole ? 0 : kWindowColumnCycles * rows * static_cast<double>(s.k) / columns));
  double cycles = std::max(issue, chain) + epilogue + overhead;
  double tiles = std::ceil(static_cast<double>(s.m) / wr * kTailParts) / kTailParts * c1;
  if (h0 * hr > static_cast<double>(s.rows)) cycles *= kGuarded;
  if (chosen(s.m_knob) * wr > static_cast<double>(s.m)) cycles *= kGuarded;

  // A task reads hr * stride new rows; the previous task has read the others.
  double slice = static_cast<double>(s.m) * stride * c1 * cr * bytes;
  double all = slice * static_cast<double>(s.rows) * stride * c0 * static_cast<double>(s.outer);
  double old = std::max(0.0, rows - stride);
  double traffic = slice * (hr * stride + 1) / Bandwidth(2 * all, target) +
                   slice * old / Bandwidth(slice * (rows + hr * stride), target);
  // If channels are read in pieces, reads skip the memory between them. Prefetchers follow a piece up to its end, or to
  // the end of its page.
  const double piece = (s.n_inside ? c1 : 1) * cr * bytes, page = static_cast<double>(machine.page_bytes);
  const double longest = std::min(static_cast<double>(s.n) * bytes, page);
  if (piece < longest) traffic *= 1 + kPieceLoss * std::log2(longest / piece);
  if (Bandwidth(2 * all, target) == machine.memory_bytes_per_cycle)
    traffic *= 1 + (c1 > 1 ? kWaitsPieces : kWaitsAll) * (wr - 1) * stride;
  const bool ahead = s.rows_ahead_knob >= 0 && d[s.rows_ahead_knob].values[0] > 0;
  const double tile_rows = Overlapped(tiles * cycles, traffic, ahead ? kExposedPrefetched : kExposedFirst);
  return Spread(shape.tasks, (s.rows_in_order ? h0 : 1) * tile_rows, target);
}

// Returns how many loads of a step are operands of its multiply-adds: those of numbers that only one of these reads.
// AVX-512 also broadcasts such an operand.
double FoldedLoads(const StageModel& s, double rows, double vectors, const Target& target) {
  if (rows == 1) return s.column.conversions > 0 ? 0 : vectors;
  return vectors == 1 && target.vector_bits == kAvx512Bits ? rows : 0;
}

double StreamsCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const StageShape shape = ShapeOf(s, d);
  const double panels = static_cast<double>(d[s.m_knob].values[0]), unroll = shape.terms;
  const double k = shape.sum, n = static_cast<double>(s.n), rows = shape.rows;
  const double vectors = shape.columns / Lanes(s, target);
  const double held = static_cast<double>(s.column.held);
  double loaded = rows > 1 ? vectors : 0;
  if (held > 1) loaded += vectors + 1;  // the vectors before they are unpacked, and the table that does it
  if (!FitsRegisters(rows * vectors, loaded, unroll, target)) return std::numeric_limits<double>::infinity();
  const Machine& machine = MachineOf(target);
  const double fma = (rows + s.column.conversions) * vectors / machine.multiply_add_ports;
  const double load = (rows + vectors / held) / machine.load_ports;
  const double apart = load - FoldedLoads(s, rows, vectors, target) / machine.load_ports;
  const double step =
      std::max({fma, load, machine.multiply_add_latency}) + kIssue * std::min(fma, apart) + kLoopCycles / unroll;
  const double streams = panels * s.operands;
  double share = std::min(1.0, kOneStream + kMoreStreams * std::log2(streams));
  if (streams > kBestStreams) share -= kTooManyStreams * std::log2(streams / kBestStreams);
  // The first tile of rows reads a panel from a far level, the others from a near one.
  const double column = static_cast<double>(s.column.bytes) / held;
  const double far = share * FirstBandwidth(k * n * column, target),
               near = Bandwidth(k * shape.columns * column + shape.rows_bytes, target);
  const double traffic = shape.columns * column * (1 / far + (shape.row_tiles - 1) / near) / shape.row_tiles;
  double task = shape.row_tiles *
                (k * Overlapped(step, traffic, kExposedPrefetched) + rows * vectors * kStoreCycles + kTileCycles);
  return Spread(shape.tasks, task, target);
}

// A register tile of a product. Each of the `steps` of its sum reads `a` bytes of rows and `b` bytes of columns, at
// a_rate and b_rate bytes per cycle.
struct ProductTile {
  double rows = 1, vectors = 1, steps = 1, unroll = 1;
  double a = 0, a_rate = 1, b = 0, b_rate = 1;
  double address_cycles = 0;
};
ProductTile TileOf(const StageShape& shape, double lanes) {
  return {.rows = shape.rows, .vectors = Ceil(shape.columns, lanes), .steps = shape.sum, .unroll = shape.terms};
}
double ProductTileCycles(const ProductTile& t, const Machine& machine) {
  const double step = StepCycles(t.rows * t.vectors, t.rows + t.vectors, t.unroll, machine);
  const double traffic = t.a / t.a_rate + t.b / t.b_rate;
  return t.steps * Overlapped(step, traffic, kExposed) + t.rows * t.vectors * kStoreCycles + kTileCycles +
         t.address_cycles * t.steps / t.unroll;
}

double AttentionCycles(const StageModel& s, const Decisions& d, const Target& target) {
  const Machine& machine = MachineOf(target);
  const AttentionShapes shapes = AttentionShapesOf(s, d);
  const double bytes = static_cast<double>(s.element_bytes), lanes = Lanes(s, target);
  const double keys = static_cast<double>(s.n), width = static_cast<double>(s.k), depth = static_cast<double>(s.depth);
  const double operand_bytes = bytes / static_cast<double>(s.group);
  const double m1 = shapes.scores.row_tiles, mr = shapes.scores.rows, rows = m1 * mr;
  ProductTile score = TileOf(shapes.scores, lanes), value = TileOf(shapes.weighted, lanes);
  // Bytes of a task's scores and weights. They must fit the core's own cache if the task has several row tiles.
  const double scratch = rows * keys * (bytes + operand_bytes);
  for (const ProductTile* t : {&score, &value}) {
    if (!FitsRegisters(t->rows * t->vectors, t->vectors, t->unroll, target))
      return std::numeric_limits<double>::infinity();
  }
  if (m1 > 1 && scratch > kPrivatePart * static_cast<double>(target.l2_bytes))
    return std::numeric_limits<double>::infinity();

  const bool overshoots = shapes.scores.all_rows != static_cast<double>(s.m);
  score.address_cycles = value.address_cycles = overshoots ? kAddressCycles * std::max(0.0, mr - kAddresses) : 0;
  const double matrices = (width + depth) * keys * operand_bytes, all = matrices + scratch;
  // All row tiles of a task read a panel of keys in turn. Each row tile reads all columns of the values.
  const double panel = shapes.scores.panel_bytes + rows * width * operand_bytes;
  score.a = mr * bytes, score.a_rate = Bandwidth(panel, target);
  score.b = shapes.scores.columns * bytes,
  score.b_rate = m1 / (1 / Bandwidth(all, target) + (m1 - 1) / Bandwidth(panel, target));
  const double column = shapes.weighted.panel_bytes + shapes.weighted.rows_bytes;
  value.a = mr * bytes, value.a_rate = Bandwidth(scratch, target);
  value.b = shapes.weighted.columns * bytes;
  value.b_rate = m1 / (1 / Bandwidth(all, target) + (m1 - 1) / Bandwidth(column, target));
  // Rows at a distance of whole pages share one set of the L1 cache: rows of weights, and of keys that are not packed.
  const bool conflicts = static_cast<int64_t>(keys * operand_bytes) % machine.page_bytes == 0;
  if (conflicts && mr + value.vectors > machine.l1_ways) value.a *= kSetConflicts;
  if (conflicts && !s.packed && width > machine.l1_ways) score.b *= kSetConflicts;
  double task = shapes.scores.column_tiles * m1 * ProductTileCycles(score, machine) +
                shapes.weighted.column_tiles * m1 * ProductTileCycles(value, machine);
  task += s.operations * rows / static_cast<double>(s.outer * s.m) / kStreamingFlops +
          2 * scratch / Bandwidth(scratch, target);
  double before = 0;
  for (const auto& [knob, columns] : {std::pair(s.location_knob, width), std::pair(s.rows_knob, depth)}) {
    if (knob < 0) continue;
    const double packed = 2 * columns * keys * operand_bytes, outer = static_cast<double>(s.outer);
    if (d[knob].values[0] >= 0) {
      task += packed / Bandwidth(packed + scratch, target);
    } else {
      before += Spread(outer, packed / Bandwidth(packed * outer, target), target);
    }
  }
  return before + Spread(shapes.scores.tasks, task, target);
}

double StreamingCycles(const StageModel& s, const Sketch& sketch, const Decisions& d, const Target& target) {
  double bytes = s.read_bytes + s.write_bytes;
  double cycles = bytes / Bandwidth(bytes, target) + s.operations / kStreamingFlops;
  if (s.location_knob >= 0 && d[s.location_knob].values[0] >= 0 && s.consumer >= 0) {
    // A stage inside its consumer reads from the cache, but is computed again for each column tile and each halo.
    const auto [again, tasks] = InsideOf(s, sketch.stages[s.consumer], d);
    double per_task = bytes / std::max(1.0, tasks);
    double fast = bytes / Bandwidth(per_task, target);
    return (kInsideTraffic * fast + cycles * kInsideCycles) * again * kInsideCost / target.num_cores;
  }
  if (s.rows_ahead_knob >= 0) cycles *= 1 + kTransposeWaits / (1 + static_cast<double>(d[s.rows_ahead_knob].values[0]));
  const double tasks = ShapeOf(s, d).tasks;
  double unroll = s.k_knob < 0 ? 1 : static_cast<double>(d[s.k_knob].values[0]);
  return Spread(tasks, cycles / tasks * (1 + kStreamingLoop / unroll), target);
}

}  // namespace

double DraftSeconds(const Sketch& sketch, const Decisions& decisions, const Target& target) {
  double cycles = 0, gpu_seconds = 0;
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
        cycles += TransformCycles(stage, decisions, target);
        break;
      case StageModel::kStreams:
        cycles += StreamsCycles(stage, decisions, target);
        break;
      case StageModel::kWindow:
        cycles += WindowCycles(stage, decisions, target);
        break;
      case StageModel::kAttention:
        cycles += AttentionCycles(stage, decisions, target);
        break;
      case StageModel::kGpuTiled:
      case StageModel::kGpuTensor:
      case StageModel::kGpuElements:
      case StageModel::kGpuUnbound:
      case StageModel::kGpuRows:
      case StageModel::kGpuSums:
        gpu_seconds += GpuStageSeconds(stage, decisions, target);
        break;
    }
  }
  return cycles / MachineOf(target).hz + gpu_seconds;
}

}  // namespace autotune
