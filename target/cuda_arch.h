// CudaArch: the properties that NVIDIA's GPUs of one compute capability share, as one row of a table. If the text of a
// target leaves out a property, the target takes it from this row. Immutable; thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autotune {

struct CudaArch {
  std::string_view name;  // sm_80
  int units;              // streaming multiprocessors of a typical GPU
  int64_t max_threads;    // most threads of a block
  int64_t shared_bytes;   // most shared memory of a block; above kStaticSharedBytes, the launch must request it
  int64_t registers;      // 32-bit registers of a unit
  double lanes;           // f32 multiply-adds of a unit per cycle
  // Multiply-adds per cycle of a unit's tensor cores with f32 sums, for operands of f16 or bf16 (`half_lanes`) and of
  // TF32 (`tf32_lanes`). 0: the tensor cores do not have the matrix shapes of ir/mma.h.
  double half_lanes, tf32_lanes;
  double resident_threads, resident_blocks;  // most threads and blocks that a unit holds at a time
  bool async_copies;                         // true: it has asynchronous copies from global to shared memory
  // Ten times the version of the PTX ISA that code is written in: the first that has the architecture, so that old
  // drivers load the code.
  int ptx_version;
};

// Most shared memory, in bytes, that a kernel may declare in its code. If a kernel needs more, its launch must request
// all of its shared memory.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

// Returns all architectures, from the oldest to the newest.
std::span<const CudaArch> CudaArchs();
// Returns null if the name is unknown.
const CudaArch* FindCudaArch(std::string_view name);
std::string CudaArchNames();  // "sm_75, sm_80, ..."

}  // namespace autotune
