// What this host is, and what it can do: for `autotune devices` and `autotune doctor`.
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

struct Noise {
  double median = 0, worst = 0;  // by how much of the fastest time the repeats of one loop are slower
};
struct HostSpeed {
  double flops = 0;       // fp32 operations a second, all of the target's cores (MeasurePeakFlops)
  double copy_bytes = 0;  // bytes read and written a second by copying between buffers larger than the caches
  Noise noise;
  bool alone = false;  // under the host's lock; else builds and measurements of others have disturbed it
};
// Takes about a second and all cores, and another one where the host's lock is held by others.
Result<HostSpeed> MeasureHostSpeed(const Target& target, Builder& builder);

}  // namespace autotune::tools
