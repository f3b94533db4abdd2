// Machine: facts about the cores of a target that its text does not state. Schedules and their estimated cost depend on
// them. They follow from the target alone, so that equal targets give equal packages on every machine. A plain value;
// thread-safe.
//
// target/machine.cc has the table, one row for each family of CPUs. `autotune doctor --probe` measures a row for a CPU
// that the table lacks. Sources of numbers, in brackets: [Fog] Agner Fog's instruction tables; [AMD], [Intel], [Arm]
// their optimization manuals; [chosen] a value between those of the cores of the row, chosen so that the estimates rank
// candidates as measured on Zen 3 and Zen 5; [probe] measured by `doctor --probe`.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "target/cuda_arch.h"
#include "target/target.h"

namespace autotune {

struct Machine {
  double hz;  // sustained clock in Hz; all estimates are proportional to its inverse

  // ---- A core
  double multiply_add_ports;    // vector multiply-adds per cycle
  double load_ports;            // vector loads per cycle
  double multiply_add_latency;  // cycles
  // General registers that a loop over a reduction needs besides those for addresses: the stack pointer, the pointer to
  // a panel, the counter, its end, and a temporary.
  double loop_registers;

  // ---- Caches and memory. The size of a line is Target::cache_line.
  int64_t page_bytes;  // addresses this far apart mostly map to the same L1 set
  double l1_ways;
  double l1_bytes_per_cycle, l2_bytes_per_cycle, l3_bytes_per_cycle, memory_bytes_per_cycle;  // reads of one core

  // ---- Parallel loops of the runtime
  // Time of the fork and the join of one loop, and of moving its small operands and results between the cores.
  double fork_cycles;
  double task_cycles;                 // time to hand out one task
  double other_core_bytes_per_cycle;  // reads of one core of what another core has just written

  AUTOTUNE_FIELDS(hz, multiply_add_ports, load_ports, multiply_add_latency, loop_registers, page_bytes, l1_ways,
                  l1_bytes_per_cycle, l2_bytes_per_cycle, l3_bytes_per_cycle, memory_bytes_per_cycle, fork_cycles,
                  task_cycles, other_core_bytes_per_cycle)
};

// A row of the table: a family of CPUs with LLVM's names for them.
struct MachineRow {
  std::string_view family;
  std::vector<std::string_view> cpus;
  Machine machine;
};

// Returns the table. The first row serves all CPUs that no other row names.
const std::vector<MachineRow>& MachineRows();
// Returns the row for a CPU, by LLVM's name.
const MachineRow& MachineRowOf(std::string_view cpu);

// Properties of one compute unit of a GPU (a streaming multiprocessor). The unit consists of `parts` equal parts. A
// warp runs in one of them, so a unit with fewer warps than parts is partly idle.
struct GpuMachine {
  double hz;
  double parts;                   // each issues one instruction of a warp per cycle
  double lanes;                   // f32 multiply-adds per cycle
  double half_lanes, tf32_lanes;  // multiply-adds per cycle of the tensor cores; 0: there are none
  double shared_bytes_per_cycle;  // bandwidth of shared memory, and of the L1 cache, which is the same memory
  double l2_bytes_per_cycle;      // bandwidth of the unit's loads from the L2 cache
  double memory_bytes_per_cycle;  // the unit's share of the device's memory bandwidth
  double threads, blocks;         // most threads and blocks that are resident at a time
  double warp;                    // threads of a warp
  double shared_latency;          // cycles of a load from shared memory
  double product_latency;         // cycles of a product of tensor cores
  double memory_latency;          // cycles of a load from memory
  double barrier_cycles;          // cycles of a barrier of a block
  double launch_cycles;           // cycles from the end of one kernel to the start of the next
};

// Bytes of one word of each bank of shared memory: 32 banks of 4 bytes [NVIDIA, CUDA C++ programming guide].
inline constexpr int64_t kBanksBytes = 128;

// Typical values of NVIDIA's GPUs since Volta. GpuMachineOf replaces those that the target's CudaArch has.
inline constexpr GpuMachine kCommonGpu = {
    .hz = 1.7e9,   // [chosen]
    .parts = 4,    // warp schedulers [NVIDIA, CUDA C++ programming guide: compute capability 7.x to 9.0]
    .lanes = 128,  // [programming guide: compute capability 8.6, 8.9, 9.0]
    .half_lanes = 0,
    .tf32_lanes = 0,
    .shared_bytes_per_cycle = kBanksBytes,
    .l2_bytes_per_cycle = 32,      // [chosen]
    .memory_bytes_per_cycle = 15,  // 3.35 TB/s for 132 units [NVIDIA, H100 data sheet]
    .threads = 2048,               // [programming guide: compute capability 8.0, 9.0]
    .blocks = 32,
    .warp = 32,
    .shared_latency = 30,   // [chosen]
    .product_latency = 32,  // [chosen]
    .memory_latency = 600,  // [chosen]
    .barrier_cycles = 20,   // [chosen]
    .launch_cycles = 1700,  // [chosen: 1 us, as between the launches of a graph]
};

// Return the properties for a target.
inline const Machine& MachineOf(const Target& target) { return MachineRowOf(target.cpu).machine; }
inline GpuMachine GpuMachineOf(const Target& target) {
  GpuMachine machine = kCommonGpu;
  const CudaArch* arch = target.kind == TargetKind::kCuda ? FindCudaArch(target.arch) : nullptr;
  if (!arch) return machine;
  machine.lanes = arch->lanes;
  machine.half_lanes = arch->half_lanes;
  machine.tf32_lanes = arch->tf32_lanes;
  machine.threads = arch->resident_threads;
  machine.blocks = arch->resident_blocks;
  return machine;
}

}  // namespace autotune
