#include "tools/autotune/host.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "ir/added_product.h"
#include "ir/text.h"
#include "runtime/tensor.h"
#include "service/peak.h"
#include "support/host_lock.h"
#include "support/printf_text.h"
#include "support/statistics.h"

namespace autotune::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Returns the bytes read and written per second by `threads` threads, each of which copies a buffer of `bytes` to
// another one.
Result<double> MeasureCopy(int threads, int64_t bytes) {
  constexpr double kSpan = 0.2;                         // seconds
  constexpr int64_t kBetweenClocks = int64_t{1} << 20;  // bytes copied between two readings of the clock
  const int64_t copies_at_once = std::max<int64_t>(1, kBetweenClocks / bytes);
  std::vector<std::shared_ptr<void>> buffers;
  for (int i = 0; i < 2 * threads; ++i) {
    buffers.push_back(AllocateAligned(bytes));
    if (!buffers.back()) return Err("cannot allocate ", 2 * threads * (bytes >> 20), " MB to measure the memory with");
    std::memset(buffers.back().get(), i + 1, bytes);
  }
  std::vector<double> rates(threads, 0);
  std::vector<std::thread> copying;
  for (int t = 0; t < threads; ++t) {
    copying.emplace_back([&, t] {
      char *to = static_cast<char*>(buffers[2 * t].get()), *from = static_cast<char*>(buffers[2 * t + 1].get());
      int64_t copies = 0;
      Clock::time_point begin = Clock::now();
      while (copies == 0 || Seconds(begin) < kSpan) {
        for (int64_t i = 0; i < copies_at_once; ++i) {
          std::memcpy(to, from, bytes);
          asm volatile("" : : "r"(to) : "memory");  // the compiler must not merge the copies into one
        }
        copies += copies_at_once;
      }
      rates[t] = static_cast<double>(2 * bytes * copies) / Seconds(begin);
    });
  }
  for (std::thread& thread : copying) thread.join();
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

// Measures each level that the target has, and memory as the last one, by a function that copies buffers of so many
// bytes with all cores. No buffer takes more than `most_bytes`.
Result<std::vector<CopySpeed>> SpeedsOfLevels(const Target& target, int64_t most_bytes,
                                              const std::function<Result<double>(int64_t bytes)>& copy) {
  constexpr double kForever = std::numeric_limits<double>::infinity();
  struct Level {
    const char* name;
    int64_t bytes;    // part of the level that one core can fill
    double capacity;  // bytes of the level for all cores together
  };
  const int cores = target.num_cores;
  const Level levels[] = {{"L1", target.l1_bytes, static_cast<double>(target.l1_bytes) * cores},
                          {"L2", target.l2_bytes, static_cast<double>(target.l2_bytes) * cores},
                          {"L3", target.l3_bytes / cores, static_cast<double>(target.l3_bytes)},
                          {"memory", 4 * most_bytes, kForever}};
  std::vector<CopySpeed> speeds;
  for (const Level& level : levels) {
    if (level.bytes == 0) continue;
    // Two buffers fill half of the level, so that other data does not evict them.
    const double bytes_per_second = TRY(copy(std::min(level.bytes / 4, most_bytes)));
    speeds.push_back({level.name, level.capacity, bytes_per_second});
  }
  return speeds;
}

constexpr int64_t kBeyondCaches = int64_t{64} << 20;  // bytes per buffer; the two buffers of a core exceed its caches

}  // namespace

Json MachineJson() {
  const MachineDescription host = DescribeHost();
  Json machine;
  machine["model"] = ModelText(host);
  machine["usable_cores"] = host.usable_cores;
  machine["online_cores"] = host.online_cores;
  machine["memory_bytes"] = host.memory_bytes;
  if (const Result<Target> target = Target::Parse("cpu", &host); target.ok()) {
    machine["l1_bytes"] = target->l1_bytes;
    machine["l2_bytes"] = target->l2_bytes;
    machine["l3_bytes"] = target->l3_bytes;
  }
  return machine;
}

Noise MeasureNoise() {
  constexpr int kSteps = 200000;  // dependent steps of the loop; together about half a millisecond
  constexpr double kSpan = 0.4;   // seconds
  constexpr size_t kLeastRepeats = 20;
  // Volatile, so that the compiler can neither compute the loop in advance nor remove it.
  volatile double start = 1, result = 0;
  auto work = [&] {
    double x = start;
    for (int i = 0; i < kSteps; ++i) x = x * 0.999999 + 1e-6;
    result = x;
  };
  work();
  std::vector<double> times;
  for (Clock::time_point begin = Clock::now(); times.size() < kLeastRepeats || Seconds(begin) < kSpan;) {
    Clock::time_point repeat = Clock::now();
    work();
    times.push_back(Seconds(repeat));
  }
  std::sort(times.begin(), times.end());
  return {Median(times) / times[0] - 1, times.back() / times[0] - 1, times[0]};
}

Result<std::vector<CopySpeed>> MeasureCopySpeeds(const Target& target) {
  return SpeedsOfLevels(target, kBeyondCaches, [&](int64_t bytes) { return MeasureCopy(target.num_cores, bytes); });
}

std::optional<DType> SmallProductsIn(const std::string& program) {
  const Result<PrimFunc> parsed = ParsePrimFunc(program);
  return parsed.ok() ? SmallProductsOf(parsed->body) : std::nullopt;
}

Roof Roofline::Of(double flops, double bytes, std::optional<DType> small) const {
  double peak = small ? 0 : flops_per_second;
  for (const DotPeak& of : dots)
    if (of.factors == small) peak = of.per_second;
  Roof roof{peak > 0 ? flops / peak : 0, "arithmetic"};
  for (const CopySpeed& level : copying) {
    if (bytes > level.capacity) continue;
    if (double seconds = bytes / level.bytes_per_second; seconds > roof.seconds) roof = {seconds, level.level};
    break;
  }
  return roof;
}

namespace {

// Measures the peak of each type for which the target has instructions.
Result<std::vector<Roofline::DotPeak>> PeaksOfDots(const Target& target,
                                                   const std::function<Result<MeasuredPeak>(DType)>& measure) {
  std::vector<Roofline::DotPeak> peaks;
  for (const DType factors : {DType::Int(8), DType::Int(16), DType::BFloat16()}) {
    if (!target.has_tiles && !target.HasDot(factors.IsFloat(), factors.bits)) continue;
    const MeasuredPeak peak = TRY(measure(factors));
    peaks.push_back({factors, peak.flops});
  }
  return peaks;
}

}  // namespace

Result<Roofline> MeasureRoofline(const Target& target, Builder& builder, int patience_ms) {
  Roofline roofline;
  roofline.flops_per_second = TRY(MeasurePeakFlops(target, builder, patience_ms)).flops;
  roofline.dots =
      TRY(PeaksOfDots(target, [&](DType factors) { return MeasurePeakOfDots(factors, target, builder, patience_ms); }));
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, patience_ms));
  roofline.copying = TRY(MeasureCopySpeeds(target));
  return roofline;
}

Result<Roofline> MeasureRooflineOn(rpc::FarmClient& farm, const Target& target, int64_t memory_bytes, Builder& builder,
                                   const rpc::MeasureCallbacks& callbacks) {
  constexpr int64_t kShare = 8;  // of the device's memory that all buffers may take; a runner gets half of it
  const int64_t most = std::clamp<int64_t>(memory_bytes / kShare / (2 * target.num_cores), 1 << 20, kBeyondCaches);
  Roofline roofline;
  roofline.flops_per_second = TRY(MeasurePeakFlopsOn(farm, target, builder, callbacks)).flops;
  roofline.dots = TRY(PeaksOfDots(
      target, [&](DType factors) { return MeasurePeakOfDotsOn(factors, farm, target, builder, callbacks); }));
  roofline.copying = TRY(SpeedsOfLevels(
      target, most, [&](int64_t bytes) { return BytesCopiedPerSecondOn(farm, target, builder, bytes, callbacks); }));
  return roofline;
}

std::string NoiseText(const Noise& noise) {
  constexpr double kBusy = 0.05;  // median deviation above which comparisons of schedules are unreliable
  const std::string text = Format("repeats of one loop vary by %.1f %% (median), the worst took %.*f times as long",
                                  100 * noise.median, noise.worst < 9 ? 1 : 0, 1 + noise.worst);
  if (noise.median <= kBusy) return text;
  return "this machine is busy: " + text + "; tuning would choose schedules by chance";
}

Result<HostSpeed> MeasureHostSpeed(const Target& target, Builder& builder) {
  HostSpeed speed;
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each measurement
  speed.roofline = TRY(MeasureRoofline(target, builder, kPatienceMs));
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kPatienceMs));
  speed.alone = alone.has_value();
  speed.noise = MeasureNoise();
  return speed;
}

}  // namespace autotune::tools
