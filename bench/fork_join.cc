// Measures the overhead of a parallel loop: microseconds from the fork to the join of a region of one task per thread,
// for 1 to N threads. The tasks of a region wait for each other, so that every thread takes part. Otherwise the caller
// could run all tasks before another thread wakes up.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/thread_pool.h"
#include "support/cpus.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

void Fork(ThreadPool& pool) {
  std::atomic<int> missing = pool.num_threads();
  pool.For(pool.num_threads(), [&](int) {
    --missing;
    while (missing.load(std::memory_order_relaxed) > 0) {
    }
  });
}

void Print(const char* what, int threads, bool pin, std::vector<double> costs) {
  std::sort(costs.begin(), costs.end());
  std::printf("%-30s %7d  %-6s %9.2f %9.2f %9.2f\n", what, threads, pin ? "yes" : "no", costs.front(),
              costs[costs.size() / 2], costs[costs.size() * 99 / 100]);
}

enum class Pause { kNone, kSerialWork, kSleep };

// Returns samples, each the mean of `regions` consecutive regions after a pause of the caller. Takes fewer samples on a
// machine that is busy with other work.
std::vector<double> Measure(ThreadPool& pool, int regions, int samples, Pause pause) {
  std::vector<double> costs;
  Clock::time_point end = Clock::now() + std::chrono::milliseconds(1500);
  for (int i = 0; i < samples && (i == 0 || Clock::now() < end); ++i) {
    if (pause == Pause::kSleep) usleep(2000);
    Clock::time_point begin = Clock::now();
    if (pause == Pause::kSerialWork) {
      for (auto until = begin + std::chrono::microseconds(20); begin < until;) begin = Clock::now();
    }
    for (int k = 0; k < regions; ++k) Fork(pool);
    costs.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / regions);
  }
  return costs;
}

int Main(int argc, char** argv) {
  int most = argc > 1 ? std::atoi(argv[1]) : AvailableCpus();
  if (most < 1 || most > AvailableCpus()) {
    std::fprintf(stderr, "usage: bench_fork_join [THREADS], at most as many as CPUs (%d)\n", AvailableCpus());
    return 2;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("us per region                  threads  pinned     least    median  99th percentile\n");
  for (int threads = 1; threads <= most; ++threads) {
    for (bool pin : {false, true}) {
      ThreadPool pool({.num_threads = threads, .pin = pin});
      Measure(pool, 1000, 5, Pause::kNone);
      Print("one after another", threads, pin, Measure(pool, 100, 1000, Pause::kNone));
      Print("after 20 us of serial work", threads, pin, Measure(pool, 1, 1000, Pause::kSerialWork));
      Print("after 2 ms, workers asleep", threads, pin, Measure(pool, 1, 300, Pause::kSleep));
    }
  }
  if (most == 1) return 0;
  // Measures two pools of one process in turns: the waiting workers of one must not slow down the other.
  ThreadPool first({.num_threads = most}), second({.num_threads = most});
  std::vector<double> costs;
  for (int i = 0; i < 500; ++i) {
    for (ThreadPool* pool : {&first, &second}) costs.push_back(Measure(*pool, 10, 1, Pause::kNone)[0]);
  }
  Print("two pools, 10 regions in turn", most, false, costs);
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) { return autotune::Main(argc, argv); }
