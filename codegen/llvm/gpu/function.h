// KernelEmitter: emits one kernel of threads as a function of LLVM IR for NVPTX. The variables of loops over blocks and
// threads become the numbers of the running block and thread. Global memory is in address space 1, shared memory in 3.
// Buffers of one thread become values during optimization. Values, addresses and control flow come from the classes
// that all code generators for LLVM share. Owns all state of its function; borrows the module and the target. An object
// emits one function. Not thread-safe. Internal to codegen/llvm/gpu.
#pragma once
#include <llvm/IR/Module.h>

#include "codegen/emitter.h"
#include "codegen/launches.h"
#include "codegen/llvm/control.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

class KernelEmitter : private StatementEmitter {
 public:
  // `index_bits` is the width of the kernel's indices (codegen/index_width.h).
  KernelEmitter(llvm::Module& module, const Target& target, int index_bits);

  // Emits ptx_kernel void ENTRY(ptr addrspace(1)...). The parameters are `kernel.pointers`. If the shared buffers need
  // more memory than a function may declare statically, they share one array whose size the launch sets, and
  // `kernel.launch.shared_bytes` becomes that size.
  void EmitKernel(KernelFunction& kernel);

 private:
  void BeginFunction(const KernelFunction& kernel);
  void DescribeParam(unsigned index, const PointerParam& p);
  void BindShared(KernelFunction& kernel);

  void Begin() override { expressions_.StartStatement(); }
  void EmitFor(const For& loop) override;
  llvm::Value* SpecialRegister(LoopKind axis, int64_t extent);
  void EmitIf(const If& branch) override;
  void EmitStore(const Store& store) override;
  bool EmitAsyncCopy(const Store& store);
  void EmitMma(const Store& store);
  std::vector<Addresses::Address> WordsOf(const Buffer& buffer, const Expr& index);
  void EmitAlloc(const Alloc& alloc) override;
  void EmitEvaluate(const Expr& value) override;
  void EmitLet(const Let& let) override;

  llvm::Module& module_;
  llvm::IRBuilder<> builder_;
  Bindings bindings_;
  Expressions expressions_;
  ControlFlow control_;
  llvm::Function* function_ = nullptr;
};

}  // namespace autotune
