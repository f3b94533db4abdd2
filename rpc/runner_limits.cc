#include "rpc/runner_limits.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "support/cpus.h"
#include "support/sanitized.h"

namespace autotune::rpc {
namespace {

void SetLimit(__rlimit_resource resource, rlim_t value) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = limit.rlim_max = std::min(value, limit.rlim_max);
  setrlimit(resource, &limit);
}

}  // namespace

void ApplyLimits(const RunnerOptions& options) {
  const bool is_cpu = options.device.type == kDLCPU;
  SetLimit(RLIMIT_CORE, 0);
  SetLimit(RLIMIT_FSIZE, is_cpu ? kRunnerFileBytes : 64 << 20);
  // A kernel has a descriptor for each of its threads while it is timed (runtime/thread_waits.h).
  SetLimit(RLIMIT_NOFILE, is_cpu ? static_cast<rlim_t>(64 + AvailableCpus()) : 256);
  // No limit on data in sanitizer builds and for GPUs. A sanitizer's shadow memory counts as data, so the runner could
  // not allocate anything. A GPU's driver reserves more addresses than the machine has memory.
  if (options.memory_bytes > 0 && !kSanitized && is_cpu)
    SetLimit(RLIMIT_DATA, static_cast<rlim_t>(options.memory_bytes));
  if (!options.cores.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int core : options.cores) CPU_SET(static_cast<size_t>(core), &set);
    if (sched_setaffinity(0, sizeof set, &set)) perror("cannot bind the runner to its cores");
  }
}

void LeaveCrashesToTheParent() {
  if (!kSanitized) return;
  for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(crash, SIG_DFL);
}

}  // namespace autotune::rpc
