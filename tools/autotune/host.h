// What this host is, and what it can do: for `autotune devices`, `autotune doctor` and `autotune bench --profile`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::tools {

struct HostFacts {
  std::string model;     // of the CPU
  int online_cores = 0;  // of the machine
  int usable_cores = 0;  // this process may run on
  int64_t memory_bytes = 0;
};
HostFacts FactsOfHost();

// A target in words: "2 cores of AMD EPYC 9B14 (AVX-512)". The processor has its maker's name if it is this host's,
// else LLVM's.
std::string MachineText(const Target& target);

// How fast data that lies in one level of the memory hierarchy is copied, by all of a target's cores at once.
struct CopySpeed {
  std::string level;            // "L1", "L2", "L3", "memory"
  double capacity = 0;          // bytes that this level holds, of all cores together; infinite for memory
  double bytes_per_second = 0;  // read and written
};
// Takes about a second. Levels that the target does not have are left out; memory is always the last.
Result<std::vector<CopySpeed>> MeasureCopySpeeds(const Target& target);

// The shortest time that a machine allows for a computation (Williams, Waterman, Patterson, "Roofline", 2009).
struct Roof {
  double seconds = 0;  // 0: nothing is computed or moved
  std::string bound;   // what sets it: "arithmetic", or the level that the data is copied in
};
struct Roofline {
  double flops_per_second = 0;     // fp32 multiply-adds, all cores (MeasurePeakFlops)
  std::vector<CopySpeed> copying;  // nearest level first
  // The larger of arithmetic at its peak and of moving the data once, in the nearest level that holds all of it. That
  // is the best case: data that a kernel finds further away takes longer.
  Roof Of(double flops, double bytes) const;
};
// What the target's cores of this host can do. Waits up to `patience_ms` for the host's lock, twice.
Result<Roofline> MeasureRoofline(const Target& target, Builder& builder, int patience_ms);

// How much the times of one and the same loop differ: by how much the median and the slowest repeat are slower than the
// fastest one (0.1: 10 %).
struct Noise {
  double median = 0, worst = 0;
  double fastest = 0;  // seconds
};
// Takes about half a second of one core.
Noise MeasureNoise();
// "repeats of one loop vary by 1.2 % (median), the worst took 1.4 times as long", and what follows from it.
std::string NoiseText(const Noise& noise);

struct HostSpeed {
  Roofline roofline;
  Noise noise;
  bool alone = false;  // under the host's lock; else builds and measurements of others have disturbed it
};
// Takes about two seconds and all cores, and another one where the host's lock is held by others.
Result<HostSpeed> MeasureHostSpeed(const Target& target, Builder& builder);

}  // namespace autotune::tools
