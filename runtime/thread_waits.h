// ThreadWaits: how long the threads of this process waited for a CPU that other processes or the kernel used. A
// measurement needs this, since a kernel is late if any of its threads is. Not thread-safe.
#pragma once
#include <cstdint>
#include <vector>

namespace autotune {

class ThreadWaits {
 public:
  // Watches the present threads of this process. Later ones are ignored.
  ThreadWaits();
  ~ThreadWaits();
  ThreadWaits(const ThreadWaits&) = delete;

  // Returns the seconds of one thread, the one that waited longest since the previous call (at first: since the
  // construction). A thread waits while it is ready to run but has no CPU; a sleeping one does not wait. The time is
  // exact where the kernel reports it (/proc/self/task/*/schedstat). Elsewhere each involuntary context switch of the
  // process counts as a millisecond.
  double Longest();

 private:
  struct Thread {
    int file;  // its schedstat
    double waited;
  };
  std::vector<Thread> threads_;  // empty: the kernel does not report waits
  int64_t switches_ = 0;
};

}  // namespace autotune
