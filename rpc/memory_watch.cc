#include "rpc/memory_watch.h"

#include <fcntl.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>

#include "support/unique_fd.h"

namespace autotune::rpc {
namespace {

constexpr long kLookNanoseconds = 10'000'000;  // of CPU time; a core receives about 10 MiB meanwhile [chosen]

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

MemoryWatch::Size MemoryWatch::SizeOfProcess() {
  // A stream would take ten times as long, and messages wait meanwhile.
  const UniqueFd statm(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128];
  const ssize_t length = statm ? read(statm.get(), text, sizeof text - 1) : -1;
  if (length <= 0) return {};
  text[length] = 0;
  long long addresses = 0, resident = 0, shared = 0;  // pages
  if (std::sscanf(text, "%lld %lld %lld", &addresses, &resident, &shared) != 3) return {};
  const int64_t page = sysconf(_SC_PAGESIZE);
  return {addresses * page, (resident - shared) * page};
}

int64_t MemoryWatch::Allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace autotune::rpc
