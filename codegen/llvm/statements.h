// Functions for statements that all code generators for LLVM IR use: stores of lanes, and memory that a function owns.
// Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <optional>
#include <string>

#include "codegen/llvm/bindings.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

// Returns the index of a store's first lane if the lanes are contiguous in memory, so that one access stores all of
// them. Returns nothing otherwise.
std::optional<Expr> FirstOfContiguous(const Store& store);

// Emits one store for each lane of `value`. Its lanes have the type of elements in memory (Operations::MemoryType).
void StoreLanes(llvm::IRBuilder<>& builder, Expressions& expressions, const Store& store, llvm::Value* value);

// Allocates `buffer` on the stack, in the entry block of the function, where LLVM's pass SROA turns the elements into
// values. `alignment` is in bytes.
BufferMemory AllocaOf(llvm::Function& function, Operations& operations, const Buffer& buffer, const std::string& name,
                      int64_t alignment);

}  // namespace autotune
