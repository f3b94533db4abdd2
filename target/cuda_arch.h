// CudaArch: what NVIDIA's GPUs of one compute capability have in common, one row each. Targets take from it what their
// text leaves out. Immutable; thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autotune {

struct CudaArch {
  std::string_view name;  // sm_80
  int units;              // streaming multiprocessors of a typical GPU
  int64_t max_threads;    // of a block
  int64_t shared_bytes;   // of a block, with the driver's consent above kStaticSharedBytes
  int64_t registers;      // of 32 bits, of a unit
  double lanes;           // multiply-adds of f32 a cycle, of a unit
  // The same of tensor cores, with sums of f32: operands of f16 and bf16, and TF32. 0: they do not multiply
  // the matrices of ir/mma.h.
  double half_lanes, tf32_lanes;
  bool async_copies;  // from global to shared memory
  int ptx_version;    // of the first PTX ISA that names it, times ten: the oldest driver then takes the code
};

// Shared memory that a function's code may declare itself. More is asked for by the launch.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

// Sorted from the oldest to the newest.
std::span<const CudaArch> CudaArchs();
// Null for an unknown name.
const CudaArch* FindCudaArch(std::string_view name);
std::string CudaArchNames();  // "sm_75, sm_80"

}  // namespace autotune
