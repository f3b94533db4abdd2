#include "rpc/memory_watch.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <thread>

namespace autotune::rpc {
namespace {

constexpr long kLookNanoseconds = 10'000'000;  // of CPU time; a core receives about 10 MiB meanwhile [chosen]

struct ProcessSize {
  int64_t addresses = INT64_MAX, resident = INT64_MAX;  // bytes
};
ProcessSize SizeOfProcess() {
  std::ifstream statm("/proc/self/statm");
  int64_t addresses = 0, resident = 0, shared = 0;  // pages
  if (!(statm >> addresses >> resident >> shared)) return {};
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {addresses * page, (resident - shared) * page};
}

}  // namespace

struct MemoryWatch::Shared {
  std::mutex mutex;
  Loop* loop;  // null: the watch has ended
  std::function<void()> look;
};

MemoryWatch::MemoryWatch(Loop& loop, std::function<void()> look) : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
  shared_->look = std::move(look);
  // Not joined, since it sleeps for as long as the process is idle.
  std::thread([shared = shared_] {
    const timespec period{0, kLookNanoseconds};
    while (clock_nanosleep(CLOCK_PROCESS_CPUTIME_ID, 0, &period, nullptr) == 0) {
      std::lock_guard lock(shared->mutex);
      if (!shared->loop) return;
      shared->loop->Post([weak = std::weak_ptr(shared)] {
        if (const auto self = weak.lock(); self && self->loop) self->look();
      });
    }
  }).detach();
}

MemoryWatch::~MemoryWatch() {
  std::lock_guard lock(shared_->mutex);
  shared_->loop = nullptr;
}

void MemoryWatch::Return() { malloc_trim(0); }

int64_t MemoryWatch::Freed() { return static_cast<int64_t>(mallinfo2().fordblks); }

int64_t MemoryWatch::Addresses() { return SizeOfProcess().addresses; }

int64_t MemoryWatch::Resident() { return SizeOfProcess().resident; }

int64_t MemoryWatch::Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace autotune::rpc
