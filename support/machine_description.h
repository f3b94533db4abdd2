// MachineDescription: what a machine is, as Linux describes it in files. DescribeMachine is the one place that finds it
// out: for this host, for a device server that reports it to its tracker, and for a recorded machine. It contains no
// name that a compiler knows; target/described_cpu.h makes a target of it. A plain value; the functions are
// thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/fields.h"

namespace autotune {

// Empty or 0: not known. A machine may have cores of several kinds; the facts of a core are then those of the largest
// one among the usable cores.
struct MachineDescription {
  std::string architecture;  // "x86_64", "aarch64", "riscv64"; another one as `uname -m` calls it
  std::string model;         // name for people: "AMD EPYC 7B13 64-Core Processor", "Raspberry Pi 5 Model B Rev 1.0"
  // The kind of core, in the numbers and words of its maker: "AuthenticAMD 25 1" (vendor, family, model) on x86-64,
  // "0x41 0xd0b" (implementer, part) on AArch64, "sifive,u74-mc" on RISC-V.
  std::string core;
  // Features by LLVM's names: the KnownCpuFeatures (support/cpu_features.h); on RISC-V, extensions such as "v".
  std::vector<std::string> features;
  int64_t online_cores = 0;    // processors of the machine, hardware threads included
  int64_t usable_cores = 0;    // threads that may run at once: by affinity, and by the quota of control groups
  int64_t physical_cores = 0;  // usable ones, without hardware threads of the same core
  int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;  // data or unified caches of one core
  int64_t memory_bytes = 0;                          // of the machine, or the limit of control groups
  int64_t clock_mhz = 0;                             // highest clock of a core
  AUTOTUNE_FIELDS(architecture, model, core, features, online_cores, usable_cores, physical_cores, l1_bytes, l2_bytes,
                  l3_bytes, memory_bytes, clock_mhz)

  bool operator==(const MachineDescription&) const = default;
  bool IsKnown() const { return !architecture.empty(); }
};

// Describes the machine whose files are under `root` (proc/cpuinfo, proc/meminfo, sys/devices/system/cpu, …).
// `cores`: those that may be used; empty: all that proc/cpuinfo lists. `architecture`: that of its processes, if it is
// known; else the form of proc/cpuinfo tells it. Files that are missing or cannot be read leave their facts unknown.
MachineDescription DescribeMachine(const std::string& root, std::vector<int> cores = {}, std::string architecture = "");

// Describes this host for programs of this program's architecture. `cores`: those that may be used; empty: all that
// this process may use. Features that Linux refuses to processes (AMX in some sandboxes) are left out. Under an
// emulator, files describe the machine that emulates; only features are then stated.
MachineDescription DescribeHost(const std::vector<int>& cores = {});

}  // namespace autotune
