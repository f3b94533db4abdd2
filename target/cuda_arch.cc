#include "target/cuda_arch.h"

#include <algorithm>
#include <charconv>

namespace autotune {
namespace {

// Sources of the numbers:
// - Threads, blocks, shared memory, registers and lanes: the CUDA C++ programming guide, its technical specifications
//   per compute capability and its throughput of arithmetic instructions. The same limits are in NVIDIA's CCCL,
//   cuda/__device/arch_traits.h.
// - Units: NVIDIA's white papers on the V100, T4, A100, GeForce RTX 3090, Jetson AGX Orin, GeForce RTX 4090, H100 SXM
//   and GeForce RTX 5090. B200 and B300: [chosen], to be read from a driver.
// - Tensor cores: the rates for f32 sums in these white papers, divided by the units and the boost clock; for sm_87,
//   sm_100 and sm_103 they are [chosen].
// - PTX versions and asynchronous copies (cp.async): the release notes of the PTX ISA.
// - `ptx_arch`: LLVM 19, which knows PTX up to version 8.5. PTX has sm_100 since 8.6, sm_120 since 8.7.
constexpr CudaArch kArchs[] = {
    {.name = "sm_70",
     .units = 80,
     .max_threads = 1024,
     .shared_bytes = 96 << 10,
     .registers = 64 << 10,
     .lanes = 64,
     .half_lanes = 0,
     .tf32_lanes = 0,
     .resident_threads = 2048,
     .resident_blocks = 32,
     .async_copies = false,
     .ptx_arch = "sm_70",
     .ptx_version = 60},
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
     .ptx_arch = "sm_75",
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
     .ptx_arch = "sm_80",
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
     .ptx_arch = "sm_86",
     .ptx_version = 71},
    {.name = "sm_87",
     .units = 16,
     .max_threads = 1024,
     .shared_bytes = 163 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 1024,
     .tf32_lanes = 512,
     .resident_threads = 1536,
     .resident_blocks = 16,
     .async_copies = true,
     .ptx_arch = "sm_87",
     .ptx_version = 74},
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
     .ptx_arch = "sm_89",
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
     .ptx_arch = "sm_90",
     .ptx_version = 78},
    {.name = "sm_100",
     .units = 148,
     .max_threads = 1024,
     .shared_bytes = 227 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 4096,
     .tf32_lanes = 2048,
     .resident_threads = 2048,
     .resident_blocks = 32,
     .async_copies = true,
     .ptx_arch = "sm_90",
     .ptx_version = 78},
    {.name = "sm_103",
     .units = 148,
     .max_threads = 1024,
     .shared_bytes = 227 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 4096,
     .tf32_lanes = 2048,
     .resident_threads = 2048,
     .resident_blocks = 32,
     .async_copies = true,
     .ptx_arch = "sm_90",
     .ptx_version = 78},
    {.name = "sm_120",
     .units = 170,
     .max_threads = 1024,
     .shared_bytes = 99 << 10,
     .registers = 64 << 10,
     .lanes = 128,
     .half_lanes = 256,
     .tf32_lanes = 128,
     .resident_threads = 1536,
     .resident_blocks = 24,
     .async_copies = true,
     .ptx_arch = "sm_90",
     .ptx_version = 78},
};

}  // namespace

std::span<const CudaArch> CudaArchs() { return kArchs; }

int CudaArchNumber(std::string_view name) {
  constexpr std::string_view kPrefix = "sm_";
  if (!name.starts_with(kPrefix)) return 0;
  name = BaseArchName(name).substr(kPrefix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size() && !name.starts_with('0');
  return whole ? std::max(number, 0) : 0;
}

const CudaArch* FindCudaArch(std::string_view name) {
  const CudaArch* found = nullptr;
  for (const CudaArch& arch : kArchs) {
    if (CudaArchNumber(arch.name) <= CudaArchNumber(name)) found = &arch;
  }
  return found;
}

std::string_view BaseArchName(std::string_view name) {
  const bool suffix = name.ends_with('a') || name.ends_with('f');
  return name.substr(0, name.size() - (suffix ? 1 : 0));
}

std::string CudaArchNames() {
  std::string names;
  for (const CudaArch& arch : kArchs) names += (names.empty() ? "" : ", ") + std::string(arch.name);
  return names;
}

}  // namespace autotune
