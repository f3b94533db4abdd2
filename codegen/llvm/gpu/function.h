// KernelEmitter: one kernel of threads as a function of LLVM IR for NVPTX. Loops over blocks and threads become the
// numbers of the block and the thread that run; global memory is in address space 1, shared memory in 3, and what a
// thread has to itself are values, after optimization. Values, addresses and control flow come from the classes that
// all code generators for LLVM share. Owns all state of its function; borrows the module and the target. Emits once.
// Not thread-safe. Internal to codegen/llvm/gpu.
#pragma once
#include <llvm/IR/Module.h>

#include "codegen/launches.h"
#include "codegen/llvm/control.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

class KernelEmitter {
 public:
  // `index_bits`: of the kernel (codegen/index_width.h).
  KernelEmitter(llvm::Module& module, const Target& target, int index_bits);

  // ptx_kernel void ENTRY(ptr addrspace(1)...): the parameters are `kernel.pointers`. Where its shared buffers are more
  // than a function may declare, they are one array outside of the function, and `kernel.launch.shared_bytes` becomes
  // its size.
  void Emit(KernelFunction& kernel);

 private:
  void Begin(const KernelFunction& kernel);
  void DescribeParam(unsigned index, const PointerParam& p);
  void BindShared(KernelFunction& kernel);

  void Emit(const Stmt& s);
  void EmitFor(const For& loop);
  llvm::Value* SpecialRegister(LoopKind axis, int64_t extent);
  void EmitIf(const If& branch);
  void EmitStore(const Store& store);
  bool EmitAsyncCopy(const Store& store);
  void EmitMma(const Store& store);
  std::vector<Addresses::Address> WordsOf(const Buffer& buffer, const Expr& index);
  void EmitAlloc(const Alloc& alloc);
  void EmitEvaluate(const Expr& value);

  llvm::Module& module_;
  llvm::IRBuilder<> builder_;
  Bindings bindings_;
  Expressions expressions_;
  ControlFlow control_;
  llvm::Function* function_ = nullptr;
};

}  // namespace autotune
