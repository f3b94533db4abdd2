// Bindings: the values that the names of a function stand for. The emitter of statements writes them; the emitters of
// expressions and addresses read them. A plain value, owned by the emitter of one function. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <unordered_map>

#include "arith/analyzer.h"

namespace autotune {

// The memory of a buffer. The pointer may be in any address space: on a GPU, shared and global memory have different
// ones.
struct BufferMemory {
  llvm::Value* pointer = nullptr;
  int64_t elements = 0;
  int64_t alignment = 64;  // alignment of the pointer in bytes
};

struct Bindings {
  std::unordered_map<Name, BufferMemory> buffers;
  std::unordered_map<Name, llvm::Value*> vars;
  Analyzer analyzer;  // bounds of the variables that are known at the current place in the code
};

}  // namespace autotune
