// Emits products of tiles (ir/tile_product.h) by AMX. Internal to codegen/llvm.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <string>

#include "ir/tile_product.h"

namespace autotune {

// The registers of AMX, which a function configures once. A value per function; not thread-safe.
class TileRegisters {
 public:
  // Emits the product at the builder's position. `c`, `a` and `b` point to the first elements.
  void Emit(llvm::IRBuilder<>& builder, const TileProduct& product, llvm::Value* c, llvm::Value* a, llvm::Value* b);
  // Follows a call of a function that has used the registers, and so has released them.
  void Restore(llvm::IRBuilder<>& builder);
  // Frees the registers before the function returns, if it has used them.
  void Release(llvm::IRBuilder<>& builder) const;
  bool used() const { return used_; }

 private:
  std::string configuration_;  // since the entry of the function; empty: none
  bool used_ = false, restored_ = false;
};

}  // namespace autotune
