// Machine: facts about the cores of a target that its text does not state. Schedules and their estimated cost depend on
// them, so they follow from the target alone: the same target gives the same packages everywhere. A plain value;
// thread-safe.
//
// The table has one row so far, which stands for the x86 and Arm cores since 2013 well enough to rank candidates.
// Sources in brackets: [Fog] Agner Fog's instruction tables, [AMD] AMD's and [Intel] Intel's optimization manuals.
#pragma once
#include <cstdint>

#include "target/target.h"

namespace autotune {

struct Machine {
  double hz = 3e9;  // a typical sustained clock; scales all estimates alike

  // ---- A core
  double multiply_add_ports = 2;    // vector multiply-adds a cycle [Fog: Haswell to Golden Cove, Zen 2 to 5]
  double load_ports = 2;            // vector loads a cycle [Fog: the same]
  double multiply_add_latency = 4;  // cycles [Fog: 4 on Skylake to Golden Cove and Zen 3 to 5]

  // ---- Caches and memory
  int64_t line_bytes = 64;    // [the target]
  int64_t page_bytes = 4096;  // of x86 and Linux on Arm. The sets of a first-level cache cover a page once, mostly
  double l1_ways = 8;         // [AMD: Zen 2 to 4; Intel: Haswell to Skylake]
  // Bytes a cycle and core that a loop over data of a level's size reads.
  double l1_bytes_per_cycle = 64;     // two loads of 32 bytes [Fog]
  double l2_bytes_per_cycle = 32;     // [AMD: Zen 2 to 5]
  double l3_bytes_per_cycle = 10;     // chosen between what one core alone and all cores at once reach
  double memory_bytes_per_cycle = 6;  // 18 GB/s at 3 GHz, a core's share of a server; chosen

  // ---- Parallel loops of our runtime
  double fork_cycles = 450;  // fork and join: 0.12 to 0.18 us on two cores (bench/fork_join.cc)
  double task_cycles = 120;  // handing out one task: an atomic increment of a shared line and a call; chosen
};

// The row of the table for a target.
inline Machine MachineOf(const Target& target) { return {.line_bytes = target.cache_line}; }

}  // namespace autotune
