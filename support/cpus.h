// How many CPUs this process may use, and the caches of one. Thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/result.h"

namespace autotune {

// Returns the CPUs of this process's affinity mask; at least one.
std::vector<int> AllowedCpus();
// Returns the number of threads of this process that can run at once: the number of allowed CPUs, or the quota of its
// control groups (a container's `--cpus`), rounded up, if that is less. At least 1.
int AvailableCpus();
// Returns the largest number of threads that a thread pool may have: 16 for each of AvailableCpus(). Threads beyond the
// CPUs only share their time; 16 leave room for tests of that case, and each costs a stack and a slot of the kernel's.
int MostThreads();
// Returns an error that names the limit if `threads` exceeds MostThreads().
Status CheckThreads(int64_t threads);

// Returns the number of CPUs whose time the control groups grant to a process: the least quota along the path to the
// root, infinity without a quota. Reads control groups of versions 1 and 2 from proc/self/cgroup and sys/fs/cgroup
// under `root` ("/" except in tests).
double CpuQuota(const std::string& root);

// Returns the least limit of memory that these control groups set, in bytes; infinity without a limit.
double MemoryLimit(const std::string& root);

// Returns the bytes of a CPU's data or unified cache of a level (1, 2, 3), as sys/devices/system/cpu under `root`
// states them; 0 if it does not. Does not use sysconf, whose size of the L3 cache may be wrong: in a virtual machine it
// may be the size for a whole socket, and on AMD's processors glibc computes it from a wrong number of threads.
int64_t CacheBytes(const std::string& root, int cpu, int level);
// Return the bytes of such a cache of this host's first CPU, and its number of ways (lines of a set); 0 if unknown.
int64_t HostCacheBytes(int level);
int HostCacheWays(int level);

}  // namespace autotune
