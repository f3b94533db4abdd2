// The plan of a network that is compiled ahead of time: the calls of its kernels with all addresses, and its constants.
// Plain values. Internal to compiler/. Thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "package/package.h"
#include "runtime/artifact.h"
#include "runtime/tensor.h"

namespace autotune {

// What an address of the plan is relative to. Of inputs and outputs, `at` is the index; of the others, an offset in
// bytes, a multiple of 64.
enum class AotBase { kNone, kInput, kOutput, kWorkspace, kData };

struct AotAddress {
  AotBase base = AotBase::kNone;  // kNone: the kernel does not read the argument
  int64_t at = 0;
};

struct AotCall {
  std::string kernel;
  std::vector<AotAddress> args;
};

struct AotCopy {
  AotAddress from, to;
  int64_t bytes = 0;
};

struct AotPiece {
  int64_t at = 0;  // offset in the data
  Tensor tensor;
};

struct AotPlan {
  std::vector<AotCall> prepare;  // calls of NAME.prepare that the program must make; empty if the data are prepared
  std::vector<AotCall> run;      // calls of NAME.raw, in order
  std::vector<AotCopy> copies;   // after the calls: outputs that are inputs, constants or other outputs
  std::vector<AotPiece> data;    // constants, in the order of their offsets
  int64_t data_bytes = 0;
  int64_t workspace_bytes = 0;       // intermediate values, and prepared constants if the program prepares them
  int64_t scratch_bytes = 0;         // scratch memory of the thread that runs the network
  int64_t thread_scratch_bytes = 0;  // scratch memory of each further thread
  bool asks_for_tiles = false;       // the code uses AMX, for which a process asks Linux (ir/tile_product.h)
  std::vector<int64_t> input_alignment, output_alignment;  // that the kernels need, in bytes
  std::string not_here;  // why the code does not run on this machine; empty if it does
};

// Plans the network of a package for the CPU. `kernels` has the metadata of all of its kernels. Prepares constants by
// the package's library. If that library cannot run on this machine, the plan has calls that prepare them later.
Result<AotPlan> PlanAot(const Package& package, const std::vector<KernelMetadata>& kernels);

}  // namespace autotune
