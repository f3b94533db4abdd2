// Target: the machine for which code is generated, and the code generator. A value with one canonical text, which
// records and packages store:
//   llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma -caches=32K,512K,32M -num-cores=2
//   c -mtriple=x86_64-linux-gnu -mcpu=znver3 -mattr=+avx2,+fma -caches=32K,512K,32M -num-cores=2 -vectors=none
//   opencl -mtriple=x86_64-linux-gnu -num-cores=16 -max-threads=256 -shared=32K
//   cuda -arch=sm_80 -mtriple=x86_64-linux-gnu -num-cores=108 -max-threads=1024 -shared=163K -registers=64K -tf32=1
// `cpu` means `llvm -mcpu=host -num-cores=<all>`, and `c` alone means `c -mcpu=host -num-cores=<all>`. Parsing replaces
// `host` by the CPU and the caches of this machine, or of another one that is described. The sizes of caches are part
// of the text, since schedules depend on them. Two machines with equal texts share records. `cuda` needs an
// architecture; its row in target/cuda_arch.h, or the row of the newest known architecture before it, has the values
// that the text leaves out. Target does not use LLVM: attributes come from the names of the CPU and the architecture
// and from the feature list. Immutable once parsed; thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"
#include "support/result.h"

namespace autotune {

struct MachineDescription;  // support/machine_description.h

// The code generator. kLlvm: machine code by LLVM. kC: C source, which the machine's C compiler compiles. kOpenCl:
// OpenCL C, which the device's driver compiles when it loads a program. kCuda: PTX by LLVM, which the driver compiles
// when it loads a program.
enum class TargetKind { kLlvm, kC, kOpenCl, kCuda };
AUTOTUNE_ENUM(TargetKind, "llvm", "c", "opencl", "cuda")

struct Target {
  TargetKind kind = TargetKind::kLlvm;
  // For kC: true if the source uses vector types. Without them (-vectors=none), each vector becomes a loop over its
  // lanes, which any C compiler accepts and many vectorize. `vector_bits` is the width of the machine's vectors in both
  // cases, so that these loops have as many iterations as a vector has lanes.
  bool vector_types = true;
  std::string triple;                 // x86_64-linux-gnu, aarch64-linux-gnu, riscv64-linux-gnu
  std::string cpu;                    // LLVM's name, never "host"
  std::vector<std::string> features;  // "+avx2", sorted; features that `cpu` implies may be missing
  int num_cores = 1;

  int64_t l1_bytes = 32 << 10;   // data, per core
  int64_t l2_bytes = 512 << 10;  // per core
  int64_t l3_bytes = 16 << 20;   // shared

  // For GPUs. `triple` is then the triple of the host that launches kernels, and `num_cores` counts compute units.
  std::string arch;                 // kCuda: the architecture, such as sm_80
  int64_t max_threads = 256;        // most threads of a block
  int64_t shared_bytes = 32 << 10;  // most shared memory of a block
  int64_t registers = 64 << 10;     // 32-bit registers of a compute unit; not part of the text for kOpenCl
  // kCuda (-tf32=1): true if sums of products of f32 may round their operands to TF32, to use tensor cores.
  bool tf32 = false;

  // Derived when parsed:
  std::string note;       // empty, or one line that a user should see: how the code differs from what the text names
  int vector_bits = 128;  // width of the widest profitable vector register; 32 (one f32) if there is none
  int vector_registers = 16;   // number of architectural vector registers
  int general_registers = 16;  // number of architectural general registers, for addresses and counters
  bool has_fma = false;
  bool has_async_copies = false;  // copies from global to shared memory without registers (ir/op.h, async)
  bool has_mma = false;           // tensor cores with operands of f16, bf16 and TF32 (ir/mma.h)
  bool has_byte_dot = false;      // dot products of bytes (ir/dot.h)
  bool has_word_dot = false;      // dot products of words, where there are none of bytes, which add twice as many
  bool has_mixed_dot = false;     // AArch64: one of unsigned by signed bytes; x86 has no other
  bool has_bf16_dot = false;      // dot products of bf16
  bool has_byte_tables = false;   // look-ups of bytes in tables that registers hold (ir/byte_table.h)
  bool has_tiles = false;         // registers of two dimensions, and products of bytes and of bf16 (ir/tile_product.h)
  bool has_f16 = false;           // instructions that convert between f16 and f32, if the generator can emit them
  bool has_ldexp = false;         // an instruction that multiplies the lanes of a vector by powers of two
  int cache_line = 64;            // bytes

  // Returns true if code for the target consists of kernels of threads (ir/threads.h), which run on a GPU.
  bool IsGpu() const { return kind == TargetKind::kOpenCl || kind == TargetKind::kCuda; }

  // Returns the format of a GPU's programs (Device::LoadImage): "cl" or "ptx".
  std::string_view ImageFormat() const { return kind == TargetKind::kCuda ? "ptx" : "cl"; }

  // Returns the CPU that starts programs for this target. For a GPU, that is a generic CPU of the triple; else the
  // target itself.
  Target Host() const;

  // Accepts "cpu", "llvm", "c", "llvm -mcpu=host ..." and canonical text. Errors name the option at fault. What the
  // text leaves out, and `host`, are those of `machine`, on which the code will run; null: of this host (DescribeHost).
  static Result<Target> Parse(std::string_view text, const MachineDescription* machine = nullptr);
  std::string Text() const;  // canonical; Parse(Text()) == *this
  // Returns the greatest error of a sum of products that comes from rounding the operands to TF32 (half a unit in the
  // last place for each operand), relative to the sum of the products' magnitudes. Comparisons of results allow for
  // this error.
  double ProductRounding() const { return tf32 ? 0x1p-10 : 0; }
  // Returns whether there are dot products of vectors of floats or integers of so many bits, if `dot` takes them at all
  // (ir/dot.h).
  bool HasDot(bool floats, int bits) const { return floats ? has_bf16_dot : bits == 8 ? has_byte_dot : has_word_dot; }
  int VectorLanes(int bits) const { return vector_bits / bits; }
  bool operator==(const Target& other) const { return Text() == other.Text(); }
};

}  // namespace autotune
