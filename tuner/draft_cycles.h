// Parts of the draft score that several kinds of stages share: cycles of caches, of register tiles, and of tasks.
// Internal to tuner/draft.cc, which says where the constants come from. Pure functions; thread-safe.
#pragma once
#include <algorithm>
#include <cmath>

#include "ir/tile_product.h"
#include "target/machine.h"
#include "tuner/sketch.h"

namespace autotune {

// ---- Caches
// Share of a cache that data may fill without being evicted: of an L1 or L2 cache, and of the L3 cache, which other
// cores and the rest of the network also use.
inline constexpr double kPrivatePart = 0.75;
inline constexpr double kSharedPart = 0.5;
// Factor of the traffic if prefetched lines are evicted before they are used: between 1 (none) and 2 (all). The oracle
// (docs/recordings.md) recorded 1.38 on a Zen 5 for panels of 0.7 MB and an L2 cache of 1 MB.
inline constexpr double kEvicted = 1.35;
inline constexpr double kPieceLoss = 0.5;  // relative extra traffic for each halving of the pieces of a row of channels
inline constexpr double kSetConflicts =
    6;  // factor of the traffic if rows evict each other from one set of the L1 cache
// If the rows of a panel are more than kFarRows panel widths apart, their traffic is multiplied by kFarRowsCost:
// hardware prefetchers do not follow such rows and load neighbouring lines instead.
inline constexpr double kFarRows = 4;
inline constexpr double kFarRowsCost = 2;
inline constexpr double kTranslations =
    1.1;  // factor of the cycles with unpacked panels: each row is in another page (TLB)

// ---- Overlap: share of the shorter of arithmetic and traffic that the longer one does not hide
inline constexpr double kExposed = 0.15;           // in a register tile
inline constexpr double kExposedFirst = 0.3;       // for the first read of operands, from a farther level
inline constexpr double kExposedPrefetched = 0.1;  // for the first read of operands that are prefetched
inline constexpr double kPrefetchCost = 1.01;      // factor of the longer one if there are prefetch instructions

// ---- Register tiles
// Share of the shorter of a step's loads and multiply-adds that the longer one does not hide, since both share the
// issue width. For example, a tile of 6 x 4 accumulators (24 multiply-adds, 10 loads) is faster by a tenth than one of
// 12 x 2 (24 multiply-adds, 14 loads).
inline constexpr double kIssue = 0.4;
// Words (ir/dot.h): a product and an addition are two instructions. Cycles of both, as a multiple of those of a
// multiply-add: 1.19 on Zen 4 [measured], 1.33 on Skylake, whose three vector ports both share [calculated].
inline constexpr double kAddedApart = 1.25;
inline constexpr double kAdditionLatency = 1;  // cycles of an addition of integers
inline constexpr double kLoopCycles = 0.5;     // cycles of an iteration's counter and branch in the loop over k
inline constexpr double kStoreCycles = 3;      // cycles per accumulator for zeroing, epilogue and store
inline constexpr double kSharedLine = 100;     // cycles for a line that two cores write: 80 to 140 on an Intel server
inline constexpr double kTileCycles = 30;      // cycles to enter a tile: a mispredicted branch, addresses
inline constexpr double kAddresses = 8;        // addresses of clamped rows that stay in registers
inline constexpr double kAddressCycles = 0.8;  // cycles per iteration of the loop over k for each further address
inline constexpr int kFewRegisters = 16;       // vector registers of SSE and AVX2
// An unrolled loop over k spills beyond these limits, since LLVM has no register left to load the next operands.
// kCrowdedUnroll: unrolled steps. kCrowdedRegisters: registers that must stay free. kCrowdedColumn: rows of a tile of
// one vector column, on a CPU with few registers.
inline constexpr double kCrowdedUnroll = 4, kCrowdedRegisters = 2, kCrowdedColumn = 7;

// Returns the number of elements in a vector register.
inline double Lanes(const StageModel& s, const Target& target) {
  return target.VectorLanes(static_cast<int>(8 * s.element_bytes));
}

inline double Ceil(double a, double b) { return std::ceil(a / b); }

// Returns the cycles until all tasks are done. The cores run the tasks in whole waves of one task per core.
inline double Spread(double tasks, double cycles_per_task, const Target& target) {
  const Machine& machine = MachineOf(target);
  double waves = Ceil(tasks, target.num_cores);
  return waves * (cycles_per_task + machine.task_cycles) + (tasks > 1 ? machine.fork_cycles : 0);
}

// Returns the bytes per cycle at which data of this size arrives if it is read repeatedly.
inline double Bandwidth(double bytes, const Target& target) {
  const Machine& machine = MachineOf(target);
  if (bytes <= kPrivatePart * static_cast<double>(target.l1_bytes)) return machine.l1_bytes_per_cycle;
  if (bytes <= kPrivatePart * static_cast<double>(target.l2_bytes)) return machine.l2_bytes_per_cycle;
  if (bytes <= kSharedPart * static_cast<double>(target.l3_bytes)) return machine.l3_bytes_per_cycle;
  return machine.memory_bytes_per_cycle;
}

// Returns the bytes per cycle at which constants of this size arrive if they are read once per run of the network. The
// rest of the network runs in between, so data that a core's own cache cannot hold comes from memory.
inline double FirstBandwidth(double bytes, const Target& target) {
  const Machine& machine = MachineOf(target);
  const bool fits = bytes <= kPrivatePart * static_cast<double>(target.l2_bytes);
  return fits ? machine.l2_bytes_per_cycle : machine.memory_bytes_per_cycle;
}

// Returns true if the register file holds all vectors of a register tile: its accumulators, `loaded` operand vectors, a
// broadcast, and a product if it is added apart or the target has no multiply-add instruction.
inline bool FitsRegisters(double accumulators, double loaded, double unroll, const Target& target, bool apart = false) {
  double registers = accumulators + loaded + (target.has_fma && !apart ? 1 : 2);
  bool crowded = target.vector_registers > kFewRegisters && unroll > kCrowdedUnroll &&
                 registers > target.vector_registers - kCrowdedRegisters;
  return registers <= target.vector_registers && !crowded;
}

// Returns the cycles of one step of k. Its bounds are multiply-adds, loads, and the dependency through an accumulator.
inline double StepCycles(double multiply_adds, double loads, double unroll, const Machine& machine,
                         bool apart = false) {
  const double fma = multiply_adds / machine.multiply_add_ports * (apart ? kAddedApart : 1);
  const double load = loads / machine.load_ports, latency = apart ? kAdditionLatency : machine.multiply_add_latency;
  return std::max({fma, load, latency}) + kIssue * std::min(fma, load) + kLoopCycles / unroll;
}

// Returns the cycles of one group of the sum on registers of two dimensions. An instruction takes 16 cycles for 16
// groups, and a load of a register 8 [measured on Sapphire Rapids: 6.2e12 operations/s at 3 GHz without loads, 3.3e12
// with them].
inline double TileStepCycles(double rows, double vectors) {
  const double tiles = Ceil(rows, kTileRows);
  return std::max(tiles * vectors, (tiles + vectors) / 2) + kIssue * std::min(tiles * vectors, (tiles + vectors) / 2);
}

// Returns the cycles of two activities that overlap, where the part `exposed` of the shorter one does not.
inline double Overlapped(double a, double b, double exposed) { return std::max(a, b) + exposed * std::min(a, b); }

// Overlapped for operands that are read for the first time, from a farther cache or memory.
inline double OverlappedFirst(double a, double b, bool prefetched) {
  return (prefetched ? kPrefetchCost : 1) * std::max(a, b) +
         (prefetched ? kExposedPrefetched : kExposedFirst) * std::min(a, b);
}

}  // namespace autotune
