// The LLVM modules that hold the functions for a CPU, calls between the modules, and access to the fields of AtContext
// (runtime/abi.h). Internal to codegen/llvm/cpu.
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>

#include "codegen/memory.h"

namespace autotune {

// `hot` holds the functions with loops and is optimized. `cold` holds code without hot loops, such as entry points and
// thunks. LLVM's quickest code generation suffices for it, which halves the time of a build. Both modules belong to one
// context.
struct Modules {
  llvm::Module& hot;
  llvm::Module& cold;
};

// Creates a function that both modules can call, but no code outside of the artifact.
llvm::Function* MakeHidden(llvm::Module& module, llvm::FunctionType* type, const std::string& name);
// Returns `function` if it belongs to `module`, else its declaration in `module`.
llvm::Function* SeenFrom(llvm::Module& module, llvm::Function* function);
// Sets the attributes of pointer parameter `index`: it is aligned, all of its buffer may be read, and no other pointer
// accesses the same memory.
void DescribeParam(llvm::Function* function, unsigned index, const PointerParam& p);

// Loads the field of AtContext at `byte_offset`.
llvm::Value* ContextField(llvm::IRBuilder<>& builder, llvm::Value* context, int byte_offset, llvm::Type* type);
// Calls set_error of AtContext with `text`, a pointer to characters.
void SetError(llvm::IRBuilder<>& builder, llvm::Value* context, llvm::Value* text);

}  // namespace autotune
