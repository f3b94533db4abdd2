// WarpAccesses: how the threads of a warp access memory together, computed from the addresses of its 32 lanes in a
// lowered program of threads. So bank conflicts and partly used sectors are known without a GPU. Pure functions;
// thread-safe. Not here: how long an access takes (target/machine.h).
//
// The rules, of NVIDIA's GPUs [CUDA C++ programming guide, shared memory and device memory accesses]:
//  - Shared memory has 32 banks of 4 bytes. It serves groups of lanes: all 32 lanes if each accesses up to 4 bytes, 16
//    lanes for 8 bytes each, 8 lanes for 16 bytes each. A group takes one pass for each different word that it needs
//    from the same bank; the bank with the most words decides.
//  - Global memory comes in sectors of 32 bytes.
#pragma once
#include <vector>

#include "ir/stmt.h"

namespace autotune {

inline constexpr int64_t kWarp = 32;         // threads that run together
inline constexpr int64_t kSectorBytes = 32;  // of global memory

// One load or store of a kernel. The numbers are those of the worst warp and iteration that were examined.
struct WarpAccess {
  Name buffer;
  bool shared = false;  // of scope shared; else global
  bool write = false;
  int64_t bytes = 0;          // bytes that one lane accesses
  int64_t conflicts = 0;      // shared: passes beyond one for each group of lanes
  int64_t sectors = 0;        // global: number that the warp touches
  int64_t least_sectors = 0;  // global: fewest sectors that hold as many bytes
  double times = 0;           // number of executions by each warp
};

// Returns the accesses of one kernel, a loop over blocks or threads. Each place in the program counts as one access, so
// an unrolled loop gives several. Looks at all warps of the first block, in the first two iterations of the loops
// around an access. Ignores lanes whose conditions do not hold, and accesses whose subscripts depend on memory.
std::vector<WarpAccess> WarpAccessesOf(const Stmt& kernel);

}  // namespace autotune
