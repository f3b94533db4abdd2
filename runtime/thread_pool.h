// ThreadPool: fork-join parallelism for kernels. One call of Run is a region: all threads run its tasks, and the call
// returns when all tasks are done. Besides the tasks, a region takes less than a microsecond while the workers spin,
// and tens of microseconds if they sleep (bench/fork_join.cc). Idle workers spin briefly and then sleep, so that an
// unused pool takes no CPU time. If a process has several pools, only the workers of the pool that forked last spin.
// The calling thread runs tasks, too. One caller at a time, unless the pool is shared. There are no futures, and
// regions do not nest. fork copies only the calling thread. In the child, the first region starts new workers. The
// process must not fork while a region runs.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace autotune {

// Threads of the program that uses the library. `parallel_for` calls body(closure, task, thread) for each task in
// [0, num_tasks), and returns when all calls have returned. `thread` is below the pool's number of threads, and differs
// between calls that run at the same time.
struct ForeignThreads {
  using Task = void(void* closure, int32_t task, int32_t thread);
  void (*parallel_for)(void* user, int32_t num_tasks, Task* body, void* closure) = nullptr;
  void* user = nullptr;
};

struct ThreadPoolOptions {
  int num_threads = 0;         // the caller included; 0: one for each of `cpus`, or AvailableCpus() (support/cpus.h)
  std::vector<int> cpus = {};  // CPUs on which the workers run; empty: those of the process
  // Several threads may call Run at once. A caller that finds the workers busy with another one's region runs its own
  // region alone.
  bool shared = false;
  ForeignThreads foreign = {};  // if set, they run all tasks, and the pool has no workers
  // Time that a worker spins before it sleeps. A longer time makes forks cheaper, a shorter time leaves more CPU time
  // to other processes. If there are more threads than CPUs, workers do not spin.
  double spin_seconds = 100e-6;
};

class ThreadPool {
 public:
  // Runs the tasks [begin, end) of a region on thread `thread` (0 is the caller). Returns 0, or an error code.
  using Body = int32_t (*)(void* closure, int32_t thread, int32_t begin, int32_t end);

  explicit ThreadPool(ThreadPoolOptions options = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  // From now on, no pool of this process makes system calls about other threads: the sandbox of runners forbids them.
  // Workers then leave the caller's CPU only by themselves, once they run there.
  static void MoveOnlyOneself();

  int num_threads() const { return num_threads_; }

  // Runs tasks 0..num_tasks-1. Free threads take chunks of shrinking size: the caller from the front, the workers from
  // the back. So on two cores, each core gets about the same part of the data in every region and finds it in its
  // cache. Returns when all tasks are done, with the code of the first task that failed. Must not be called from inside
  // a body.
  int32_t Run(int32_t num_tasks, Body body, void* closure);

  // Like Run, for a callable f(task). Must not be called from inside a body.
  template <class F>
  void For(int32_t num_tasks, F&& f) {
    Run(
        num_tasks,
        [](void* closure, int32_t, int32_t begin, int32_t end) -> int32_t {
          for (int32_t i = begin; i < end; ++i) (*static_cast<std::remove_reference_t<F>*>(closure))(i);
          return 0;
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

 private:
  void StartWorkers();
  int32_t RunByWorkers(int32_t num_tasks, Body body, void* closure);
  int32_t RunByForeign(int32_t num_tasks, Body body, void* closure);
  void ForgetLostWorkers();
  void Work(int thread);
  bool RunSomeTasks(int thread);
  void MoveWorkersFrom(int cpu);
  void LeaveCallersCpu() const;

  // `ticket_` = region number << 32 | front << 16 | back. Tasks are handed out in units (thread_pool.cc); the units
  // [front, back) are still to be handed out. A compare-exchange on the ticket takes a chunk of them. Region numbers
  // repeat only after 2^32 regions, so a successful exchange proves that the fields below, read before it, belong to
  // that region. The fields are written only while no task is left.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> closure_{nullptr};
  std::atomic<int32_t> num_tasks_{0};
  alignas(64) std::atomic<int32_t> pending_{0};  // number of unfinished units; the caller sleeps on this word
  std::atomic<int32_t> code_{0};
  std::atomic<bool> caller_sleeps_{false};
  alignas(64) std::atomic<int32_t> sleepers_{0};
  std::atomic<int32_t> wakeups_{0};  // sleeping workers wait until this word changes
  std::atomic<bool> stop_{false};
  std::atomic<int32_t> busy_{0};  // of a shared pool: 1 while the workers have a region (RISC-V exchanges no bytes)
  const ThreadPoolOptions options_;
  int num_threads_ = 1;
  uint32_t forks_ = 0;  // number of forks when the workers started (thread_pool.cc)
  int64_t spin_nanoseconds_ = 0;
  std::vector<int> cpus_;             // CPUs of the process; empty if there are more threads than CPUs
  int forbidden_cpu_ = -1;            // CPU that the last call of MoveWorkersFrom forbade to workers
  std::atomic<int> callers_cpu_{-1};  // CPU on which the caller began the latest region
  std::vector<std::thread> workers_;
};

}  // namespace autotune
