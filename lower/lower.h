// Lower: turns a scheduled PrimFunc (blocks, multi-dimensional buffers) into flat loops over vectors, which codegen/
// compiles without further passes. Every error is the fault of the candidate: a broken register contract, a loop that
// cannot be vectorized, or an unrolled body that is too large. The candidate is then `rejected` with the text of the
// error. Thread-safe. Not here: machine code.
#pragma once
#include <optional>
#include <vector>

#include "ir/op.h"
#include "ir/pass_context.h"
#include "ir/stmt.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

// A kernel in the lowered dialect. Its buffers are flat: one dimension, compact.
struct LoweredKernel {
  Name name;
  std::vector<Param> params;        // as the caller sees them: the shapes of the PrimFunc that was lowered
  PrimFunc run;                     // parameters: `params`, then the prepared buffers (role constant)
  std::optional<PrimFunc> prepare;  // parameters: the constants among `params`, then the prepared buffers (outputs)
  std::vector<int64_t> prepared;    // bytes of each prepared buffer
  double flops = 0;                 // floating-point operations of one run, counted on the blocks' iteration domains
  bool has_register_tile = false;   // some buffer has scope register
};

struct Miscompile;

// The passes and options of lowering.
const PassTable& LoweringPassTable();
const PassTable& GpuPassTable();  // the passes that only GPUs have
inline constexpr IntOption kUnrollLimit{"unroll_limit", 4096, 1, 1 << 20,
                                        "greatest number of statements that unrolling may make of one loop nest"};

// In a lowered function each intermediate is an Alloc statement, as far inside the loops as its uses allow
// (lower/compact.cc). For a GPU, the function is a sequence of kernels of threads (ir/threads.h), inside the Allocs of
// buffers in global memory. In each kernel the loops over threads are one nest directly inside the loops over blocks,
// and shared buffers are allocated between the two. A barrier precedes each stage that reads or overwrites the writes
// of other threads. An error names a barrier under a condition that differs between threads, or another part that
// cannot be merged. `miscompile`: a mistake to make on purpose, for tests (lower/miscompile.h).
Result<LoweredKernel> Lower(const PrimFunc& f, const Target& target, const PassContext& context = {},
                            Miscompile* miscompile = nullptr);

// Returns an elementary function as arithmetic if the target has no instruction for it, and any other expression
// unchanged. So lowered programs call no elementary functions. Exception: targets of kind c keep calls of functions
// that take a hundred operations or more (IsLongMath). The generator emits one C function for each, since C compilers
// take minutes for hundreds of copies.
Expr ExpandMathCall(const Expr& call, const Target& target);
bool IsLongMath(Op op);
}  // namespace autotune
