// The modules that a CPU's functions go to, how functions see each other, and the fields of AtContext
// (runtime/abi.h) that they read. Internal to codegen/llvm/cpu.
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>

#include "codegen/memory.h"

namespace autotune {

// The modules that functions go to. `hot` is optimized. `cold` holds the straight-line code around it (entry points,
// thunks), for which LLVM's quickest code generation suffices: this halves the time of a build. Both belong to one
// context.
struct Modules {
  llvm::Module& hot;
  llvm::Module& cold;
};

// Creates a function that both modules see and nothing outside the artifact sees.
llvm::Function* MakeHidden(llvm::Module& module, llvm::FunctionType* type, const std::string& name);
// Returns `function`, or its declaration if `module` is the other one.
llvm::Function* SeenFrom(llvm::Module& module, llvm::Function* function);
// Tells LLVM about pointer parameter `index`: it is aligned, all of its memory exists, and nothing else reaches it.
void DescribeParam(llvm::Function* function, unsigned index, const PointerParam& p);

// Loads the field of AtContext at `byte_offset`.
llvm::Value* ContextField(llvm::IRBuilder<>& builder, llvm::Value* context, int byte_offset, llvm::Type* type);
// Calls set_error of AtContext with `text`, a pointer to characters.
void SetError(llvm::IRBuilder<>& builder, llvm::Value* context, llvm::Value* text);

}  // namespace autotune
