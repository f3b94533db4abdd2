// SealedMemory: memory of a runner for inputs, which candidates cannot change. Not thread-safe.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "support/integer.h"

namespace autotune::rpc {

// Memory between inaccessible pages. Seal makes the memory read-only. So a candidate that writes to its inputs, or
// accesses the page before or after them, crashes instead of spoiling the measurement of the next candidate.
class SealedMemory {
 public:
  static std::shared_ptr<SealedMemory> Allocate(int64_t bytes) {
    constexpr size_t kPage = 4096, kHuge = 2 << 20;
    size_t size = AlignUp(static_cast<size_t>(std::max<int64_t>(bytes, 1)), kPage);
    // Large tensors start at a huge page, as those of AllocateAligned do, so that timings here and in the executor
    // agree.
    size_t slack = size >= kHuge ? kHuge : 0, total = size + slack + 2 * kPage;
    void* base = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    auto memory = std::make_shared<SealedMemory>();
    memory->base_ = base;
    memory->total_ = total;
    auto begin = reinterpret_cast<uintptr_t>(base) + kPage;
    if (slack) begin = AlignUp(begin, kHuge);
    memory->data_ = reinterpret_cast<void*>(begin);
    memory->size_ = size;
    if (mprotect(memory->data_, size, PROT_READ | PROT_WRITE)) return nullptr;
    if (slack) madvise(memory->data_, size, MADV_HUGEPAGE);
    return memory;
  }
  SealedMemory() = default;
  SealedMemory(const SealedMemory&) = delete;
  ~SealedMemory() {
    if (base_) munmap(base_, total_);
  }
  void* data() const { return data_; }
  void Seal() { mprotect(data_, size_, PROT_READ); }

 private:
  void *base_ = nullptr, *data_ = nullptr;
  size_t total_ = 0, size_ = 0;
};

}  // namespace autotune::rpc
