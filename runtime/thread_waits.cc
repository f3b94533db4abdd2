#include "runtime/thread_waits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace autotune {
namespace {

constexpr double kSwitch = 1e-3;  // seconds; short time slice of a scheduler

int64_t InvoluntarySwitches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Returns the seconds that a thread has waited. Returns nothing if the thread has ended, or if the kernel does not
// count the time. Some kernels then report 0 for everything, also for the time on a CPU, which every thread has had.
std::optional<double> ReadWaited(int file) {
  char text[96] = {};
  const ssize_t length = pread(file, text, sizeof text - 1, 0);
  double on_cpu = 0, waited = 0;
  if (length <= 0 || std::sscanf(text, "%lf %lf", &on_cpu, &waited) != 2 || on_cpu == 0) return std::nullopt;
  return waited * 1e-9;
}

}  // namespace

ThreadWaits::ThreadWaits() : switches_(InvoluntarySwitches()) {
  std::error_code error;
  std::filesystem::directory_iterator thread("/proc/self/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const int file = open((thread->path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    if (std::optional<double> waited = ReadWaited(file)) {
      threads_.push_back({file, *waited});
    } else {
      close(file);
    }
  }
}

ThreadWaits::~ThreadWaits() {
  for (const Thread& thread : threads_) close(thread.file);
}

double ThreadWaits::Longest() {
  const int64_t before = switches_;
  switches_ = InvoluntarySwitches();
  if (threads_.empty()) return kSwitch * static_cast<double>(switches_ - before);
  double longest = 0;
  for (Thread& thread : threads_) {
    const std::optional<double> waited = ReadWaited(thread.file);
    if (!waited) continue;
    longest = std::max(longest, *waited - thread.waited);
    thread.waited = *waited;
  }
  return longest;
}

}  // namespace autotune
