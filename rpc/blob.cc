#include "rpc/blob.h"

#include <utility>

namespace autotune::rpc {

Blob MakeBlob(std::string bytes) {
  struct Owned {
    explicit Owned(std::string text) : text(std::move(text)), bytes(this->text) {}
    Owned(const Owned&) = delete;
    const std::string text;
    const BlobBytes bytes;
  };
  const auto owned = std::make_shared<const Owned>(std::move(bytes));
  return {owned, &owned->bytes};
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
