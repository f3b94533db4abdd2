#include "target/cuda_arch.h"

#include <algorithm>

namespace autotune {
namespace {

// Sources of the numbers:
// - Threads, blocks, shared memory, registers and lanes: the CUDA C++ programming guide, its technical specifications
//   per compute capability and its throughput of arithmetic instructions.
// - Units: NVIDIA's white papers on the T4, A100, GeForce RTX 3090, GeForce RTX 4090 and H100 SXM.
// - Tensor cores: the rates for f32 sums in these white papers, divided by the units and the boost clock.
// - PTX versions and asynchronous copies (cp.async): the release notes of the PTX ISA.
constexpr CudaArch kArchs[] = {
    {.name = "sm_75",
     .units = 40,
     .max_threads = 1024,
     .shared_bytes = 64 << 10,
     .registers = 64 << 10,
     .lanes = 64,
     .half_lanes = 0,
     .tf32_lanes = 0,
     .resident_threads = 1024,
     .resident_blocks = 16,
     .async_copies = false,
     .ptx_version = 64},
    {.name = "sm_80",
     .units = 108,
     .max_threads = 1024,
     .shared_bytes = 163 << 10,
     .registers = 64 << 10,
     .lanes = 64,
     .half_lanes = 1024,
     .tf32_lanes = 512,
     .resident_threads = 2048,
     .resident_blocks = 32,
     .async_copies = true,
     .ptx_version = 70},
    {.name = "sm_86",
     .units = 82,
     .max_threads = 1024,
     .shared_bytes = 99 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 256,
     .tf32_lanes = 128,
     .resident_threads = 1536,
     .resident_blocks = 16,
     .async_copies = true,
     .ptx_version = 71},
    {.name = "sm_89",
     .units = 128,
     .max_threads = 1024,
     .shared_bytes = 99 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 256,
     .tf32_lanes = 128,
     .resident_threads = 1536,
     .resident_blocks = 24,
     .async_copies = true,
     .ptx_version = 78},
    {.name = "sm_90",
     .units = 132,
     .max_threads = 1024,
     .shared_bytes = 227 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 2048,
     .tf32_lanes = 1024,
     .resident_threads = 2048,
     .resident_blocks = 32,
     .async_copies = true,
     .ptx_version = 78},
};

}  // namespace

std::span<const CudaArch> CudaArchs() { return kArchs; }

const CudaArch* FindCudaArch(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kArchs), std::end(kArchs), [&](const CudaArch& a) { return a.name == name; });
  return found == std::end(kArchs) ? nullptr : found;
}

std::string CudaArchNames() {
  std::string names;
  for (const CudaArch& arch : kArchs) names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

}  // namespace autotune
