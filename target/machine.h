// Machine: facts about the cores of a target that its text does not state. Schedules and their estimated cost depend on
// them, so they follow from the target alone: the same target gives the same packages everywhere. A plain value;
// thread-safe.
//
// target/machine.cc has the table, one row for each family of CPUs. `autotune doctor --probe` measures a row for a CPU
// that the table lacks. Sources of numbers, in brackets: [Fog] Agner Fog's instruction tables; [AMD], [Intel], [Arm]
// their optimization manuals; [chosen] a number between those of the cores that the row stands for, by which candidates
// rank as measured on Zen 3 and Zen 5; [probe] measured by `doctor --probe`.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "target/cuda_arch.h"
#include "target/target.h"

namespace autotune {

struct Machine {
  double hz;  // a sustained clock; it scales all estimates alike

  // ---- A core
  double multiply_add_ports;    // vector multiply-adds a cycle
  double load_ports;            // vector loads a cycle
  double multiply_add_latency;  // cycles
  // General registers that a loop over a reduction needs beside addresses: the stack, a panel, the counter, its end,
  // and one to compute with.
  double loop_registers;

  // ---- Caches and memory. The size of a line is the target's.
  int64_t page_bytes;  // the sets of a first-level cache cover a page once, mostly
  double l1_ways;
  double l1_bytes_per_cycle, l2_bytes_per_cycle, l3_bytes_per_cycle, memory_bytes_per_cycle;  // of one core, reading

  // ---- Parallel loops of our runtime
  double fork_cycles;  // fork and join of one loop
  double task_cycles;  // handing out one task

  AUTOTUNE_FIELDS(hz, multiply_add_ports, load_ports, multiply_add_latency, loop_registers, page_bytes, l1_ways,
                  l1_bytes_per_cycle, l2_bytes_per_cycle, l3_bytes_per_cycle, memory_bytes_per_cycle, fork_cycles,
                  task_cycles)
};

// A row of the table: a family of CPUs with LLVM's names for them.
struct MachineRow {
  std::string_view family;
  std::vector<std::string_view> cpus;
  Machine machine;
};

// The first row stands for all CPUs that no other row names.
const std::vector<MachineRow>& MachineRows();
// The row for a CPU, by LLVM's name.
const MachineRow& MachineRowOf(std::string_view cpu);

// The facts about a compute unit of a GPU (a streaming multiprocessor).
struct GpuMachine {
  double hz;
  double lanes;                   // multiply-adds a cycle, where the architecture does not say
  double half_lanes, tf32_lanes;  // of tensor cores, as the architecture says; 0: there are none
  double shared_bytes_per_cycle;  // shared memory
  double memory_bytes_per_cycle;  // its part of the device's memory bandwidth
  double threads, blocks;         // that it holds at a time
  double warp;                    // threads that run together
  double latency_warps;           // that hide the latencies of arithmetic and shared memory
  double memory_latency;          // cycles
  double barrier_cycles;          // of a block, with what it drains
  double launch_cycles;           // of a kernel, from the end of the one before
};

// One row so far, for NVIDIA's units since Volta.
inline constexpr GpuMachine kCommonGpu = {
    .hz = 1.7e9,   // [chosen]
    .lanes = 128,  // [NVIDIA, CUDA C++ programming guide: compute capability 8.6, 8.9, 9.0]
    .half_lanes = 0,
    .tf32_lanes = 0,
    .shared_bytes_per_cycle = 128,  // 32 banks of 4 bytes [the same]
    .memory_bytes_per_cycle = 15,   // 3.35 TB/s for 132 units [NVIDIA, H100 data sheet]
    .threads = 2048,                // [programming guide]
    .blocks = 32,
    .warp = 32,
    .latency_warps = 8,     // [chosen]
    .memory_latency = 600,  // [chosen]
    .barrier_cycles = 40,   // [chosen]
    .launch_cycles = 4000,  // [chosen]
};

// The row of the table for a target.
inline const Machine& MachineOf(const Target& target) { return MachineRowOf(target.cpu).machine; }
inline GpuMachine GpuMachineOf(const Target& target) {
  GpuMachine machine = kCommonGpu;
  const CudaArch* arch = target.kind == TargetKind::kCuda ? FindCudaArch(target.arch) : nullptr;
  if (arch) machine.lanes = arch->lanes, machine.half_lanes = arch->half_lanes, machine.tf32_lanes = arch->tf32_lanes;
  return machine;
}

}  // namespace autotune
