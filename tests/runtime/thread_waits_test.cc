#include "runtime/thread_waits.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/cpus.h"

namespace autotune {
namespace {

using std::chrono::milliseconds;

void Sleep() { std::this_thread::sleep_for(milliseconds(5)); }

// Two threads on one CPU wait for each other. While all threads sleep, none waits.
TEST(ThreadWaits, CountsTheTimeWithoutACpu) {
  constexpr int64_t kWork = 100'000'000;  // nanoseconds of each thread
  std::atomic<int> ready = 0, done = 0;
  std::atomic<bool> start = false, end = false;
  auto spin = [&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(AllowedCpus().front(), &one);
    EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    ++ready;
    while (!start) Sleep();
    auto used = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return time.tv_sec * 1'000'000'000 + time.tv_nsec;
    };
    for (const int64_t before = used(); used() - before < kWork;) {
    }
    ++done;
    while (!end) Sleep();  // a thread that has ended is not counted
  };
  std::thread first(spin), second(spin);
  while (ready < 2) Sleep();
  ThreadWaits waits;
  std::this_thread::sleep_for(milliseconds(20));
  const double asleep = waits.Longest();
  start = true;
  while (done < 2) Sleep();
  const double spinning = waits.Longest();
  EXPECT_LT(asleep, 0.02);
  EXPECT_GT(spinning, 0.02) << "each thread had the CPU for 100 ms, so at least one waited";
  EXPECT_LT(waits.Longest(), spinning) << "the sum begins anew with each call";
  end = true;
  first.join();
  second.join();
  EXPECT_GE(waits.Longest(), 0);
}

}  // namespace
}  // namespace autotune
