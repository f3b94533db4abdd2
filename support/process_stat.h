// What the kernel knows about processes and about itself, from /proc. Thread-safe.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace autotune {

struct ProcessStat {
  char state = 0;       // R running, S sleeping, D waiting for a disk, T stopped, t stopped by a debugger, Z ended, ...
  int64_t started = 0;  // clock ticks since boot; tells the process from a later one with its number
  double cpu_ms = 0;    // processor time of all its threads
  bool HasEnded() const { return state == 'Z' || state == 'X' || state == 'x'; }
  bool IsStopped() const { return state == 'T' || state == 't'; }
};

// Returns nothing if there is no such process. A process that has ended but was not waited for has state Z.
std::optional<ProcessStat> StatOfProcess(pid_t pid);

// Returns the milliseconds in which threads of the process were ready to run but had no processor, added up over those
// that exist. 0 if the kernel does not count them.
double WaitedOfProcess(pid_t pid);

// Returns the id of the present boot of the system; empty if it cannot be read.
std::string BootId();

}  // namespace autotune
