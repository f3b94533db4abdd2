// Lower: from a scheduled PrimFunc (blocks, multi-dimensional buffers) to flat loops over vectors, which codegen/ takes
// as they are. Every error is the candidate's fault (a broken register contract, a loop that cannot be vectorized, too
// large an unrolled body): the candidate is `rejected` with that text. Thread-safe. Not here: machine code.
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
                                        "statements that unrolling may make of one loop nest"};

// Lowered functions keep intermediates as Alloc statements at the innermost loop that contains all their uses.
// For a GPU, a function is a sequence of kernels of threads (ir/threads.h), in Allocs of what lies in global memory: in
// each kernel the loops over threads stand in one nest directly inside those over blocks, shared buffers are allocated
// between the two, and barriers stand where a thread needs what another one did. An error names a barrier that would
// stand under a condition which differs between threads, or what else cannot be merged.
// `miscompile`: a mistake to make on purpose, for tests (lower/miscompile.h).
Result<LoweredKernel> Lower(const PrimFunc& f, const Target& target, const PassContext& context = {},
                            Miscompile* miscompile = nullptr);

// An elementary function as arithmetic of the target, where it has no instruction for it; any other expression as it
// is. Lowered programs have no such calls, but for those of a hundred operations and more (IsLongMath) for targets of
// kind c: the generator makes one function of each, since C compilers take minutes for hundreds of copies.
Expr ExpandMathCall(const Expr& call, const Target& target);
bool IsLongMath(Op op);
}  // namespace autotune
