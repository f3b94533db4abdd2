// Bindings: the values that the names of a function stand for. The emitter of statements writes them; the emitters of
// expressions and addresses read them. A plain value, owned by the emitter of one function. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <unordered_map>

#include "arith/analyzer.h"

namespace autotune {

// The memory of a buffer. The pointer's address space is free: a GPU's shared memory has another one than global
// memory.
struct BufferMemory {
  llvm::Value* pointer = nullptr;
  int64_t elements = 0;
  int64_t alignment = 64;  // of the pointer, in bytes
};

struct Bindings {
  std::unordered_map<Name, BufferMemory> buffers;
  std::unordered_map<Name, llvm::Value*> vars;
  Analyzer analyzer;  // bounds of the variables, as far as they are known where the builder stands
};

}  // namespace autotune
