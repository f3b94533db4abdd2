#include "runtime/kernel_context.h"

#include <algorithm>
#include <utility>

#include "runtime/tensor.h"

namespace autotune {
void ScratchStack::Enter(int block, char* top) {
  current_ = block;
  base_ = static_cast<char*>(blocks_[block].memory.get());
  end_ = base_ + blocks_[block].bytes;
  top_ = top;
}

void* ScratchStack::AllocateSlow(uint64_t bytes) {
  uint64_t size = std::max(bytes, uint64_t{64} << 10);
  if (current_ < 0 || (current_ == 0 && top_ == base_)) {
    // Nothing is in use: replace all blocks by one, so that the next kernel of this size needs only one block.
    uint64_t total = 0;
    for (int i = 0; i < num_blocks_; ++i) {
      total += blocks_[i].bytes;
      blocks_[i] = {};
    }
    size = std::max(size, total);
    num_blocks_ = 0;
    current_ = -1;
    top_ = base_ = end_ = nullptr;
  } else {
    resume_[current_] = top_;
    size = std::max(size, blocks_[current_].bytes * 2);
    if (current_ + 1 < num_blocks_ && blocks_[current_ + 1].bytes < bytes) {
      // The blocks after the current one are unused, but the next one is too small for this request: release them all.
      for (int i = current_ + 1; i < num_blocks_; ++i) blocks_[i] = {};
      num_blocks_ = current_ + 1;
    }
  }
  int next = current_ + 1;
  if (next == num_blocks_) {
    if (next == kMaxBlocks) return nullptr;
    // Round large blocks up to whole huge pages. They save TLB misses when kernels read packed operands repeatedly.
    constexpr uint64_t kHugePage = uint64_t{2} << 20;
    if (size >= kHugePage / 4) size = AlignUp(size, kHugePage);
    std::shared_ptr<void> memory = AllocateAligned(static_cast<int64_t>(size));
    if (!memory) return nullptr;
    blocks_[next] = {std::move(memory), size};
    ++num_blocks_;
  }
  Enter(next, static_cast<char*>(blocks_[next].memory.get()));
  return Allocate(bytes);
}

void ScratchStack::PopBlock() { Enter(current_ - 1, resume_[current_ - 1]); }

KernelContext::KernelContext(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {
  for (int i = 0; i < pool_->num_threads(); ++i) {
    auto slot = std::make_unique<Slot>();
    slot->version = AT_ABI_VERSION;
    slot->num_threads = static_cast<uint32_t>(pool_->num_threads());
    slot->parallel_for = ParallelFor;
    slot->workspace_alloc = WorkspaceAlloc;
    slot->workspace_free = WorkspaceFree;
    slot->set_error = SetError;
    slot->owner = this;
    slots_.push_back(std::move(slot));
  }
}

KernelContext::~KernelContext() = default;

void KernelContext::SetSerial(bool serial) {
  for (auto& slot : slots_) slot->num_threads = serial ? 1 : static_cast<uint32_t>(pool_->num_threads());
}

std::vector<std::vector<KernelContext::Chunk>> KernelContext::StopRecording() {
  recording_ = false;
  std::vector<std::vector<Chunk>> chunks;
  for (auto& slot : slots_) chunks.push_back(std::exchange(slot->chunks, {}));
  return chunks;
}

struct KernelContext::Region {
  KernelContext* owner;
  int32_t (*body)(AtContext*, void*, int32_t);
  void* closure;
};

int32_t KernelContext::RunChunk(void* opaque, int32_t thread, int32_t begin, int32_t end) {
  auto* region = static_cast<Region*>(opaque);
  Slot* slot = region->owner->slots_[thread].get();
  slot->in_region = true;
  int32_t first = 0;
  for (int32_t i = begin; i < end; ++i) {
    int32_t code = region->body(slot, region->closure, i);
    if (first == 0) first = code;
  }
  slot->in_region = false;
  return first;
}

int32_t KernelContext::RecordChunk(void* opaque, int32_t thread, int32_t begin, int32_t end) {
  Slot* slot = static_cast<Region*>(opaque)->owner->slots_[thread].get();
  Chunk chunk{.begin = std::chrono::steady_clock::now(), .end = {}};
  const int32_t code = RunChunk(opaque, thread, begin, end);
  chunk.end = std::chrono::steady_clock::now();
  slot->chunks.push_back(chunk);
  return code;
}

int32_t KernelContext::ParallelFor(AtContext* context, int32_t num_tasks, int32_t (*body)(AtContext*, void*, int32_t),
                                   void* closure) {
  auto* slot = static_cast<Slot*>(context);
  if (slot->in_region || num_tasks <= 1 || slot->num_threads == 1) {
    int32_t first = 0;
    for (int32_t i = 0; i < num_tasks; ++i) {
      int32_t code = body(context, closure, i);
      if (first == 0) first = code;
    }
    return first;
  }
  Region region{slot->owner, body, closure};
  return slot->owner->pool_->Run(num_tasks, slot->owner->recording_ ? RecordChunk : RunChunk, &region);
}

void* KernelContext::WorkspaceAlloc(AtContext* context, uint64_t bytes) {
  auto* slot = static_cast<Slot*>(context);
  void* memory = slot->scratch.Allocate(bytes);
  if (memory) return memory;
  std::lock_guard lock(slot->owner->mutex_);
  slot->owner->no_memory_ = true;
  return nullptr;
}

void KernelContext::WorkspaceFree(AtContext* context, void* memory) {
  if (memory) static_cast<Slot*>(context)->scratch.Free(memory);
}

void KernelContext::SetError(AtContext* context, const char* message) {
  KernelContext* owner = static_cast<Slot*>(context)->owner;
  std::lock_guard lock(owner->mutex_);
  if (owner->error_.empty() && message) owner->error_ = message;
}

Error KernelContext::TakeError(const std::string& what) {
  std::lock_guard lock(mutex_);
  std::string text = std::exchange(error_, {});
  bool no_memory = std::exchange(no_memory_, false);
  return Error(text.empty() ? what : what + ": " + text, no_memory ? ErrorKind::kOutOfMemory : ErrorKind::kOther);
}

}  // namespace autotune
