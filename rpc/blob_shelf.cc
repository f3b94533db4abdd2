#include "rpc/blob_shelf.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "support/integer.h"

namespace autotune::rpc {
namespace {

// Lets the system fill the memory of a large string by huge pages, since 4 KiB at a time take longer than the copy.
void UseHugePages(std::string& empty) {
  constexpr uintptr_t kPage = 4096, kLeast = 2 << 20;
  const uintptr_t begin = AlignUp(reinterpret_cast<uintptr_t>(empty.data()), kPage);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(empty.data()) + empty.capacity()) / kPage * kPage;
  if (empty.capacity() >= kLeast) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

std::string BlobShelf::Take(size_t bytes) {
  std::string memory;
  if (bytes >= kLeastBytes) {
    std::lock_guard lock(mutex_);
    // The smallest one that is large enough, but not twice as large.
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->capacity() < bytes || it->capacity() / 2 > bytes) continue;
      if (best == free_.end() || it->capacity() < best->capacity()) best = it;
    }
    if (best != free_.end()) {
      memory = std::move(*best);
      free_.erase(best);
      kept_bytes_ -= static_cast<int64_t>(memory.capacity());
      return memory;
    }
  }
  memory.reserve(bytes);
  UseHugePages(memory);
  return memory;
}

Blob BlobShelf::Use(std::string bytes) {
  if (bytes.capacity() < kLeastBytes) return std::make_shared<const std::string>(std::move(bytes));
  return Blob(new std::string(std::move(bytes)), [shelf = shared_from_this()](const std::string* unused) {
    shelf->Put(std::move(const_cast<std::string&>(*unused)));
    delete unused;
  });
}

int64_t BlobShelf::KeptBytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

void BlobShelf::Put(std::string memory) {
  std::lock_guard lock(mutex_);
  const auto bytes = static_cast<int64_t>(memory.capacity());
  if (kept_bytes_ + bytes > most_bytes_) return;
  memory.clear();
  kept_bytes_ += bytes;
  free_.push_back(std::move(memory));
}

}  // namespace autotune::rpc
