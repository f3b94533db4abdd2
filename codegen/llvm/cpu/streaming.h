// Streaming (non-temporal) stores: they bypass the caches, for results that no cache holds until they are read.
// Internal to codegen/llvm/cpu.
#pragma once
#include <optional>
#include <set>

#include "codegen/llvm/addresses.h"
#include "target/target.h"

namespace autotune {

// Returns the buffers that code for `body` writes by streaming stores: large ones that come from outside and that it
// does not read. A cached store reads its line first unless a cache holds it, and then evicts another line; both are a
// third of the traffic of a copy. Empty unless the processor is x86-64, which writes streaming stores out at once and
// orders them by a fence.
std::set<Name> StreamedBuffers(const Stmt& body, const Target& target);

// Returns true if vectors of `lanes` elements at `index` fill whole cache lines, alone or with their neighbours in this
// and the next iteration of the loop over `innermost`. A streaming store of a part of a line costs more than one of all
// of it.
bool FillsLines(const Buffer& buffer, const Expr& index, int lanes, const std::optional<Name>& innermost);

// The streaming stores of one function. Borrows the builder. Not thread-safe.
class StreamingStores {
 public:
  StreamingStores(llvm::IRBuilder<>& builder, std::set<Name> buffers)
      : builder_(builder), buffers_(std::move(buffers)) {}

  const std::set<Name>& buffers() const { return buffers_; }

  // Stores `value`, which is `store`'s, at `address`, and returns true; returns false and does nothing where a cached
  // store is better. `after_vectors`: the store is in the second version of a statement, whose first version stores
  // vectors, so that a tail lies beside full lines.
  bool Store(const autotune::Store& store, llvm::Value* value, const Addresses::Address& address,
             const std::optional<Name>& innermost, bool after_vectors);

  // Streaming stores are weakly ordered: makes those of this function visible before it signals that it has finished.
  void Fence();

 private:
  llvm::IRBuilder<>& builder_;
  std::set<Name> buffers_;
  bool used_ = false;
};

}  // namespace autotune
