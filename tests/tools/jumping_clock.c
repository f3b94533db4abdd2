// A library to be loaded before the C library (LD_PRELOAD). At every reading the wall clock jumps forward or back by
// years. Monotonic clocks are unchanged.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t Jump(void) {
  static const int kYears[] = {0, 1, -1, 20, -20};
  static unsigned readings;
  unsigned n = __atomic_fetch_add(&readings, 1, __ATOMIC_RELAXED) + (unsigned)getpid();
  return (time_t)kYears[n * 2654435761u % 5] * 365 * 86400;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec* t) {
  if (syscall(SYS_clock_gettime, clock, t) != 0) return -1;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) t->tv_sec += Jump();
  return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval* restrict t, void* restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

__attribute__((visibility("default"))) int timespec_get(struct timespec* t, int base) {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

__attribute__((visibility("default"))) time_t time(time_t* result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
