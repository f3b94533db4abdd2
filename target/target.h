// Target: what code is made for, and by which code generator. A value with one canonical text, which records and
// packages store:
//   llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma -caches=32K,512K,32M -num-cores=2
//   c -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma -caches=32K,512K,32M -num-cores=2 -vectors=none
//   opencl -mtriple=x86_64-linux-gnu -num-cores=16 -max-threads=256 -shared=32K
//   cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -num-cores=108 -max-threads=1024 -shared=163K -registers=64K -tf32=1
// `cpu` means `llvm -mcpu=host -num-cores=<all>`, and `c` alone `c -mcpu=host -num-cores=<all>`; `host` is resolved
// when parsed, its caches too. The sizes of caches are part of the text, since programs depend on them: what was tuned
// on one machine is found again on another. `cuda` needs an architecture, and takes from its row (target/cuda_arch.h)
// what the text leaves out. Knows nothing of LLVM: attributes come from the architecture and the
// feature list. Immutable once parsed; thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"
#include "support/result.h"

namespace autotune {

// The code generator. kC: C source text, which the machine's C compiler compiles. kOpenCl: OpenCL C, which the driver
// of the device compiles when a program is loaded. kCuda: PTX by LLVM, which the driver compiles then.
enum class TargetKind { kLlvm, kC, kOpenCl, kCuda };
AUTOTUNE_ENUM(TargetKind, "llvm", "c", "opencl", "cuda")

struct Target {
  TargetKind kind = TargetKind::kLlvm;
  // kC: the source uses vector types. Without them (-vectors=none), each vector becomes a loop over its lanes, which
  // any C compiler understands and many vectorize. `vector_bits` is that of the machine in both cases, so that these
  // loops have as many lanes as its vectors.
  bool vector_types = true;
  std::string triple;                 // x86_64-linux-gnu, aarch64-linux-gnu, riscv64-linux-gnu
  std::string cpu;                    // LLVM's name, never "host"
  std::vector<std::string> features;  // "+avx2", sorted; only those that the CPU name does not imply may be needed
  int num_cores = 1;

  int64_t l1_bytes = 32 << 10;   // data, per core
  int64_t l2_bytes = 512 << 10;  // per core
  int64_t l3_bytes = 16 << 20;   // shared

  // GPUs. `triple` is then that of the host that launches kernels, and `num_cores` counts compute units.
  std::string arch;                 // kCuda: sm_80
  int64_t max_threads = 256;        // of a block
  int64_t shared_bytes = 32 << 10;  // of a block
  int64_t registers = 64 << 10;     // of 32 bits, of a compute unit; not stated by kOpenCl
  // kCuda (-tf32=1): sums of products of f32 may round their operands to TF32, for tensor cores.
  bool tf32 = false;

  // Derived when parsed:
  int vector_bits = 128;       // of the widest profitable vector register; 32: there are none, a scalar's
  int vector_registers = 16;   // architectural
  int general_registers = 16;  // architectural; addresses and counters stay in them
  bool has_fma = false;
  bool has_async_copies = false;  // from global to shared memory, past the registers (ir/op.h, async)
  bool has_mma = false;           // tensor cores with operands of f16, bf16 and TF32 (ir/mma.h)
  bool has_f16 = false;           // instructions that convert between f16 and f32, and a generator that names them
  bool has_ldexp = false;         // an instruction that multiplies lanes by powers of two
  int cache_line = 64;

  // Returns true if code for it consists of kernels of threads (ir/threads.h), which run on a device of their own.
  bool IsGpu() const { return kind == TargetKind::kOpenCl || kind == TargetKind::kCuda; }

  // The format of a GPU's programs (Device::LoadImage): "cl", "ptx".
  std::string_view ImageFormat() const { return kind == TargetKind::kCuda ? "ptx" : "cl"; }

  // The CPU on which programs for this target start: of a GPU, any of its triple; else the target itself.
  Target Host() const;

  // Accepts "cpu", "llvm", "c", "llvm -mcpu=host ..." and canonical text. Errors name the option at fault.
  static Result<Target> Parse(std::string_view text);
  std::string Text() const;  // canonical; Parse(Text()) == *this
  // The error that rounding the operands of products adds to a sum of products, relative to the sum of their
  // magnitudes: half a unit in the last place for each operand. Comparisons of results allow for it.
  double ProductRounding() const { return tf32 ? 0x1p-10 : 0; }
  int VectorLanes(int bits) const { return vector_bits / bits; }
  bool operator==(const Target& other) const { return Text() == other.Text(); }
};

// Returns the features (support/cpu_features.h) that LLVM assumes for an x86-64 model, sorted. The model must be one
// that -mcpu=host can stand for; all of these have AVX2.
std::vector<std::string> FeaturesOfModel(std::string_view cpu);

// Sets the CPU name and the features of an Arm or RISC-V host from the text of Linux's /proc/cpuinfo. `target` already
// has its triple. Fields that the text does not tell stay as they are.
void DescribeCpu(const std::string& cpuinfo, Target& target);

}  // namespace autotune
