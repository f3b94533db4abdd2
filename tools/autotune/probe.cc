#include "tools/autotune/probe.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>

#include "runtime/thread_pool.h"
#include "service/peak.h"
#include "support/cpus.h"
#include "support/host_lock.h"
#include "support/printf_text.h"

namespace autotune::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRepeats = 100;  // repeats of a measurement; the fastest one counts
// Accumulators that hide the latency of a multiply-add on every core: 2 ports times 4 to 6 cycles.
constexpr int kManyAccumulators = 12;

// Returns the seconds of the fastest of several calls.
double FastestOf(const auto& call) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const Clock::time_point begin = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// Measures the clock frequency in Hz with a chain of dependent instructions that take one cycle each. Both operands are
// registers, since some cores execute instructions with small constants in no cycle, during register renaming.
double MeasureClock() {
  constexpr int64_t kRounds = 200'000;
  constexpr int kChain = 8;  // dependent instructions per round; the loop's own instructions run in parallel to them
  uint64_t x = 1;
  const uint64_t y = 3;
  const double seconds = FastestOf([&] {
    for (int64_t i = 0; i < kRounds; ++i) {
#if defined(__x86_64__)
      asm volatile(
          "xor %1, %0\n xor %1, %0\n xor %1, %0\n xor %1, %0\n xor %1, %0\n xor %1, %0\n xor %1, %0\n xor %1, %0"
          : "+r"(x)
          : "r"(y));
#elif defined(__aarch64__)
      asm volatile(
          "eor %0, %0, %1\n eor %0, %0, %1\n eor %0, %0, %1\n eor %0, %0, %1\n eor %0, %0, %1\n eor %0, %0, %1\n "
          "eor %0, %0, %1\n eor %0, %0, %1"
          : "+r"(x)
          : "r"(y));
#else
      asm volatile(
          "xor %0, %0, %1\n xor %0, %0, %1\n xor %0, %0, %1\n xor %0, %0, %1\n xor %0, %0, %1\n xor %0, %0, %1\n "
          "xor %0, %0, %1\n xor %0, %0, %1"
          : "+r"(x)
          : "r"(y));
#endif
    }
  });
  return static_cast<double>(kRounds) * kChain / seconds;
}

// Returns the seconds from the fork to the join of a region in which every thread has one task. A task adds the numbers
// that another thread wrote in the region before, 1 KiB as of a small operand, to its own. The tasks wait for each
// other, so that the caller cannot run several tasks before the other threads wake up.
double MeasureFork(int threads) {
  constexpr int kRegions = 1000, kNumbers = 256;
  ThreadPool pool({.num_threads = threads});
  std::vector<std::array<float, kNumbers>> data(static_cast<size_t>(threads));
  return FastestOf([&] {
           for (int i = 0; i < kRegions; ++i) {
             std::atomic<int> missing = pool.num_threads();
             pool.For(pool.num_threads(), [&](int task) {
               const auto& operand = data[static_cast<size_t>(task + 1) % data.size()];
               auto& own = data[static_cast<size_t>(task)];
               std::array<float, kNumbers> read = operand;
               --missing;
               while (missing.load() > 0) {
               }
               for (int k = 0; k < kNumbers; ++k) own[k] += read[k];
             });
           }
         }) /
         kRegions;
}

// Numbers that the threads of a pool change in turns.
struct Exchange {
  static constexpr size_t kNumbers = 4096;  // 16 KiB for each thread: a part of its L1 cache
  std::vector<std::array<uint32_t, kNumbers>> numbers;
  size_t shift = 0;              // thread t changes the numbers t + shift
  std::atomic<int> missing = 0;  // threads that have not begun

  // Changes the numbers of a thread, once all threads have begun. So each thread has one task.
  static int32_t Change(void* closure, int32_t thread, int32_t, int32_t) {
    Exchange& e = *static_cast<Exchange*>(closure);
    --e.missing;
    while (e.missing.load() > 0) {
    }
    for (uint32_t& number : e.numbers[(static_cast<size_t>(thread) + e.shift) % e.numbers.size()]) ++number;
    return 0;
  }
};

// Returns the bytes per second at which a core reads what another core has just written. In each region a thread
// changes the numbers that another thread changed in the region before. The time of regions in which each thread
// changes its own numbers again is subtracted. If the rest is less than a tenth of that time, it is noise: the threads
// share a core and its caches.
double MeasureExchange(int threads) {
  constexpr int kRegions = 200;
  constexpr double kNoise = 0.1;
  ThreadPool pool({.num_threads = threads});
  Exchange exchange;
  exchange.numbers.resize(static_cast<size_t>(pool.num_threads()));
  auto seconds = [&](size_t step) {
    return FastestOf([&] {
             for (int i = 0; i < kRegions; ++i) {
               exchange.shift += step;
               exchange.missing = pool.num_threads();
               pool.Run(pool.num_threads(), Exchange::Change, &exchange);
             }
           }) /
           kRegions;
  };
  const double own = seconds(0);
  return Exchange::kNumbers * sizeof(uint32_t) / std::max(seconds(1) - own, kNoise * own);
}

}  // namespace

Result<ProbedMachine> ProbeMachine(const Target& target, Builder& builder, int patience_ms) {
  // The buffer fills half of a cache level, so that other data does not evict it. For memory it is far larger than the
  // last level.
  constexpr int64_t kPartOfLevel = 2, kBeyondLast = 4, kLeastMemory = int64_t{64} << 20,
                    kMostMemory = int64_t{512} << 20;
  ProbedMachine probed{MachineOf(target), {"loop_registers", "task_cycles"}};
  Machine& machine = probed.machine;
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, patience_ms));
  machine.hz = MeasureClock();
  if (target.num_cores > 1) {
    machine.fork_cycles = MeasureFork(target.num_cores) * machine.hz;
    machine.other_core_bytes_per_cycle = MeasureExchange(target.num_cores) / machine.hz;
  } else {
    probed.copied.insert({"fork_cycles", "other_core_bytes_per_cycle"});
  }
  alone.reset();
  const double many = TRY(SecondsPerMultiplyAdd(target, builder, kManyAccumulators, patience_ms));
  const double one = TRY(SecondsPerMultiplyAdd(target, builder, 1, patience_ms));
  machine.multiply_add_ports = 1 / (many * machine.hz);
  machine.multiply_add_latency = one * machine.hz;
  auto bandwidth = [&](int64_t size) -> Result<double> {
    return TRY(BytesReadPerSecond(target, builder, size, patience_ms)) / machine.hz;
  };
  machine.l1_bytes_per_cycle = TRY(bandwidth(target.l1_bytes / kPartOfLevel));
  machine.load_ports = machine.l1_bytes_per_cycle / (target.vector_bits / 8.0);
  if (target.l2_bytes > 0) {
    machine.l2_bytes_per_cycle = TRY(bandwidth(target.l2_bytes / kPartOfLevel));
  } else {
    probed.copied.insert("l2_bytes_per_cycle");
  }
  if (target.l3_bytes > 0) {
    const int64_t share = target.l3_bytes / kPartOfLevel;
    machine.l3_bytes_per_cycle = TRY(bandwidth(std::max(share, kPartOfLevel * target.l2_bytes)));
  } else {
    probed.copied.insert("l3_bytes_per_cycle");
  }
  machine.memory_bytes_per_cycle = TRY(bandwidth(std::clamp(kBeyondLast * target.l3_bytes, kLeastMemory, kMostMemory)));
  machine.page_bytes = sysconf(_SC_PAGESIZE);
  if (const int ways = HostCacheWays(1); ways > 0) {
    machine.l1_ways = ways;
  } else {
    probed.copied.insert("l1_ways");
  }
  return probed;
}

std::string MachineRowText(const Target& target, const ProbedMachine& probed) {
  std::string text = "{.family = \"" + target.cpu + "\",\n .cpus = {\"" + target.cpu + "\"},\n .machine = {";
  const std::string indent(text.size() - text.rfind('\n') - 1, ' ');
  bool first = true;
  ForEachField(probed.machine, [&](std::string_view name, const auto& value) {
    const bool copied = probed.copied.contains(name);
    const bool told = name == "page_bytes" || name == "l1_ways";
    // Measured numbers are rounded to three digits, those of cycles to whole ones. Numbers that the operating system
    // reports are exact.
    const bool whole = told || (value >= 100 && value < 1e6);
    text += (first ? "" : indent) + "." + std::string(name) + " = " +
            Format(whole ? "%.0f" : "%.3g", static_cast<double>(value)) + ",  // [" +
            (copied ? "as of the row '" + std::string(MachineRowOf(target.cpu).family) + "'"
             : told ? "the kernel"
                    : "probe") +
            "]\n";
    first = false;
  });
  return text + " }},\n";
}

}  // namespace autotune::tools
