#include "codegen/llvm/cpu/module.h"

#include <cstddef>

#include "lower/passes.h"
#include "runtime/abi.h"

namespace autotune {

llvm::Function* MakeHidden(llvm::Module& module, llvm::FunctionType* type, const std::string& name) {
  llvm::Function* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  function->setDSOLocal(true);
  return function;
}

llvm::Function* SeenFrom(llvm::Module& module, llvm::Function* function) {
  if (function->getParent() == &module) return function;
  if (llvm::Function* declared = module.getFunction(function->getName())) return declared;
  return MakeHidden(module, function->getFunctionType(), function->getName().str());
}

void DescribeParam(llvm::Function* function, unsigned index, const PointerParam& p) {
  llvm::LLVMContext& context = function->getContext();
  function->addParamAttr(index, llvm::Attribute::NoAlias);
  function->addParamAttr(index, llvm::Attribute::NoUndef);
  function->addParamAttr(index, llvm::Attribute::getWithAlignment(context, llvm::Align(p.alignment)));
  function->addParamAttr(index, llvm::Attribute::getWithDereferenceableBytes(context, BytesOf(p.buffer)));
  if (!p.written) function->addParamAttr(index, llvm::Attribute::ReadOnly);
  function->getArg(index)->setName(p.name.str());
}

llvm::Value* ContextField(llvm::IRBuilder<>& builder, llvm::Value* context, int byte_offset, llvm::Type* type) {
  return builder.CreateLoad(type, builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), context, byte_offset));
}

void SetError(llvm::IRBuilder<>& builder, llvm::Value* context, llvm::Value* text) {
  llvm::Type* pointer = builder.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, pointer}, false);
  llvm::Value* set_error = ContextField(builder, context, offsetof(AtContext, set_error), pointer);
  builder.CreateCall(type, set_error, {context, text});
}

}  // namespace autotune
