// CudaArch: the properties that NVIDIA's GPUs of one compute capability share, as one row of a table. If the text of a
// target leaves out a property, the target takes it from this row. An architecture without a row takes the row of the
// newest one before it. Immutable; thread-safe.
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
  // The architecture that PTX is written for: this one, or the newest one before it that LLVM's back end knows. The
  // driver translates PTX to the instructions of its GPU, so PTX runs on all later architectures.
  std::string_view ptx_arch;
  // Ten times the version of the PTX ISA that code is written in: the first that has `ptx_arch`, so that old
  // drivers load the code.
  int ptx_version;
};

// Most shared memory, in bytes, that a kernel may declare in its code. If a kernel needs more, its launch must request
// all of its shared memory.
inline constexpr int64_t kStaticSharedBytes = 48 << 10;

// Most shared memory of a block, in bytes, that all architectures since sm_80 have. An architecture without a row is
// assumed to have no more.
inline constexpr int64_t kCommonSharedBytes = 99 << 10;

// Returns all architectures, from the oldest to the newest.
std::span<const CudaArch> CudaArchs();
// Returns the row of the architecture, or else of the newest one before it. Null if the name is not sm_<number>, or if
// the architecture is older than all rows.
const CudaArch* FindCudaArch(std::string_view name);
// Returns the name without the suffix of an architecture's own instructions ("sm_90" for sm_90a, sm_100f), which
// generated code does not use.
std::string_view BaseArchName(std::string_view name);
// Returns the number of sm_<number>, without a suffix; 0 if the name is another text.
int CudaArchNumber(std::string_view name);
std::string CudaArchNames();  // "sm_70, sm_75, ..."

}  // namespace autotune
