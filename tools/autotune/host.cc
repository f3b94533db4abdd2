#include "tools/autotune/host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "runtime/tensor.h"
#include "support/cpus.h"
#include "support/host_lock.h"
#include "tools/autotune/peak.h"

namespace autotune::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Bytes read and written a second by `threads` threads that copy buffers of their own.
Result<double> MeasureCopy(int threads) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  constexpr double kSpan = 0.4;
  std::vector<std::shared_ptr<void>> buffers;
  for (int i = 0; i < 2 * threads; ++i) {
    buffers.push_back(AllocateAligned(kBytes));
    if (!buffers.back()) return Err("cannot allocate ", 2 * threads * (kBytes >> 20), " MB to measure the memory with");
    std::memset(buffers.back().get(), i + 1, kBytes);
  }
  std::vector<double> rates(threads, 0);
  std::vector<std::thread> copying;
  for (int t = 0; t < threads; ++t) {
    copying.emplace_back([&, t] {
      int64_t copies = 0;
      Clock::time_point begin = Clock::now();
      for (; copies == 0 || Seconds(begin) < kSpan; ++copies)
        std::memcpy(buffers[2 * t].get(), buffers[2 * t + 1].get(), kBytes);
      rates[t] = static_cast<double>(2 * kBytes * copies) / Seconds(begin);
    });
  }
  for (std::thread& thread : copying) thread.join();
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

// One loop of about a millisecond, again and again.
Noise MeasureNoise() {
  volatile double sink = 0;
  auto work = [&] {
    double x = 1;
    for (int i = 0; i < 200000; ++i) x = x * 0.999999 + 1e-6;
    sink = sink + x;
  };
  work();
  std::vector<double> times;
  for (Clock::time_point begin = Clock::now(); times.size() < 20 || Seconds(begin) < 0.4;) {
    Clock::time_point start = Clock::now();
    work();
    times.push_back(Seconds(start));
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2] / times[0] - 1, times.back() / times[0] - 1};
}

}  // namespace

HostFacts FactsOfHost() {
  HostFacts facts;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && facts.model.empty();) {
    size_t colon = line.find(": ");
    if ((line.starts_with("model name") || line.starts_with("Model")) && colon != std::string::npos)
      facts.model = line.substr(colon + 2);
  }
  if (facts.model.empty()) facts.model = "unknown CPU";
  facts.online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.usable_cores = AvailableCpus();
  facts.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return facts;
}

Result<HostSpeed> MeasureHostSpeed(const Target& target, Builder& builder) {
  HostSpeed speed;
  constexpr int kPatienceMs = 500;
  speed.flops = TRY(MeasurePeakFlops(target, builder, kPatienceMs));
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kPatienceMs));
  speed.alone = alone.has_value();
  speed.copy_bytes = TRY(MeasureCopy(target.num_cores));
  speed.noise = MeasureNoise();
  return speed;
}

}  // namespace autotune::tools
