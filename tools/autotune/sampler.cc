#include "tools/autotune/sampler.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace autotune::tools {
namespace {

constexpr size_t kMostSamples = size_t{1} << 16;
// Global, since a handler of signals has no other way to its data.
uintptr_t samples[kMostSamples];
std::atomic<size_t> count = 0;

uintptr_t AddressOf([[maybe_unused]] const ucontext_t& context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return context.uc_mcontext.pc;
#elif defined(__riscv)
  return context.uc_mcontext.__gregs[REG_PC];
#else
  return 0;
#endif
}

void OnTimer(int, siginfo_t*, void* context) {
  const size_t i = count.load(std::memory_order_relaxed);
  if (i >= kMostSamples) return;
  samples[i] = AddressOf(*static_cast<const ucontext_t*>(context));
  count.store(i + 1, std::memory_order_relaxed);
}

}  // namespace

Result<Sampler> Sampler::Start(int microseconds) {
  Sampler sampler;
  count = 0;
  struct sigaction action = {};
  action.sa_sigaction = OnTimer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGPROF, &action, &sampler.before_) != 0) return Err("cannot sample: ", std::strerror(errno));
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  itimerspec interval = {};
  interval.it_interval.tv_nsec = interval.it_value.tv_nsec = 1000L * microseconds;
  if (timer_create(CLOCK_MONOTONIC, &event, &sampler.timer_) != 0) {
    sigaction(SIGPROF, &sampler.before_, nullptr);
    return Err("cannot sample: ", std::strerror(errno));
  }
  sampler.running_ = true;
  timer_settime(sampler.timer_, 0, &interval, nullptr);
  return sampler;
}

Sampler::Sampler(Sampler&& other) noexcept
    : timer_(other.timer_), running_(std::exchange(other.running_, false)), before_(other.before_) {}

Sampler::~Sampler() { Stop(); }

std::vector<uintptr_t> Sampler::Stop() {
  if (!std::exchange(running_, false)) return {};
  timer_delete(timer_);
  // A signal that is still pending must not end the process, as it would by default.
  signal(SIGPROF, SIG_IGN);
  sigaction(SIGPROF, &before_, nullptr);
  return {samples, samples + count.load()};
}

std::vector<uint64_t> AddressesIn(const std::vector<uintptr_t>& addresses, std::string_view library) {
  constexpr size_t kCompared = 1024;       // bytes: the headers, and the symbols or code behind them
  std::map<const void*, bool> is_library;  // by begin of a loaded object
  std::vector<uint64_t> found;
  for (const uintptr_t address : addresses) {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || library.size() < kCompared) continue;
    auto [known, is_new] = is_library.try_emplace(info.dli_fbase, false);
    if (is_new) known->second = std::memcmp(info.dli_fbase, library.data(), kCompared) == 0;
    if (known->second) found.push_back(address - reinterpret_cast<uintptr_t>(info.dli_fbase));
  }
  return found;
}

}  // namespace autotune::tools
