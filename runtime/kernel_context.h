// KernelContext: the functions that a kernel may call (AtContext of runtime/abi.h), implemented over a thread pool:
// parallel loops, scratch memory, error text. One kernel at a time; distinct contexts are independent. It knows nothing
// of artifacts.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/abi.h"
#include "runtime/thread_pool.h"
#include "support/integer.h"
#include "support/result.h"

namespace autotune {

// A stack of scratch memory. An allocation takes nanoseconds. Allocations are freed in reverse order, and the stack
// keeps the memory for the next kernel. Not thread-safe.
class ScratchStack {
 public:
  ScratchStack() = default;
  ScratchStack(const ScratchStack&) = delete;

  void* Allocate(uint64_t bytes) {  // 64-byte aligned; null when out of memory
    if (bytes > kMaxBytes) return nullptr;
    const uint64_t rounded = bytes ? AlignUp(bytes, AT_ALIGNMENT) : AT_ALIGNMENT;
    if (rounded > static_cast<uint64_t>(end_ - top_)) return AllocateSlow(rounded);
    char* memory = top_;
    top_ += rounded;
    return memory;
  }
  void Free(void* memory) {
    top_ = static_cast<char*>(memory);
    if (top_ == base_ && current_ > 0) PopBlock();
  }

 private:
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 39;
  static constexpr int kMaxBlocks = 40;  // each at least twice the one before it
  struct Block {
    std::shared_ptr<void> memory;
    uint64_t bytes = 0;
  };
  void* AllocateSlow(uint64_t bytes);
  void PopBlock();
  void Enter(int block, char* top);

  char* top_ = nullptr;
  char* base_ = nullptr;
  char* end_ = nullptr;
  int current_ = -1;
  int num_blocks_ = 0;
  Block blocks_[kMaxBlocks];
  char* resume_[kMaxBlocks] = {};  // top of block i when block i+1 was entered
};

class KernelContext {
 public:
  explicit KernelContext(ThreadPoolOptions options = {}) : KernelContext(std::make_shared<ThreadPool>(options)) {}
  explicit KernelContext(std::shared_ptr<ThreadPool> pool);  // other contexts may use the pool if it is shared
  explicit KernelContext(int num_threads) : KernelContext(ThreadPoolOptions{.num_threads = num_threads}) {}
  ~KernelContext();

  AtContext* abi() { return slots_[0].get(); }
  int num_threads() const { return pool_->num_threads(); }
  // While `serial` is set, kernels run on the calling thread only. Must not be called while a kernel runs.
  void SetSerial(bool serial);
  ThreadPool& pool() { return *pool_; }

  // A part of a parallel loop that one thread ran.
  struct Chunk {
    std::chrono::steady_clock::time_point begin, end;
  };
  // Between these calls, each thread records its chunks; the result has them by thread, the caller first. Must not be
  // called while a kernel runs.
  void StartRecording() { recording_ = true; }
  std::vector<std::vector<Chunk>> StopRecording();

  // Returns the error of a failed kernel: `what` and the first text given to set_error since the last call. Its kind is
  // kOutOfMemory if an allocation has failed since then.
  Error TakeError(const std::string& what);

 private:
  // Each thread of the pool has its own AtContext, so that a kernel's scratch memory needs no look-up.
  struct alignas(64) Slot : AtContext {
    KernelContext* owner = nullptr;
    bool in_region = false;
    ScratchStack scratch;
    std::vector<Chunk> chunks;  // recorded ones
  };
  struct Region;  // a parallel loop
  static int32_t RunChunk(void* region, int32_t thread, int32_t begin, int32_t end);
  static int32_t RecordChunk(void* region, int32_t thread, int32_t begin, int32_t end);
  static int32_t ParallelFor(AtContext*, int32_t num_tasks, int32_t (*body)(AtContext*, void*, int32_t), void* closure);
  static void* WorkspaceAlloc(AtContext*, uint64_t bytes);
  static void WorkspaceFree(AtContext*, void* memory);
  static void SetError(AtContext*, const char* message);

  const std::shared_ptr<ThreadPool> pool_;
  std::vector<std::unique_ptr<Slot>> slots_;
  bool recording_ = false;
  std::mutex mutex_;
  std::string error_;       // guarded by mutex_
  bool no_memory_ = false;  // an allocation failed; guarded by mutex_
};

}  // namespace autotune
