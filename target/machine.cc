#include "target/machine.h"

#include <algorithm>

namespace autotune {

const std::vector<MachineRow>& MachineRows() {
  static const std::vector<MachineRow> rows = {
      {.family = "x86-64 since 2013, and CPUs that no other row names",
       .cpus = {},
       .machine = {.hz = 3e9,                          // [chosen]
                   .multiply_add_ports = 2,            // [Fog: Haswell to Golden Cove, Zen 2 to 5]
                   .load_ports = 2,                    // [Fog: Haswell to Golden Cove, Zen 2 to 5]
                   .multiply_add_latency = 4,          // [Fog: Skylake to Golden Cove, Zen 3 to 5]
                   .loop_registers = 5,                // of 16: loops with 11 addresses do not spill, loops with 12 do
                   .page_bytes = 4096,                 // [AMD, Intel]
                   .l1_ways = 8,                       // [AMD: Zen 2 to 4; Intel: Haswell to Skylake]
                   .l1_bytes_per_cycle = 64,           // two loads of 32 bytes [AMD, Intel]
                   .l2_bytes_per_cycle = 32,           // [AMD: Zen 2 to 5]
                   .l3_bytes_per_cycle = 10,           // [chosen]
                   .memory_bytes_per_cycle = 6,        // [chosen]
                   .fork_cycles = 2200,                // [chosen: docs/performance.md, "Parallel loops"]
                   .task_cycles = 120,                 // [chosen]
                   .other_core_bytes_per_cycle = 4}},  // [chosen: as fork_cycles]
      {.family = "Arm Neoverse N1",
       .cpus = {"neoverse-n1", "cortex-a76", "ares"},
       .machine = {.hz = 2.6e9,                        // [chosen: cloud instances of 2.5 to 3.0 GHz]
                   .multiply_add_ports = 2,            // [Arm, Neoverse N1 software optimization guide: V0 and V1]
                   .load_ports = 2,                    // [Arm: L0 and L1]
                   .multiply_add_latency = 4,          // [Arm: ASIMD multiply-accumulate]
                   .loop_registers = 5,                // [as of the first row]
                   .page_bytes = 4096,                 // [chosen: Linux's usual pages]
                   .l1_ways = 4,                       // [Arm, Neoverse N1 technical reference: 64 KB, 4 ways]
                   .l1_bytes_per_cycle = 32,           // two loads of 16 bytes [Arm]
                   .l2_bytes_per_cycle = 32,           // [Arm, technical reference]
                   .l3_bytes_per_cycle = 10,           // [as of the first row]
                   .memory_bytes_per_cycle = 6,        // [as of the first row]
                   .fork_cycles = 2200,                // [as of the first row]
                   .task_cycles = 120,                 // [as of the first row]
                   .other_core_bytes_per_cycle = 4}},  // [as of the first row]
  };
  return rows;
}

const MachineRow& MachineRowOf(std::string_view cpu) {
  const std::vector<MachineRow>& rows = MachineRows();
  auto named = std::ranges::find_if(
      rows, [&](const MachineRow& row) { return std::ranges::find(row.cpus, cpu) != row.cpus.end(); });
  return named == rows.end() ? rows[0] : *named;
}

}  // namespace autotune
