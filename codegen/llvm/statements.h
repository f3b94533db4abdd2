// Functions for statements that all code generators for LLVM IR use: stores of lanes, and memory that a function owns.
// Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <optional>
#include <string>

#include "codegen/llvm/bindings.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

// Returns the index of a store's first lane if the lanes are contiguous in memory, so that one access stores them; else
// nothing.
std::optional<Expr> FirstOfContiguous(const Store& store);

// Emits one store per lane of `value`, a vector of the type that elements have in memory (Operations::MemoryType).
void StoreLanes(llvm::IRBuilder<>& builder, Expressions& expressions, const Store& store, llvm::Value* value);

// Allocates `buffer` on the stack in the entry block of the function. There LLVM's pass SROA turns its elements into
// values. `alignment` is in bytes.
BufferMemory AllocaOf(llvm::Function& function, Operations& operations, const Buffer& buffer, const std::string& name,
                      int64_t alignment);

}  // namespace autotune
