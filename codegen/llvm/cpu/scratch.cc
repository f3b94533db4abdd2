#include "codegen/llvm/cpu/scratch.h"

#include <cstddef>

#include "runtime/abi.h"

namespace autotune {
namespace {

// Emits a call of workspace_alloc. If the call fails, the emitted function returns 1.
llvm::Value* AllocateFromContext(llvm::IRBuilder<>& builder, llvm::Value* context, int64_t bytes) {
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(pointer, {pointer, builder.getInt64Ty()}, false);
  llvm::Value* alloc = ContextField(builder, context, offsetof(AtContext, workspace_alloc), pointer);
  llvm::Value* base = builder.CreateCall(type, alloc, {context, builder.getInt64(bytes)});
  llvm::Function* function = builder.GetInsertBlock()->getParent();
  llvm::BasicBlock* failed = llvm::BasicBlock::Create(builder.getContext(), "no_memory", function);
  llvm::BasicBlock* ok = llvm::BasicBlock::Create(builder.getContext(), "memory", function);
  builder.CreateCondBr(builder.CreateIsNull(base), failed, ok);
  builder.SetInsertPoint(failed);
  SetError(builder, context,
           builder.CreateGlobalString("out of memory: " + std::to_string(bytes) + " bytes of workspace in " +
                                      function->getName().str()));
  builder.CreateRet(builder.getInt32(1));
  builder.SetInsertPoint(ok);
  return base;
}

}  // namespace

ScratchMemory AllocateScratch(llvm::IRBuilder<>& builder, llvm::Value* context, const Workspace& workspace) {
  ScratchMemory scratch;
  if (workspace.bytes == 0) return scratch;
  llvm::Value* base;
  if (workspace.bytes <= kMaxStackBytes) {
    llvm::AllocaInst* memory = builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), workspace.bytes));
    memory->setAlignment(llvm::Align(AT_ALIGNMENT));
    base = memory;
  } else {
    base = scratch.to_free = AllocateFromContext(builder, context, workspace.bytes);
  }
  for (const Workspace::Slot& slot : workspace.slots) {
    scratch.pointers.push_back(builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, slot.offset));
  }
  return scratch;
}

void FreeScratch(llvm::IRBuilder<>& builder, llvm::Value* context, const ScratchMemory& scratch) {
  if (!scratch.to_free) return;
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer}, false);
  llvm::Value* free = ContextField(builder, context, offsetof(AtContext, workspace_free), pointer);
  builder.CreateCall(type, free, {context, scratch.to_free});
}

}  // namespace autotune
