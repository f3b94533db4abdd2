#include "rpc/blob.h"

#include <utility>

namespace autotune::rpc {

Blob MakeBlob(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return MakeBlob(*owner, owner);
}

Blob MakeBlob(std::string_view bytes, std::shared_ptr<const void> owner, const SharedMemory* memory) {
  struct Owned {
    BlobBytes bytes;
    std::shared_ptr<const void> owner;
  };
  const auto owned = std::make_shared<const Owned>(BlobBytes(bytes, memory), std::move(owner));
  return {owned, &owned->bytes};
}

}  // namespace autotune::rpc
