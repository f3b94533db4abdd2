// Streaming (non-temporal) stores, which bypass the caches. They serve results that are too large to stay in a cache
// until they are read. Internal to codegen/llvm/cpu.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/llvm/addresses.h"
#include "target/target.h"

namespace autotune {

// Returns the buffers that code for `body` writes by streaming stores: large buffers that `body` neither allocates nor
// reads. A cached store that misses first reads its line from memory; in a copy, this read is a third of the traffic.
// Returns an empty set unless the processor is x86-64, where a fence orders streaming stores.
std::set<Name> StreamedBuffers(const Stmt& body, const Target& target);

// Returns true if vectors of `lanes` elements at `index` fill whole cache lines, alone or together with the
// neighbouring vectors of this and the next iterations of the loop over `innermost`. Streaming stores to a part of a
// line cost more than streaming stores to the whole line.
bool FillsLines(const Buffer& buffer, const Expr& index, int lanes, const std::optional<Name>& innermost);

// The streaming stores of one function. Borrows the builder. Not thread-safe.
class StreamingStores {
 public:
  StreamingStores(llvm::IRBuilder<>& builder, std::set<Name> buffers)
      : builder_(builder), buffers_(std::move(buffers)) {}

  const std::set<Name>& buffers() const { return buffers_; }

  // Emits a streaming store of `value`, the value of `store`, at `address` in `memory` and returns true. Emits nothing
  // and returns false if a cached store is better. `after_vectors` is true in the tail of a loop (lower/tails.h). Whole
  // vectors are stored before the tail, so they fill the rest of its cache lines. Where only a run knows the alignment
  // of the memory, the code chooses between whole vectors, the smallest ones (arrays of NumPy and of malloc are aligned
  // to 16 bytes) and a cached store.
  bool Store(const autotune::Store& store, llvm::Value* value, const Addresses::Address& address,
             const BufferMemory& memory, const std::optional<Name>& innermost, bool after_vectors);

  // Emits a fence if the function has streaming stores. They are weakly ordered: the fence makes them visible before
  // the function signals that it has finished.
  void Fence();

 private:
  // Stores a vector by streaming stores of `piece` elements.
  void Stream(llvm::Value* value, llvm::Value* start, int64_t piece);
  // Returns whether an argument of the function is aligned to so many bytes. The function computes it once, at its
  // start.
  llvm::Value* IsAligned(llvm::Value* pointer, int64_t bytes);

  llvm::IRBuilder<>& builder_;
  std::set<Name> buffers_;
  std::map<std::pair<llvm::Value*, int64_t>, llvm::Value*> aligned_;
  bool used_ = false;
};

}  // namespace autotune
