// Blobs: bytes that follow a message's body in frames of their own. Shared and immutable, so thread-safe.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace autotune::rpc {

class SharedMemory;

class BlobBytes : public std::string_view {
 public:
  explicit BlobBytes(std::string_view bytes, const SharedMemory* memory = nullptr)
      : std::string_view(bytes), memory_(memory) {}
  // The memory in which the bytes lie, if a runner may read it itself (rpc/shared_memory.h); null: it may not.
  const SharedMemory* memory() const { return memory_; }

 private:
  const SharedMemory* memory_;
};

using Blob = std::shared_ptr<const BlobBytes>;

Blob MakeBlob(std::string bytes);
// Returns a blob of bytes that `owner` keeps alive, such as a part of another blob.
Blob MakeBlob(std::string_view bytes, std::shared_ptr<const void> owner, const SharedMemory* memory = nullptr);

}  // namespace autotune::rpc
