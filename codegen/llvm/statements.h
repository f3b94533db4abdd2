// Functions for the statements of all code generators that emit LLVM IR: where the lanes of a store go, and memory that
// a function owns. Borrows its arguments. Not thread-safe. Internal to codegen/llvm.
#pragma once
#include <optional>
#include <string>

#include "codegen/llvm/bindings.h"
#include "codegen/llvm/expressions.h"

namespace autotune {

// The index of a store's first lane, if its lanes follow one another in memory: then they are one access.
std::optional<Expr> FirstOfContiguous(const Store& store);

// Stores each lane of `value`, a vector in the form that memory has, by itself.
void StoreLanes(llvm::IRBuilder<>& builder, Expressions& expressions, const Store& store, llvm::Value* value);

// Memory for `buffer` in the entry block of the function, where LLVM's pass SROA turns its elements into values.
// `alignment` in bytes.
BufferMemory AllocaOf(llvm::Function& function, Operations& operations, const Buffer& buffer, const std::string& name,
                      int64_t alignment);

}  // namespace autotune
