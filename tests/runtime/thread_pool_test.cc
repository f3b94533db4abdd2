#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/kernel_context.h"
#include "support/cpus.h"

namespace autotune {
namespace {

TEST(ThreadPool, EveryTaskRunsExactlyOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadPool pool({.num_threads = threads});
    EXPECT_EQ(pool.num_threads(), threads);
    for (int tasks : {0, 1, 2, 3, 7, 64, 1000, 65535, 65536, 200001}) {  // beyond 65535, a unit has several tasks
      std::vector<int> seen(tasks, 0);
      pool.For(tasks, [&](int i) { ++seen[i]; });
      EXPECT_EQ(seen, std::vector<int>(tasks, 1)) << threads << " threads";
    }
  }
}

// Two tasks that wait for each other. In every region the calling thread must run the first task and the worker the
// last one.
TEST(ThreadPool, ThreadsStayWithTheirPartOfTheTasks) {
  ThreadPool pool({.num_threads = 2});
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> here = 0;
    std::thread::id ran[2];
    pool.For(2, [&](int i) {
      ran[i] = std::this_thread::get_id();
      ++here;
      while (here < 2) std::this_thread::yield();
    });
    EXPECT_EQ(ran[0], std::this_thread::get_id());
    EXPECT_NE(ran[1], std::this_thread::get_id());
  }
}

TEST(ThreadPool, ManyShortRegions) {
  ThreadPool pool({.num_threads = 3});
  int64_t sum = 0;
  std::vector<int64_t> part(5);
  for (int round = 0; round < 3000; ++round) {
    pool.For(5, [&](int i) { part[i] = round * i; });
    for (int64_t p : part) sum += p;
  }
  EXPECT_EQ(sum, int64_t{3000} * 2999 / 2 * 10);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool({.num_threads = 2, .spin_seconds = 0});
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    // The tasks wait for each other, so the region ends only if two threads run them.
    std::atomic<int> here = 0;
    pool.For(2, [&](int) {
      ++here;
      while (here < 2) std::this_thread::yield();
    });
    EXPECT_EQ(here, 2);
  }
}

// Lets the calling thread run on these CPUs only.
void StayOn(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

// Runs a region whose two tasks wait for each other, so that both threads run one. Calls `of_worker` in the worker.
template <class F>
void RunOnBoth(ThreadPool& pool, F&& of_worker) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> here = 0;
  pool.For(2, [&](int) {
    if (std::this_thread::get_id() != caller) of_worker();
    ++here;
    while (here < 2) std::this_thread::yield();
  });
}

// Returns whether the worker of a pool with two threads may run on a CPU.
bool WorkerMayRunOn(ThreadPool& pool, int cpu) {
  bool may = false;
  RunOnBoth(pool, [&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    may = CPU_ISSET(cpu, &set);
  });
  return may;
}

// The affinity of a woken worker excludes the caller's CPU, where the worker would wait until the kernel balances the
// load.
TEST(ThreadPool, WokenWorkersLeaveTheCallersCpu) {
  if (AvailableCpus() < 2) GTEST_SKIP() << "the machine has only one CPU";
  const std::vector<int> cpus = AllowedCpus();
  ThreadPool pool({.num_threads = 2, .spin_seconds = 0});
  for (int cpu : {cpus[0], cpus[1], cpus[0]}) {
    StayOn({cpu});
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that the worker goes to sleep
    EXPECT_FALSE(WorkerMayRunOn(pool, cpu));
  }
  StayOn(cpus);
}

// A worker that spins on the caller's CPU leaves it without the caller's help, which a sandbox may forbid.
TEST(ThreadPool, SpinningWorkersLeaveTheCallersCpu) {
  if (AvailableCpus() < 2) GTEST_SKIP() << "the machine has only one CPU";
  const std::vector<int> cpus = AllowedCpus();
  ThreadPool pool({.num_threads = 2, .spin_seconds = 60});
  StayOn({cpus[0]});
  RunOnBoth(pool, [&] { StayOn({cpus[0]}); });
  EXPECT_FALSE(WorkerMayRunOn(pool, cpus[0]));
  StayOn(cpus);
}

// When another pool starts a region, a pool's workers go to sleep immediately. This must not lose a task.
TEST(ThreadPool, TwoPoolsInTurnAndAtOnce) {
  ThreadPool pools[2] = {ThreadPool({.num_threads = 2}), ThreadPool({.num_threads = 2})};
  auto both_run = [](ThreadPool& pool) {  // ends only if two threads run the tasks
    std::atomic<int> here = 0;
    pool.For(2, [&](int) {
      ++here;
      while (here < 2) std::this_thread::yield();
    });
  };
  for (int round = 0; round < 100; ++round) {
    for (ThreadPool& pool : pools) both_run(pool);
  }
  std::thread other([&] {
    for (int round = 0; round < 300; ++round) both_run(pools[0]);
  });
  for (int round = 0; round < 300; ++round) both_run(pools[1]);
  other.join();
}

// A child of fork has no workers. Its first region starts new ones; without them, the region of two tasks that wait for
// each other would never end. A pool that the child only destroys must not wait for threads that are not there.
TEST(ThreadPool, AChildOfForkHasItsOwnWorkers) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not support threads in a child of fork";
#endif
  auto run_together = [](ThreadPool& pool) {
    std::atomic<int> here = 0;
    pool.For(2, [&](int) {
      ++here;
      while (here < 2) std::this_thread::yield();
    });
  };
  auto pool = std::make_unique<ThreadPool>(ThreadPoolOptions{.num_threads = 2});
  auto unused = std::make_unique<ThreadPool>(ThreadPoolOptions{.num_threads = 2});
  run_together(*pool);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    unused.reset();
    run_together(*pool);
    run_together(*pool);
    const bool right = pool->num_threads() == 2;
    pool.reset();
    _exit(right ? 0 : 1);
  }
  run_together(*pool);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  run_together(*unused);
}

TEST(ThreadPool, FirstErrorCodeIsReturnedAndAllTasksRun) {
  ThreadPool pool({.num_threads = 2});
  std::atomic<int> runs = 0;
  auto body = [](void* closure, int32_t, int32_t begin, int32_t end) -> int32_t {
    *static_cast<std::atomic<int>*>(closure) += end - begin;
    return begin <= 5 && 5 < end ? 42 : 0;
  };
  EXPECT_EQ(pool.Run(20, body, &runs), 42);
  EXPECT_EQ(runs, 20);
  EXPECT_EQ(pool.Run(5, body, &runs), 0);  // the next region forgets the error
}

// The task of one caller waits for a whole region of another one, whose tasks the busy workers cannot run.
TEST(ThreadPool, CallersOfASharedPoolDoNotWaitForEachOther) {
  ThreadPool pool({.num_threads = 2, .shared = true});
  std::set<std::thread::id> others;
  std::atomic<int> sum = 0;
  pool.For(2, [&](int i) {
    if (i == 1) return;
    std::thread other([&] {
      pool.For(100, [&](int task) {
        others.insert(std::this_thread::get_id());
        sum += task;
      });
    });
    other.join();
  });
  EXPECT_EQ(sum, 4950);
  EXPECT_EQ(others.size(), 1);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total = 0;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) pool.For(10, [&](int task) { total += task; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 45);
}

TEST(ThreadPool, WorkersRunOnTheChosenCpus) {
  const int cpu = AllowedCpus().back();
  ThreadPool pool({.num_threads = 3, .cpus = {cpu}});
  EXPECT_EQ(ThreadPool({.cpus = {cpu}}).num_threads(), 1);
  std::mutex mutex;
  std::atomic<int> here = 0;
  std::vector<int> ran;
  const std::thread::id caller = std::this_thread::get_id();
  pool.For(3, [&](int) {  // each waits for the others, so each thread runs one
    ++here;
    while (here < 3) std::this_thread::yield();
    if (std::this_thread::get_id() == caller) return;
    std::lock_guard lock(mutex);
    ran.push_back(sched_getcpu());
  });
  EXPECT_EQ(ran, std::vector<int>(2, cpu));
}

// Threads of a program, which do nothing at the same time: calls the body for tasks in descending order, with each
// thread in turn.
struct Foreign {
  int calls = 0;
  int first = 0;   // the first task that is called; above 0, some are left out
  int thread = 0;  // added to the number of the thread; above 0, there is no such thread
  static void ParallelFor(void* user, int32_t num_tasks, ForeignThreads::Task* body, void* closure) {
    auto* self = static_cast<Foreign*>(user);
    for (int32_t task = num_tasks; --task >= self->first;) body(closure, task, self->calls++ % 2 + self->thread);
  }
};

TEST(ThreadPool, ForeignThreadsRunAllTasks) {
  Foreign foreign;
  ThreadPool pool({.num_threads = 2, .foreign = {Foreign::ParallelFor, &foreign}});
  EXPECT_EQ(pool.num_threads(), 2);
  for (int tasks : {0, 1, 2, 15, 16, 17, 1000}) {
    std::vector<int> seen(tasks, 0);
    pool.For(tasks, [&](int i) { ++seen[i]; });
    EXPECT_EQ(seen, std::vector<int>(tasks, 1));
  }
  EXPECT_EQ(foreign.calls, 2 + 15 + 3 * 16);  // chunks; a single task runs here
  auto body = [](void*, int32_t, int32_t begin, int32_t end) -> int32_t { return begin <= 5 && 5 < end ? 42 : 0; };
  EXPECT_EQ(pool.Run(20, body, nullptr), 42);
  EXPECT_EQ(pool.Run(5, body, nullptr), 0);
  foreign.first = 1;
  EXPECT_NE(pool.Run(5, body, nullptr), 0);  // a task did not run
  foreign = {.thread = 1};
  EXPECT_NE(pool.Run(5, body, nullptr), 0);  // there is no such thread
}

TEST(KernelContext, NestedParallelLoopsRunSerially) {
  KernelContext context(2);
  struct State {
    std::mutex mutex;
    std::set<std::thread::id> outer;
    std::atomic<int> inner = 0;
    std::atomic<bool> moved = false;
  } state;
  int32_t code = context.abi()->parallel_for(
      context.abi(), 8,
      [](AtContext* context, void* closure, int32_t) -> int32_t {
        auto& state = *static_cast<State*>(closure);
        static thread_local std::thread::id mine;
        mine = std::this_thread::get_id();
        return context->parallel_for(
            context, 10,
            [](AtContext*, void* closure, int32_t) -> int32_t {
              auto& state = *static_cast<State*>(closure);
              if (mine != std::this_thread::get_id()) state.moved = true;
              ++state.inner;
              return 0;
            },
            &state);
      },
      &state);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(state.inner, 80);
  EXPECT_FALSE(state.moved);
}

TEST(KernelContext, ErrorTextOfAWorker) {
  KernelContext context(2);
  int32_t code = context.abi()->parallel_for(
      context.abi(), 4,
      [](AtContext* context, void*, int32_t task) -> int32_t {
        if (task != 3) return 0;
        context->set_error(context, "task three is unhappy");
        return 9;
      },
      nullptr);
  EXPECT_EQ(code, 9);
  Error error = context.TakeError("kernel k failed");
  EXPECT_EQ(error.message, "kernel k failed: task three is unhappy");
  EXPECT_EQ(error.kind, ErrorKind::kOther);
  EXPECT_EQ(context.TakeError("again").message, "again") << "TakeError must clear the error";
}

TEST(KernelContext, AnErrorSaysWhetherMemoryRanOut) {
  KernelContext context(1);
  context.abi()->set_error(context.abi(), "out of memory, says the kernel, which asked for none");
  EXPECT_EQ(context.TakeError("failed").kind, ErrorKind::kOther);
  EXPECT_EQ(context.abi()->workspace_alloc(context.abi(), UINT64_MAX), nullptr);
  context.abi()->set_error(context.abi(), "no scratch");
  EXPECT_EQ(context.TakeError("failed").kind, ErrorKind::kOutOfMemory);
  EXPECT_EQ(context.TakeError("failed").kind, ErrorKind::kOther) << "TakeError must clear the kind of error";
}

TEST(ScratchStack, ReusesAndGrows) {
  ScratchStack stack;
  void* first = stack.Allocate(1000);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 1000);
  void* big = stack.Allocate(10 << 20);  // needs another block
  std::memset(big, 2, 10 << 20);
  void* small = stack.Allocate(0);
  EXPECT_NE(small, big);
  stack.Free(small);
  stack.Free(big);
  EXPECT_EQ(static_cast<char*>(first)[999], 1);
  void* again = stack.Allocate(10 << 20);
  EXPECT_EQ(again, big);
  stack.Free(again);
  void* bigger = stack.Allocate(50 << 20);
  std::memset(bigger, 3, 50 << 20);
  EXPECT_EQ(static_cast<char*>(first)[0], 1);
  stack.Free(bigger);
  stack.Free(first);
  EXPECT_EQ(stack.Allocate(1 << 10), first);
  EXPECT_EQ(stack.Allocate(~uint64_t{0}), nullptr);
}

}  // namespace
}  // namespace autotune
