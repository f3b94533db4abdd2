#include "runtime/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <mutex>

#include "support/cpus.h"
#include "support/integer.h"

namespace autotune {
namespace {

void FutexWait(const std::atomic<int32_t>& word, int32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void FutexWake(const std::atomic<int32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#elif defined(__riscv)
  asm volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");  // pause (Zihintpause), a no-op elsewhere
#endif
}

// Spins until done() returns true or the time is over. Returns true in the first case. Calls `pause` between two calls
// of done().
template <class F, class P = void (*)()>
bool SpinUntil(int64_t nanoseconds, F done, P pause = Pause) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point end;
  for (int round = 0;; ++round) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause();
    }
    Clock::time_point now = Clock::now();
    if (round == 0) end = now + std::chrono::nanoseconds(nanoseconds);
    if (now >= end) return false;
  }
}

cpu_set_t SetOf(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

// Both are only hints, so errors are ignored.
void KeepOn(std::thread& thread, const std::vector<int>& cpus) {
  const cpu_set_t set = SetOf(cpus);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
}
void StayOn(const std::vector<int>& cpus) {
  const cpu_set_t set = SetOf(cpus);
  sched_setaffinity(0, sizeof set, &set);
}

std::vector<int> Without(std::vector<int> cpus, int cpu) {
  std::erase(cpus, cpu);
  return cpus;
}

// The pool of this process that forked last. Only its workers spin, since the spinning workers of other pools would
// take CPUs from them. Never dereferenced.
std::atomic<const ThreadPool*> last_forked{nullptr};

std::atomic<bool> moves_only_oneself{false};

// The number of forks that lie between the process that made the first pool and this one.
std::atomic<uint32_t> forks{0};
void CountForks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}

// The fields of a ticket (ThreadPool::ticket_), which counts tasks in units. A unit is one task, or several if a region
// has more than kMaxUnits tasks.
constexpr int kUnitBits = 16;
constexpr uint32_t kMaxUnits = (1u << kUnitBits) - 1;
uint32_t FrontOf(uint64_t ticket) { return static_cast<uint32_t>(ticket >> kUnitBits) & kMaxUnits; }
uint32_t BackOf(uint64_t ticket) { return static_cast<uint32_t>(ticket) & kMaxUnits; }
uint32_t UnitsLeft(uint64_t ticket) { return BackOf(ticket) - FrontOf(ticket); }
int64_t TasksOfUnit(int32_t num_tasks) { return CeilDiv(num_tasks, kMaxUnits); }

}  // namespace

ThreadPool::ThreadPool(ThreadPoolOptions options) : options_(std::move(options)) {
  CountForks();
  const auto chosen = static_cast<int>(options_.cpus.size());
  num_threads_ = options_.num_threads > 0 ? options_.num_threads : chosen > 0 ? chosen : AvailableCpus();
  if (!options_.foreign.parallel_for) StartWorkers();
}

void ThreadPool::StartWorkers() {
  forks_ = forks.load(std::memory_order_relaxed);
  const bool chosen = !options_.cpus.empty();
  std::vector<int> cpus = chosen ? options_.cpus : AllowedCpus();
  const int available = chosen ? std::min(static_cast<int>(cpus.size()), AvailableCpus()) : AvailableCpus();
  const bool oversubscribed = num_threads_ > available;
  spin_nanoseconds_ = oversubscribed ? 0 : static_cast<int64_t>(options_.spin_seconds * 1e9);
  workers_.reserve(num_threads_ - 1);
  cpus_ = oversubscribed ? std::vector<int>() : std::move(cpus);
  for (int i = 1; i < num_threads_; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
    if (chosen) KeepOn(workers_.back(), options_.cpus);
  }
}

void ThreadPool::MoveOnlyOneself() { moves_only_oneself.store(true, std::memory_order_relaxed); }

// In a child of fork, forgets the workers of the parent. Their handles are kept for ever, since a thread that does not
// exist can be neither joined nor detached.
void ThreadPool::ForgetLostWorkers() {
  static auto* const lost = new std::vector<std::vector<std::thread>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  lost->push_back(std::move(workers_));
  workers_.clear();
  sleepers_.store(0);
  forbidden_cpu_ = -1;
}

// Forbids the sleeping workers to run on the caller's CPU. A worker wakes on the CPU on which it ran before. If the
// caller runs there now, the worker would wait for milliseconds, until the operating system moves it.
void ThreadPool::MoveWorkersFrom(int cpu) {
  if (cpus_.size() < 2 || cpu < 0 || cpu == forbidden_cpu_ || moves_only_oneself.load(std::memory_order_relaxed)) {
    return;
  }
  forbidden_cpu_ = cpu;
  const std::vector<int> others = Without(cpus_, cpu);
  for (std::thread& worker : workers_) KeepOn(worker, others);
}

// Moves this worker away if it runs on the caller's CPU. Where other processes occupy the other CPUs, the operating
// system leaves both on one for seconds, and regions take twice as long.
void ThreadPool::LeaveCallersCpu() const {
  const int cpu = callers_cpu_.load(std::memory_order_relaxed);
  if (cpus_.size() > 1 && cpu >= 0 && sched_getcpu() == cpu) StayOn(Without(cpus_, cpu));
}

ThreadPool::~ThreadPool() {
  if (!workers_.empty() && forks_ != forks.load(std::memory_order_relaxed)) ForgetLostWorkers();
  stop_.store(true);
  wakeups_.fetch_add(1);
  FutexWake(wakeups_, INT_MAX);
  for (std::thread& worker : workers_) worker.join();
}

// Takes and runs chunks until no chunk is left. Returns false if it has run none.
bool ThreadPool::RunSomeTasks(int thread) {
  bool any = false;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (uint32_t left = UnitsLeft(ticket)) {
    Body body = body_.load(std::memory_order_relaxed);
    void* closure = closure_.load(std::memory_order_relaxed);
    int32_t num_tasks = num_tasks_.load(std::memory_order_relaxed);
    // Chunks shrink with the number of units left: large chunks first, for few accesses to the shared cache line, and
    // small chunks at the end, to balance the threads.
    uint32_t take = std::max<uint32_t>(1, left / (2 * static_cast<uint32_t>(num_threads_)));
    uint64_t rest = thread == 0 ? ticket + (uint64_t{take} << kUnitBits) : ticket - take;
    if (!ticket_.compare_exchange_weak(ticket, rest, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    any = true;
    const int64_t first = thread == 0 ? FrontOf(ticket) : BackOf(rest), unit = TasksOfUnit(num_tasks);
    auto begin = static_cast<int32_t>(first * unit);
    auto end = static_cast<int32_t>(std::min<int64_t>((first + take) * unit, num_tasks));
    if (int32_t code = body(closure, thread, begin, end)) {
      int32_t none = 0;
      code_.compare_exchange_strong(none, code, std::memory_order_relaxed);
    }
    // Both atomics are sequentially consistent: either the caller reads 0 from pending_, or this thread reads true from
    // caller_sleeps_.
    if (pending_.fetch_sub(static_cast<int32_t>(take)) == static_cast<int32_t>(take) && thread != 0 &&
        caller_sleeps_.load()) {
      FutexWake(pending_, 1);
    }
    ticket = ticket_.load(std::memory_order_acquire);
  }
  return any;
}

namespace {

constexpr int32_t kWrongCalls = -1;  // the foreign threads did not call each task once, or with a wrong thread

// A region of foreign threads. They call the body for chunks of its tasks, a few for each thread.
struct ForeignRegion {
  static constexpr int kChunksPerThread = 8;

  ThreadPool::Body body;
  void* closure;
  int32_t num_tasks, num_chunks, num_threads;
  std::atomic<int32_t> calls{0}, code{0};

  void Keep(int32_t error) {
    int32_t none = 0;
    if (error != 0) code.compare_exchange_strong(none, error, std::memory_order_relaxed);
  }
  static void Call(void* region, int32_t chunk, int32_t thread) {
    auto* self = static_cast<ForeignRegion*>(region);
    if (chunk < 0 || chunk >= self->num_chunks || thread < 0 || thread >= self->num_threads)
      return self->Keep(kWrongCalls);
    const auto begin = [&](int64_t i) { return static_cast<int32_t>(i * self->num_tasks / self->num_chunks); };
    self->Keep(self->body(self->closure, thread, begin(chunk), begin(chunk + 1)));
    self->calls.fetch_add(1);
  }
};

}  // namespace

int32_t ThreadPool::RunByForeign(int32_t num_tasks, Body body, void* closure) {
  const int32_t chunks = std::min(num_tasks, num_threads_ * ForeignRegion::kChunksPerThread);
  ForeignRegion region{body, closure, num_tasks, chunks, num_threads_};
  options_.foreign.parallel_for(options_.foreign.user, chunks, ForeignRegion::Call, &region);
  if (region.calls.load() != chunks) region.Keep(kWrongCalls);
  return region.code.load(std::memory_order_relaxed);
}

int32_t ThreadPool::Run(int32_t num_tasks, Body body, void* closure) {
  if (num_tasks <= 0) return 0;
  if (num_tasks == 1 || num_threads_ == 1) return body(closure, 0, 0, num_tasks);
  if (options_.foreign.parallel_for) return RunByForeign(num_tasks, body, closure);
  if (!options_.shared) return RunByWorkers(num_tasks, body, closure);
  if (busy_.exchange(1, std::memory_order_acquire)) return body(closure, 0, 0, num_tasks);
  const int32_t code = RunByWorkers(num_tasks, body, closure);
  busy_.store(0, std::memory_order_release);
  return code;
}

int32_t ThreadPool::RunByWorkers(int32_t num_tasks, Body body, void* closure) {
  if (forks_ != forks.load(std::memory_order_relaxed)) {
    ForgetLostWorkers();
    StartWorkers();
  }
  if (last_forked.load(std::memory_order_relaxed) != this) last_forked.store(this, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  closure_.store(closure, std::memory_order_relaxed);
  num_tasks_.store(num_tasks, std::memory_order_relaxed);
  code_.store(0, std::memory_order_relaxed);
  const int64_t unit = TasksOfUnit(num_tasks);
  auto units = static_cast<uint32_t>(CeilDiv(num_tasks, unit));
  pending_.store(static_cast<int32_t>(units), std::memory_order_relaxed);
  const int cpu = sched_getcpu();
  if (callers_cpu_.load(std::memory_order_relaxed) != cpu) callers_cpu_.store(cpu, std::memory_order_relaxed);
  uint64_t region = (ticket_.load(std::memory_order_relaxed) >> 32) + 1;
  ticket_.store(region << 32 | units);  // publishes the fields above
  // Both atomics are sequentially consistent: either a worker reads the new ticket before it sleeps, or this thread
  // reads its increment of sleepers_.
  if (sleepers_.load() > 0) {
    MoveWorkersFrom(cpu);
    wakeups_.fetch_add(1);
    FutexWake(wakeups_, std::min<int32_t>(num_tasks - 1, static_cast<int32_t>(workers_.size())));
  }
  RunSomeTasks(0);
  auto finished = [this] { return pending_.load(std::memory_order_acquire) == 0; };
  // Other threads may still run tasks. If the caller slept at once, its wake-up would add to the time of the region. So
  // it first spins, then yields the CPU repeatedly, and only then sleeps.
  if (!SpinUntil(spin_nanoseconds_, finished) && !SpinUntil(10 * spin_nanoseconds_, finished, [] { sched_yield(); })) {
    caller_sleeps_.store(true);
    while (int32_t pending = pending_.load()) FutexWait(pending_, pending);
    caller_sleeps_.store(false, std::memory_order_relaxed);
  }
  return code_.load(std::memory_order_relaxed);
}

void ThreadPool::Work(int thread) {
  auto work_or_stop = [this] {
    return UnitsLeft(ticket_.load(std::memory_order_acquire)) != 0 || stop_.load(std::memory_order_relaxed);
  };
  auto work_or_no_use = [&] { return work_or_stop() || last_forked.load(std::memory_order_relaxed) != this; };
  for (;;) {
    if (!SpinUntil(spin_nanoseconds_, work_or_no_use) || !work_or_stop()) {
      int32_t seen = wakeups_.load();
      sleepers_.fetch_add(1);
      if (UnitsLeft(ticket_.load()) == 0 && !stop_.load()) FutexWait(wakeups_, seen);
      sleepers_.fetch_sub(1);
    }
    if (stop_.load()) return;
    LeaveCallersCpu();
    RunSomeTasks(thread);
  }
}

}  // namespace autotune
