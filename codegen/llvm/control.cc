#include "codegen/llvm/control.h"

namespace autotune {

void ControlFlow::Loop(const Counted& loop, Body body) {
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::Function* function = before->getParent();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(builder_.getContext(), loop.label, function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(builder_.getContext(), "after." + loop.var.str(), function);
  if (loop.known_nonempty) {
    builder_.CreateBr(inside);
  } else {
    builder_.CreateCondBr(builder_.CreateICmpSLT(loop.begin, loop.end), inside, after);
  }
  builder_.SetInsertPoint(inside);
  llvm::PHINode* value = builder_.CreatePHI(loop.begin->getType(), 2, loop.var.str());
  value->addIncoming(loop.begin, before);
  bindings_.vars[loop.var] = value;
  addresses_.EnterLoop({loop.var, before, inside, loop.begin, loop.innermost});
  body();
  addresses_.LeaveLoop();
  llvm::Value* next = builder_.CreateNUWAdd(value, llvm::ConstantInt::get(value->getType(), 1));
  llvm::cast<llvm::Instruction>(next)->setHasNoSignedWrap();
  value->addIncoming(next, builder_.GetInsertBlock());
  builder_.CreateCondBr(builder_.CreateICmpSLT(next, loop.end), inside, after);
  builder_.SetInsertPoint(after);
}

void ControlFlow::Branch(const Expr& e, llvm::Value* condition, Body then_body, Body else_body) {
  llvm::LLVMContext& context = builder_.getContext();
  llvm::Function* function = builder_.GetInsertBlock()->getParent();
  llvm::BasicBlock* then_block = llvm::BasicBlock::Create(context, "then", function);
  llvm::BasicBlock* else_block = else_body ? llvm::BasicBlock::Create(context, "else", function) : nullptr;
  llvm::BasicBlock* after = llvm::BasicBlock::Create(context, "endif", function);
  builder_.CreateCondBr(condition, then_block, else_block ? else_block : after);
  Analyzer outside = bindings_.analyzer;
  bindings_.analyzer.Assume(e);
  EmitArm(then_block, after, then_body);
  bindings_.analyzer = outside;
  if (else_block) {
    EmitArm(else_block, after, else_body);
    bindings_.analyzer = std::move(outside);
  }
  builder_.SetInsertPoint(after);
}

void ControlFlow::EmitArm(llvm::BasicBlock* block, llvm::BasicBlock* after, Body body) {
  builder_.SetInsertPoint(block);
  addresses_.EnterScope();
  body();
  addresses_.LeaveScope();
  builder_.CreateBr(after);
}

}  // namespace autotune
