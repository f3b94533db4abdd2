// The analytic draft score of GPUs. A compute unit runs several blocks of threads at a time. The score estimates how
// long it takes for them: the longest of issuing instructions, arithmetic, shared memory and the L2 cache, but at least
// the latencies that are not hidden. The busiest unit, or memory, decides.
//
// Constants marked [chosen] were set by hand, not measured.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "ir/mma.h"
#include "lower/bind_rest.h"
#include "target/machine.h"
#include "tuner/sketch.h"

namespace autotune {
namespace {

// Share of the shorter activities of a unit that the longest one does not hide [chosen]. It is small, so that it only
// decides between otherwise equal tiles, in favour of those that use less of all.
constexpr double kExposed = 0.005;
constexpr double kSectorBytes = 32;     // smallest piece of global memory that is read
constexpr double kSpareRegisters = 32;  // registers of a thread for addresses and counters; ptxas spills with 24
// Most registers of a thread [NVIDIA, CUDA C++ programming guide]; taken for all GPUs.
constexpr double kMostRegisters = 255;
constexpr double kRegisterBytes = 4;
constexpr int64_t kSumBytes = 4;   // size of a sum on tensor cores; operands of the same size are TF32
constexpr double kPadded = 1.125;  // factor of the shared memory for tensor cores: 16 bytes pad rows of 128 bytes
// Instructions of a thread besides its arithmetic and its loads [chosen]: to copy a vector to shared memory, to begin
// another piece of a sum, and to find its elements.
constexpr double kCopyInstructions = 2, kPieceInstructions = 16, kIndexInstructions = 30;
constexpr double kDependentCycles = 4;  // cycles from an instruction to one that uses its result [chosen]
// Cycles to sum along a row: kCombineCycles for each partial result that a thread adds, and kLastLanesCycles for the
// last lanes, which one thread adds [chosen: a load from shared memory takes about 30 cycles, an addition 4].
// kSumBarriers: number of barriers of the sum.
constexpr double kCombineCycles = 6, kLastLanesCycles = 150, kSumBarriers = 4;
constexpr double kNever = std::numeric_limits<double>::infinity();

double Chosen(const Decisions& d, int knob) {
  return knob < 0 ? 1 : static_cast<double>(d[static_cast<size_t>(knob)].values[0]);
}

// Returns the time of activities that overlap: the longest one, and the exposed part of the others.
double LongestAndExposed(std::initializer_list<double> cycles) {
  double longest = 0, sum = 0;
  for (double c : cycles) longest = std::max(longest, c), sum += c;
  return longest + kExposed * (sum - longest);
}

// The blocks of threads of a kernel. `registers` are those of a thread, `shared` are bytes of a block.
struct Launch {
  double blocks = 1, threads = 1, registers = kSpareRegisters, shared = 0;
  double bytes = 0;  // that the kernel reads from memory and writes to it
};

// How the units of a GPU run the blocks of a launch.
class Units {
 public:
  // Returns nothing if no unit can hold a block.
  static std::optional<Units> Of(const Launch& launch, const Target& target) {
    Units units(launch, target);
    const GpuMachine& m = units.machine_;
    if (launch.threads > static_cast<double>(target.max_threads) || launch.registers > kMostRegisters ||
        launch.shared > static_cast<double>(target.shared_bytes))
      return std::nullopt;
    const double resident =
        std::floor(std::min({m.blocks, m.threads / launch.threads,
                             static_cast<double>(target.registers) / (launch.registers * launch.threads),
                             static_cast<double>(target.shared_bytes) / launch.shared}));
    if (resident < 1) return std::nullopt;
    units.at_once_ = std::min(resident, units.blocks_);
    return units;
  }

  const GpuMachine& machine() const { return machine_; }
  // Returns the warps of n blocks in a part of a unit that has warps. Several warps are spread evenly.
  double WarpsOfPart(double n) const {
    return std::max(1.0, n * std::ceil(launch_.threads / machine_.warp) / machine_.parts);
  }
  double PartLanes() const { return machine_.lanes / machine_.parts; }
  // Returns the seconds of the kernel. `cycles` returns those that a unit takes for n blocks that run at the same time.
  template <class Fn>
  double Seconds(const Fn& cycles) const {
    const double rounds = std::floor(blocks_ / at_once_), rest = blocks_ - rounds * at_once_;
    const double busiest = rounds * cycles(at_once_) + (rest > 0 ? cycles(rest) : 0);
    const double memory = launch_.bytes / (machine_.memory_bytes_per_cycle * units_) + machine_.memory_latency;
    return (LongestAndExposed({busiest, memory}) + machine_.launch_cycles) / machine_.hz;
  }

 private:
  Units(const Launch& launch, const Target& target)
      : machine_(GpuMachineOf(target)),
        launch_(launch),
        units_(static_cast<double>(target.num_cores)),
        blocks_(std::ceil(launch.blocks / units_)) {}

  GpuMachine machine_;
  Launch launch_;
  double units_;
  double blocks_;       // blocks of the busiest unit
  double at_once_ = 1;  // blocks that this unit holds at a time
};

// The pieces of a sum whose operands are copied to shared memory.
struct Pieces {
  double count = 1, stages = 1;
  bool async = false;  // copies run while other pieces are computed
  // Cycles of a unit to compute one piece in each of its blocks, and for the L2 cache to send the operands.
  double compute = 0, copy = 0;
  double blocks = 1;  // blocks that the unit holds
};

// Returns the cycles of a unit for all pieces. A copy takes the latency of memory and the time to send it. With n
// stages, it has the time in which n - 1 pieces are computed; if this is too short, all blocks wait. Without a
// pipeline, each block waits for all of it, while other blocks compute. A copy through registers waits for memory, too,
// but saves a barrier with two stages.
double CyclesOf(const Pieces& p, const GpuMachine& machine) {
  const bool ahead = p.async && p.stages > 1;
  const double copy = machine.memory_latency + p.copy;
  const double piece = ahead ? LongestAndExposed({p.compute, copy / (p.stages - 1)}) : p.compute + copy / p.blocks;
  const double barriers = (p.stages > 1 ? 1 : 2) * machine.barrier_cycles / p.blocks;
  return machine.memory_latency + p.count * (piece + barriers);
}

double TiledSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const double lanes = static_cast<double>(s.lanes), bytes = static_cast<double>(s.element_bytes);
  const double vector = s.depth_knob < 0 ? lanes : Chosen(d, s.depth_knob);
  const double rows = Chosen(d, s.m_knob), columns = Chosen(d, s.n_knob) * vector,
               step = Chosen(d, s.k_knob) * static_cast<double>(s.depth);
  const double threads_m = Chosen(d, s.rows_knob), threads_n = Chosen(d, s.row_knob),
               slices = static_cast<double>(s.pieces), threads = threads_m * threads_n * slices;
  const double tile_m = rows * threads_m, tile_n = columns * threads_n, stages = Chosen(d, s.stages_knob);
  const GpuMachine machine = GpuMachineOf(target);
  // If the slices divide a vector, each of their threads adds up some columns of a row. Rows of the partial sums in
  // shared memory are half of all banks apart. Reads of single columns conflict if a warp reads more than two rows.
  const double own = columns / slices;
  const bool shares_columns = slices > 1 && s.lanes % s.pieces == 0 && s.depth_knob < 0;
  const double padding = shares_columns ? kBanksBytes / 2 / bytes : 0;
  const double conflicts = shares_columns && own == 1 && 2 * threads_n < machine.warp ? 2 : 1;
  // A thread loads the m operand of `lanes` steps of the sum at once, as a vector.
  const std::optional<Units> units =
      Units::Of({.blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.m) / tile_m) *
                           std::ceil(static_cast<double>(s.n) / tile_n),
                 .threads = threads,
                 .registers = rows * columns + rows * lanes + columns + kSpareRegisters,
                 .shared = stages * step * slices * (tile_m + tile_n) * bytes +
                           (slices > 1 ? slices * tile_m * (tile_n + padding) * bytes : 0),
                 .bytes = s.read_bytes + s.write_bytes},
                target);
  if (!units) return kNever;
  const double issued = rows * columns + rows / lanes + columns / vector +
                        kCopyInstructions * slices * (tile_m + tile_n) / (threads * lanes) + kPieceInstructions / step;
  const double warp = std::max(issued, rows * columns * machine.warp / units->PartLanes());
  // A row of the m operand in a piece has `step` elements, rounded up to whole sectors. A row of the n operand is as
  // long as the tile.
  const double piece = std::ceil(step * bytes / kSectorBytes) * kSectorBytes / step;
  return units->Seconds([&](double n) {
    // A thread loads the operands of `lanes` steps at once. They complete during the steps before.
    const double waits = machine.shared_latency / lanes;
    // Lanes of a warp that load the same rows share their loads, at least in pairs.
    const double shared =
        n * (threads * (rows / 2 + columns) + slices * (tile_m + tile_n)) * bytes / machine.shared_bytes_per_cycle;
    const double from_cache = n * slices * (tile_m * piece + tile_n * bytes) / machine.l2_bytes_per_cycle;
    // The partial sums of the slices are written to shared memory, read and added.
    const double partial = slices * tile_m * tile_n;
    const double adding = slices > 1 ? std::max((1 + conflicts) * n * partial * bytes / machine.shared_bytes_per_cycle,
                                                units->WarpsOfPart(n) * 2 * partial / threads) +
                                           machine.shared_latency + machine.barrier_cycles
                                     : 0;
    return adding +
           CyclesOf({.count = static_cast<double>(s.k) / step,
                     .stages = stages,
                     .async = target.has_async_copies,
                     .compute = step * LongestAndExposed({units->WarpsOfPart(n) * warp, waits, shared, from_cache}),
                     .copy = step * from_cache,
                     .blocks = n},
                    machine);
  });
}

// Estimates the time of a product on tensor cores. For each step of the sum, a warp loads one row of matrices of each
// operand, which the products of the step share.
double TensorSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double lanes = s.element_bytes == kSumBytes ? machine.tf32_lanes : machine.half_lanes;
  if (lanes == 0) return kNever;
  const double matrices_m = Chosen(d, s.m_knob), matrices_n = Chosen(d, s.n_knob);
  const double warps_m = Chosen(d, s.rows_knob) / kMmaGroups, warps_n = Chosen(d, s.row_knob),
               warps = warps_m * warps_n, threads = warps * machine.warp;
  const double rows = matrices_m * kMmaRows, columns = matrices_n * kMmaColumns;  // of a warp
  const double tile_m = warps_m * rows, tile_n = warps_n * columns;
  const double bytes = static_cast<double>(s.element_bytes), depth = static_cast<double>(s.depth),
               step = Chosen(d, s.k_knob) * depth, stages = Chosen(d, s.stages_knob);
  // Registers hold the operands of two steps, since the operands of the next step are loaded during the current one.
  const double operands = (rows + columns) * depth * bytes / (machine.warp * kRegisterBytes);
  const std::optional<Units> units =
      Units::Of({.blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.m) / tile_m) *
                           std::ceil(static_cast<double>(s.n) / tile_n),
                 .threads = threads,
                 .registers = matrices_m * matrices_n * kMmaSums + 2 * operands + kSpareRegisters,
                 .shared = stages * step * (tile_m + tile_n) * bytes * kPadded,
                 .bytes = s.read_bytes + s.write_bytes},
                target);
  if (!units) return kNever;
  // If a row of a piece is shorter than all banks together, several rows conflict in the same banks.
  const double conflicts = step * bytes < kBanksBytes ? 2 : 1;
  // Cycles of a part for the products of one warp, which take `depth` steps of the sum.
  const double products = rows * columns * depth * machine.parts / lanes;
  const double issued = matrices_m * matrices_n + operands +
                        kCopyInstructions * (tile_m + tile_n) * depth * bytes / (threads * 4 * kRegisterBytes) +
                        kPieceInstructions * depth / step;
  return units->Seconds([&](double n) {
    // The sums of the products follow one another, so a warp waits for each of them.
    const double arithmetic = units->WarpsOfPart(n) * std::max(products, issued) / depth;
    const double shared =
        n * (warps * (rows + columns) + (tile_m + tile_n) * conflicts) * bytes / machine.shared_bytes_per_cycle;
    const double from_cache = n * (tile_m + tile_n) * bytes / machine.l2_bytes_per_cycle;
    return CyclesOf(
        {.count = static_cast<double>(s.k) / step,
         .stages = stages,
         .async = true,
         .compute = step * LongestAndExposed({arithmetic, machine.product_latency / depth, shared, from_cache}),
         .copy = step * from_cache,
         .blocks = n},
        machine);
  });
}

// Estimates the time of passes over rows. The blocks of threads that a compute unit holds at a time hide each other's
// latency.
double RowsSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const double lanes = static_cast<double>(s.lanes), width = static_cast<double>(s.n),
               sums = static_cast<double>(s.depth);
  const double along = Chosen(d, s.k_knob), rows = Chosen(d, s.rows_knob), threads = along * width / lanes * rows;
  // `steps`: pieces of a row in which a thread has elements. `own`: elements of a row that a thread has.
  const double steps = std::ceil(static_cast<double>(s.k) / along), own = steps * lanes;
  const double partial = sums * along * width * static_cast<double>(s.element_bytes);
  const double blocks = std::ceil(static_cast<double>(s.m) / rows);
  // Registers hold the elements that a pass reads and the elements that it computes.
  const std::optional<Units> units =
      Units::Of({.blocks = blocks,
                 .threads = threads,
                 .registers = 2 * (s.packed ? own : lanes) + kSpareRegisters,
                 .shared = rows * (partial + (s.packed ? 0.0 : static_cast<double>(s.row_bytes))),
                 .bytes = s.read_bytes + s.write_bytes},
                target);
  if (!units) return kNever;
  const GpuMachine& machine = units->machine();
  const double points = static_cast<double>(s.m) * width * static_cast<double>(s.k);
  const double warp = machine.warp * own * (s.operations / points) / units->PartLanes();
  // A block waits for memory, then for the threads' partial sums to be added, then for the last lanes.
  const double waits = machine.memory_latency +
                       sums * (along * kCombineCycles + kLastLanesCycles + kSumBarriers * machine.barrier_cycles);
  return units->Seconds([&](double n) {
    const double traffic = n * (s.read_bytes + s.write_bytes) / blocks / machine.l2_bytes_per_cycle;
    return LongestAndExposed({units->WarpsOfPart(n) * warp, traffic, waits});
  });
}

// Estimates the time of sums whose steps the threads of a block share. A thread waits for memory once for the loads of
// the steps that it unrolls.
double SumsSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const double lanes = static_cast<double>(s.lanes), rows = static_cast<double>(s.m),
               unrolled = static_cast<double>(s.depth), bytes = static_cast<double>(s.element_bytes);
  const double x = Chosen(d, s.n_knob), y = Chosen(d, s.k_knob), threads = x * y, width = x * lanes;
  // Registers hold the operands of the unrolled steps. Later they hold the partial sums that a thread adds up: all of
  // them if the thread has enough registers, else as many as fit.
  const double most = std::min(kMostRegisters, static_cast<double>(target.registers) / threads);
  const double needed = rows * lanes + unrolled * (lanes + rows) + kSpareRegisters;
  const double columns = std::min(width, static_cast<double>(s.n));
  const double piece = std::ceil(columns * bytes / kSectorBytes) * kSectorBytes;  // bytes of a step in a block
  const double blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.n) / width);
  const std::optional<Units> units =
      Units::Of({.blocks = blocks,
                 .threads = threads,
                 .registers = std::max(needed, std::min(most, rows * lanes + y * lanes + kSpareRegisters)),
                 .shared = threads * rows * lanes * bytes,
                 .bytes = blocks * static_cast<double>(s.k) * piece},
                target);
  if (!units) return kNever;
  const GpuMachine& machine = units->machine();
  const double own = std::ceil(static_cast<double>(s.k) / (y * unrolled)) * unrolled;  // steps of a thread
  const double warp = own * rows * lanes * machine.warp / units->PartLanes();
  const double waits = own / unrolled * machine.memory_latency + rows * y * kCombineCycles + 2 * machine.barrier_cycles;
  return units->Seconds([&](double n) {
    const double traffic = n * own * y * piece / machine.l2_bytes_per_cycle;
    return LongestAndExposed({units->WarpsOfPart(n) * warp, traffic, waits});
  });
}

// Estimates the time of results that one thread computes each. It waits for memory once for the loads of the steps that
// it unrolls.
double ElementsSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const bool bound = s.kind == StageModel::kGpuElements;
  const double vector = Chosen(d, s.n_knob), unrolled = static_cast<double>(s.depth);
  const double threads =
      bound ? Chosen(d, s.rows_knob) * static_cast<double>(s.lanes) : static_cast<double>(kUnboundThreads);
  const double elements = static_cast<double>(s.m), steps = static_cast<double>(s.k),
               of_block = s.columns > 0 ? static_cast<double>(s.columns) : threads * vector;
  const double loads = static_cast<double>(s.operands), own = of_block / threads;  // elements of a thread
  const double blocks = std::ceil(elements / of_block);
  const std::optional<Units> units = Units::Of({.blocks = blocks,
                                                .threads = threads,
                                                .registers = vector * (1 + loads * unrolled) + kSpareRegisters,
                                                .bytes = s.read_bytes + s.write_bytes},
                                               target);
  if (!units) return kNever;
  const GpuMachine& machine = units->machine();
  const double arithmetic = own * s.operations / elements;  // of a thread
  const double issued = arithmetic + own / vector * (steps * loads + kIndexInstructions);
  const double warp = std::max(issued, arithmetic * machine.warp / units->PartLanes());
  const double waits = std::ceil(steps / unrolled) * machine.memory_latency + issued * kDependentCycles;
  return units->Seconds([&](double n) {
    const double from_cache = n * of_block * steps * static_cast<double>(s.row_bytes) / machine.shared_bytes_per_cycle;
    const double traffic = n * (s.read_bytes + s.write_bytes) / blocks / machine.l2_bytes_per_cycle;
    return LongestAndExposed({units->WarpsOfPart(n) * warp, from_cache, traffic, waits});
  });
}

}  // namespace

double GpuStageSeconds(const StageModel& stage, const Decisions& decisions, const Target& target) {
  if (stage.kind == StageModel::kGpuTiled) return TiledSeconds(stage, decisions, target);
  if (stage.kind == StageModel::kGpuTensor) return TensorSeconds(stage, decisions, target);
  if (stage.kind == StageModel::kGpuRows) return RowsSeconds(stage, decisions, target);
  if (stage.kind == StageModel::kGpuSums) return SumsSeconds(stage, decisions, target);
  return ElementsSeconds(stage, decisions, target);
}

}  // namespace autotune
