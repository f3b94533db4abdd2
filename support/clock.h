// Clocks. Thread-safe.
#pragma once
#include <sys/resource.h>
#include <time.h>

#include <cstdint>

namespace autotune {

// Milliseconds since boot, suspended time included: the clock of the farm's leases and deadlines.
inline int64_t BootMillis() {
  timespec t;
  clock_gettime(CLOCK_BOOTTIME, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
}

// Milliseconds since 1970, only to be shown and stored, since a user may set this clock.
inline int64_t WallMillis() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
}

// Seconds on a clock that never goes back, for durations.
inline double SteadySeconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Milliseconds of processor time that the calling thread has used.
inline double CpuMilliseconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

// Milliseconds of processor time of the children of this process that have ended and were waited for.
inline double ChildrenCpuMilliseconds() {
  rusage usage = {};
  getrusage(RUSAGE_CHILDREN, &usage);
  auto milliseconds = [](const timeval& t) {
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_usec);
  };
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

}  // namespace autotune
