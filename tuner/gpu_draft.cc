// The analytic draft score of GPUs. A wave is the blocks of threads that run at the same time. The estimated time is
// the number of waves times the time of a wave, which is bound by arithmetic, by shared memory, or by global memory.
//
// Constants marked [chosen] were set by hand, not measured.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/mma.h"
#include "target/machine.h"
#include "tuner/sketch.h"

namespace autotune {
namespace {

// Share of the shorter two of arithmetic, shared memory and global memory that the longest one does not hide [chosen].
// It is small, so that it only decides between otherwise equal tiles, in favour of those that use less bandwidth.
constexpr double kExposed = 0.01;
constexpr double kSectorBytes = 32;     // smallest piece of global memory that is read
constexpr double kSpareRegisters = 32;  // registers of a thread for addresses and counters; ptxas spills with 24
// Most registers of a thread [NVIDIA, CUDA C++ programming guide]; taken for all GPUs.
constexpr double kMostRegisters = 255;
constexpr double kRegisterBytes = 4;
constexpr int64_t kSumBytes = 4;     // size of a sum on tensor cores; operands of the same size are TF32
constexpr double kBanksBytes = 128;  // one word of each bank of shared memory
constexpr double kPadded = 1.125;    // factor of the shared memory for tensor cores: 16 bytes pad rows of 128 bytes
// Cycles to sum along a row: kCombineCycles for each partial result that a thread adds, and kLastLanesCycles for the
// last lanes, which one thread adds [chosen: a load from shared memory takes about 30 cycles, an addition 4].
// kSumBarriers: number of barriers of the sum.
constexpr double kCombineCycles = 6, kLastLanesCycles = 150, kSumBarriers = 4;

double Chosen(const Decisions& d, int knob) {
  return knob < 0 ? 1 : static_cast<double>(d[static_cast<size_t>(knob)].values[0]);
}

// How the compute units of a GPU share the blocks of a launch.
struct Residency {
  double at_once = 0;  // blocks that a compute unit holds at a time
  double waves = 0;    // rounds in which the compute units run all blocks
};

// Returns nothing if no compute unit can hold a block. `registers` are those of a thread, `shared` are bytes of a
// block.
std::optional<Residency> ResidencyOf(double blocks, double threads, double registers, double shared,
                                     const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  if (threads > static_cast<double>(target.max_threads) || registers > kMostRegisters ||
      shared > static_cast<double>(target.shared_bytes))
    return std::nullopt;
  const double resident = std::floor(std::min({machine.blocks, machine.threads / threads,
                                               static_cast<double>(target.registers) / (registers * threads),
                                               static_cast<double>(target.shared_bytes) / shared}));
  if (resident < 1) return std::nullopt;
  Residency result{.at_once = std::min(resident, std::ceil(blocks / target.num_cores))};
  result.waves = std::ceil(blocks / (target.num_cores * result.at_once));
  return result;
}

// Returns the time of activities that overlap: the longest one, and the exposed part of the others.
double LongestAndExposed(double a, double b, double c) {
  const double longest = std::max({a, b, c});
  return longest + kExposed * (a + b + c - longest);
}

double TiledSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double rows = Chosen(d, s.m_knob), columns = Chosen(d, s.n_knob) * static_cast<double>(s.lanes),
               step = Chosen(d, s.k_knob) * static_cast<double>(s.depth);
  const double threads_m = Chosen(d, s.rows_knob), threads_n = Chosen(d, s.row_knob), threads = threads_m * threads_n;
  const double tile_m = rows * threads_m, tile_n = columns * threads_n;
  const double bytes = static_cast<double>(s.element_bytes);
  const double stages = Chosen(d, s.stages_knob);
  const double shared = stages * step * (tile_m + tile_n) * bytes;
  // A thread loads the m operand of s.lanes steps of the sum at once, as a vector.
  const double registers = rows * columns + rows * static_cast<double>(s.lanes) + columns + kSpareRegisters;
  const double blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.m) / tile_m) *
                        std::ceil(static_cast<double>(s.n) / tile_n);
  const std::optional<Residency> residency = ResidencyOf(blocks, threads, registers, shared, target);
  if (!residency) return std::numeric_limits<double>::infinity();
  const auto [at_once, waves] = *residency;
  const double warps = at_once * std::ceil(threads / machine.warp);
  // Independent multiply-adds of a thread hide latency like additional warps.
  const double busy = std::min(1.0, warps * std::sqrt(rows * columns) / machine.latency_warps);
  // Cycles of a compute unit for one step of the sum in all blocks that it holds.
  const double arithmetic = at_once * threads * rows * columns / machine.lanes / busy;
  const double from_shared = at_once * threads * (rows + columns) * bytes / machine.shared_bytes_per_cycle;
  // A row of the m operand in a piece has `step` elements, rounded up to whole sectors. A row of the n operand is as
  // long as the tile.
  const double piece = std::ceil(step * bytes / kSectorBytes) * kSectorBytes / step;
  const double from_memory = at_once * (tile_m * piece + tile_n * bytes) / machine.memory_bytes_per_cycle;
  const double steps = static_cast<double>(s.k), pieces = steps / step;
  const double step_cycles = LongestAndExposed(arithmetic, from_shared, from_memory);
  // A pipelined loop computes other pieces while a piece is loaded. It waits for the rest of the memory latency, and at
  // one barrier per piece. A loop without pipelining waits for the whole latency, and at two barriers. Copies through
  // registers do not overlap with computation.
  const double covered = target.has_async_copies ? (stages - 1) * step * step_cycles : 0;
  const double barriers = stages > 1 ? 1 : 2;
  const double waits =
      pieces * (barriers * machine.barrier_cycles + std::max(0.0, machine.memory_latency - covered)) / at_once +
      (stages > 1 ? machine.memory_latency : 0);
  const double result = at_once * tile_m * tile_n * bytes / machine.memory_bytes_per_cycle;
  const double cycles = waves * (steps * step_cycles + waits + result);
  return (cycles + machine.launch_cycles) / machine.hz;
}

// Estimates the time of a product on tensor cores. For each step of the sum, a warp loads one row of matrices of each
// operand, which the products of the step share.
double TensorSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double lanes = s.element_bytes == kSumBytes ? machine.tf32_lanes : machine.half_lanes;
  const double matrices_m = Chosen(d, s.m_knob), matrices_n = Chosen(d, s.n_knob);
  const double warps_m = Chosen(d, s.rows_knob) / kMmaGroups, warps_n = Chosen(d, s.row_knob),
               warps = warps_m * warps_n, threads = warps * machine.warp;
  const double tile_m = warps_m * matrices_m * kMmaRows, tile_n = warps_n * matrices_n * kMmaColumns;
  const double bytes = static_cast<double>(s.element_bytes), step = Chosen(d, s.k_knob) * static_cast<double>(s.depth);
  const double stages = Chosen(d, s.stages_knob);
  const double shared = stages * step * (tile_m + tile_n) * bytes * kPadded;
  const double sums = matrices_m * matrices_n * kMmaSums;
  // Registers hold the operands of two steps, since the operands of the next step are loaded during the current one.
  const double parts = (matrices_m * kMmaRows + matrices_n * kMmaColumns) * static_cast<double>(s.depth) * bytes /
                       (machine.warp * kRegisterBytes);
  const double registers = sums + 2 * parts + kSpareRegisters;
  const double blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.m) / tile_m) *
                        std::ceil(static_cast<double>(s.n) / tile_n);
  const std::optional<Residency> residency = ResidencyOf(blocks, threads, registers, shared, target);
  if (!residency || lanes == 0) return std::numeric_limits<double>::infinity();
  const auto [at_once, waves] = *residency;
  // Independent products of a warp hide the latency of tensor cores like additional warps.
  const double busy = std::min(1.0, at_once * warps * std::sqrt(matrices_m * matrices_n) / machine.latency_warps);
  // Cycles of a compute unit for one step of the sum in all blocks that it holds.
  const double products = at_once * tile_m * tile_n / lanes / busy;
  const double from_shared =
      at_once * warps * (matrices_m * kMmaRows + matrices_n * kMmaColumns) * bytes / machine.shared_bytes_per_cycle;
  const double to_shared = at_once * (tile_m + tile_n) * bytes / machine.shared_bytes_per_cycle;
  // If a row of a piece is shorter than all banks together, several rows conflict in the same banks.
  const double conflicts = step * bytes < kBanksBytes ? 2 : 1;
  const double from_memory = at_once * (tile_m + tile_n) * bytes / machine.memory_bytes_per_cycle;
  const double in_shared = from_shared + to_shared * conflicts;
  const double step_cycles = LongestAndExposed(products, in_shared, from_memory);
  const double pieces = static_cast<double>(s.k) / step;
  const double covered = (stages - 1) * step * step_cycles;
  const double waits = pieces * (machine.barrier_cycles + std::max(0.0, machine.memory_latency - covered)) / at_once +
                       machine.memory_latency;
  const double result = at_once * tile_m * tile_n * kSumBytes / machine.memory_bytes_per_cycle;
  const double cycles = waves * (static_cast<double>(s.k) * step_cycles + waits + result);
  return (cycles + machine.launch_cycles) / machine.hz;
}

// Estimates the time of passes over rows. The blocks of threads that a compute unit holds at a time hide each other's
// latency.
double RowsSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double lanes = static_cast<double>(s.lanes), width = static_cast<double>(s.n),
               sums = static_cast<double>(s.depth);
  const double along = Chosen(d, s.k_knob), rows = Chosen(d, s.rows_knob), threads = along * width / lanes * rows;
  // `steps`: pieces of a row in which a thread has elements. `own`: elements of a row that a thread has.
  const double steps = std::ceil(static_cast<double>(s.k) / along), own = steps * lanes;
  const double partial = sums * along * width * static_cast<double>(s.element_bytes);
  const double shared = rows * (partial + (s.packed ? 0.0 : static_cast<double>(s.row_bytes)));
  // Registers hold the elements that a pass reads and the elements that it computes.
  const double registers = 2 * (s.packed ? own : lanes) + kSpareRegisters;
  const double blocks = std::ceil(static_cast<double>(s.m) / rows);
  const std::optional<Residency> residency = ResidencyOf(blocks, threads, registers, shared, target);
  if (!residency) return std::numeric_limits<double>::infinity();
  const auto [at_once, waves] = *residency;
  const double warps = at_once * std::ceil(threads / machine.warp);
  const double points = static_cast<double>(s.m) * width * static_cast<double>(s.k);
  const double arithmetic = warps * machine.warp * own * (s.operations / points) / machine.lanes;
  const double traffic = at_once * (s.read_bytes + s.write_bytes) / blocks / machine.memory_bytes_per_cycle;
  // A block waits for memory, then for the threads' partial sums to be added, then for the last lanes.
  const double waits = machine.memory_latency +
                       sums * (along * kCombineCycles + kLastLanesCycles + kSumBarriers * machine.barrier_cycles);
  const double cycles = waves * LongestAndExposed(arithmetic, traffic, waits);
  return (cycles + machine.memory_latency + machine.launch_cycles) / machine.hz;
}

// Estimates the time of sums whose steps the threads of a block share. A thread waits for memory once for the loads of
// the steps that it unrolls.
double SumsSeconds(const StageModel& s, const Decisions& d, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double lanes = static_cast<double>(s.lanes), rows = static_cast<double>(s.m),
               unrolled = static_cast<double>(s.depth), bytes = static_cast<double>(s.element_bytes);
  const double x = Chosen(d, s.n_knob), y = Chosen(d, s.k_knob), threads = x * y, width = x * lanes;
  const double shared = threads * rows * lanes * bytes;
  // Registers hold the operands of the unrolled steps. Later they hold the partial sums that a thread adds up: all of
  // them if the thread has enough registers, else as many as fit.
  const double most = std::min(kMostRegisters, static_cast<double>(target.registers) / threads);
  const double needed = rows * lanes + unrolled * (lanes + rows) + kSpareRegisters;
  const double registers = std::max(needed, std::min(most, rows * lanes + y * lanes + kSpareRegisters));
  const double blocks = static_cast<double>(s.outer) * std::ceil(static_cast<double>(s.n) / width);
  const std::optional<Residency> residency = ResidencyOf(blocks, threads, registers, shared, target);
  if (!residency) return std::numeric_limits<double>::infinity();
  const auto [at_once, waves] = *residency;
  const double own = std::ceil(static_cast<double>(s.k) / (y * unrolled)) * unrolled;  // steps of a thread
  const double arithmetic = at_once * threads * own * rows * lanes / machine.lanes;
  const double columns = std::min(width, static_cast<double>(s.n));
  const double piece = std::ceil(columns * bytes / kSectorBytes) * kSectorBytes;
  const double traffic = at_once * own * y * piece / machine.memory_bytes_per_cycle;
  const double waits = own / unrolled * machine.memory_latency + rows * y * kCombineCycles + 2 * machine.barrier_cycles;
  const double cycles = waves * LongestAndExposed(arithmetic, traffic, waits);
  return (cycles + machine.memory_latency + machine.launch_cycles) / machine.hz;
}

double UnboundSeconds(const StageModel& s, const Target& target) {
  const GpuMachine machine = GpuMachineOf(target);
  const double units = target.num_cores;
  const double elements = static_cast<double>(s.m), steps = static_cast<double>(s.k);
  const double arithmetic = elements * steps * std::max(1.0, s.flops) / (machine.lanes * units);
  const double traffic = (s.read_bytes + s.write_bytes) / (machine.memory_bytes_per_cycle * units);
  // With few threads, a sum waits for memory in each step.
  const double covered = std::max(1.0, elements / (units * machine.warp));
  const double waits = steps > 1 ? steps * machine.memory_latency / covered : 0;
  return (std::max({arithmetic, traffic, waits}) + machine.memory_latency + machine.launch_cycles) / machine.hz;
}

}  // namespace

double GpuStageSeconds(const StageModel& stage, const Decisions& decisions, const Target& target) {
  if (stage.kind == StageModel::kGpuTensor) return TensorSeconds(stage, decisions, target);
  if (stage.kind == StageModel::kGpuRows) return RowsSeconds(stage, decisions, target);
  if (stage.kind == StageModel::kGpuSums) return SumsSeconds(stage, decisions, target);
  return stage.kind == StageModel::kGpuTiled ? TiledSeconds(stage, decisions, target) : UnboundSeconds(stage, target);
}

}  // namespace autotune
