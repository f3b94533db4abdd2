// Parallel loops of a CPU. The loop's body is a function of an interval of iterations. A thunk, which the pool of
// threads calls once per task, computes the task's interval, gives it scratch memory and calls the body. Internal to
// codegen/llvm/cpu.
#pragma once
#include <string>

#include "codegen/llvm/bindings.h"
#include "codegen/llvm/cpu/module.h"
#include "codegen/parallel.h"

namespace autotune {

struct ParallelRun {
  std::string name;
  llvm::Function* body;  // void(i64 begin, i64 end, pointers..., i64 scalars...)
  const Captures& captures;
  int64_t extent;  // > 0
  Name var;
};
// Emits the thunk into the cold module, and the call of the pool at the place of `builder`. If a task fails, the
// calling function returns the task's code. `context` is the AtContext of the calling function.
void EmitParallelRun(llvm::IRBuilder<>& builder, Modules modules, llvm::Value* context, const Bindings& bindings,
                     const ParallelRun& run);

}  // namespace autotune
