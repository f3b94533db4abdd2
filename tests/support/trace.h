// Makes a process that outlives SIGKILL, like one that sleeps in the kernel. A traced process that was killed is a
// zombie for its tracer only; its parent cannot reap it until the tracer ends. Only for single-threaded tests.
#pragma once
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <utility>

#include "support/subprocess.h"

namespace autotune {

// The process to be traced calls this function. Without it, some systems let only ancestors trace a process.
inline void ConsentToTracing() { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

class Tracer {
 public:
  // Returns nullopt if this system forbids tracing.
  static std::optional<Tracer> Of(pid_t traced) {
    auto [out, in] = std::move(MakePipe()).value();
    pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char done = ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) == 0;
      (void)!write(in.get(), &done, 1);
      for (;;) pause();
    }
    char done = 0;
    bool answered = pid > 0 && read(out.get(), &done, 1) == 1;
    Tracer tracer(pid);
    if (answered && done) return tracer;
    return std::nullopt;
  }
  Tracer(Tracer&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Tracer& operator=(Tracer&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Tracer() { End(); }
  pid_t pid() const { return pid_; }
  // Ends the tracer. After that, the parent can reap the traced process.
  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  explicit Tracer(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

}  // namespace autotune
