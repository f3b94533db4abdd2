// CudaArch: the properties that NVIDIA's GPUs of one compute capability share, as one row of a table. A target takes
// the properties that its text leaves out from its row. Immutable; thread-safe.
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
  // Multiply-adds of the tensor cores in a cycle, of a unit, with f32 sums: for operands of f16 or bf16, and for TF32.
  // 0: the tensor cores do not have the matrix shapes of ir/mma.h.
  double half_lanes, tf32_lanes;
  bool async_copies;  // from global to shared memory
  int ptx_version;    // first PTX ISA that has it, times ten; old drivers then load the code
};

// Shared memory that a function may declare in its code. The launch must request any more.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

// Sorted from the oldest to the newest.
std::span<const CudaArch> CudaArchs();
// Null for an unknown name.
const CudaArch* FindCudaArch(std::string_view name);
std::string CudaArchNames();  // "sm_75, sm_80"

}  // namespace autotune
