// Time evaluator: measures how long one call of a kernel takes. By default, weights are not in the caches and
// activations are, as in a large network. The evaluator makes a warm-up call, chooses the number of calls per repeat by
// their duration, and stops early for kernels that are slower than the cutoff. It measures again what another process
// disturbed. It returns the times of all repeats and does not judge them. One measurement at a time per CopyArena and
// KernelContext.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/tensor.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

struct TimeOptions {
  int64_t number = 1;  // least number of calls per repeat
  int64_t repeats = 1;
  // The largest number of repeats. After `repeats` repeats, further ones are made while the two fastest differ by more
  // than kAgreement: at most one of the two was undisturbed then, and one time alone is not trusted. Values up to
  // `repeats` have no effect.
  int64_t max_repeats = 0;
  double min_repeat_seconds = 0;  // least duration of a repeat; the number of calls grows until it is reached
  // Time per call above which a kernel is not worth measuring. Two slower bursts of calls end the measurement, or one
  // that is slower by more than an interrupt explains. After a faster burst, no slow one ends it. 0: no cutoff.
  double cutoff_seconds = 0;
  double max_seconds = 0;  // time after which no further repeat begins; 0: no limit
  AUTOTUNE_FIELDS(number, repeats, max_repeats, min_repeat_seconds, cutoff_seconds, max_seconds)

  static constexpr double kAgreement = 0.02;  // fraction of the fastest time
};

struct Timing {
  // Time per call in each repeat; at least one repeat. Repeats in which a thread waited for a CPU are left out if there
  // are others.
  std::vector<double> seconds;
  int64_t calls = 0;       // number of all calls
  bool cut_off = false;    // true: stopped early; `seconds` holds only the time of the fastest burst
  bool disturbed = false;  // true: a thread waited for a CPU in every repeat
  AUTOTUNE_FIELDS(seconds, calls, cut_off, disturbed)
};

// Makes the calls with numbers [first, first + count), one directly after the other.
using CallBurst = std::function<Status(int64_t first, int64_t count)>;

// Makes one warm-up call, then the repeats. If no option but `number` and `repeats` is set, these are exactly
// 1 + number * repeats calls. `before` runs untimed before each burst and gets the numbers of the burst's calls. The
// first error of a call ends the measurement.
//
// `waited` is ThreadWaits::Longest of runtime/thread_waits.h, or null. With it, a repeat does not count if a thread
// waited for more than 1 % of its duration. The following repeats are shorter, so that they fit between two
// interruptions. There are at most twice as many repeats as the options ask for; if a thread waited in all of them,
// their times are returned.
Result<Timing> EvaluateTime(const TimeOptions& options, const CallBurst& burst, const CallBurst& before = nullptr,
                            const std::function<double()>& waited = nullptr);

// The calls of a burst that times itself.
struct BurstTime {
  double seconds = 0;
  int64_t calls = 0;  // number of calls that were made: at least as many as were asked for
};
using TimedBurst = std::function<Result<BurstTime>(int64_t first, int64_t count)>;

// The same for bursts that time themselves, such as those of a device with its own clock.
Result<Timing> EvaluateBursts(const TimeOptions& options, const TimedBurst& burst,
                              const std::function<double()>& waited = nullptr);

// Memory for the copies of weights. It is kept from one candidate to the next, so that its pages stay mapped.
class CopyArena {
 public:
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;
  Result<char*> Reserve(int64_t bytes);  // aligned to 64 bytes; invalidates the pointer that it returned before

 private:
  std::shared_ptr<void> memory_;
  int64_t bytes_ = 0;
};

// Returns the size of the last-level cache from the operating system, or 32 MiB if it is unknown.
int64_t LastLevelCacheBytes();

struct KernelTimeOptions {
  TimeOptions time;
  // Bytes that the network accesses between two calls of this kernel: the network's constants and activations. Calls
  // rotate among copies of the kernel's weights. The copies and the kernel's activations take about cold_bytes (the
  // copies at most CopyArena::kMaxBytes). So each call finds its weights in the same cache level as in the network.
  // 0: one copy, so the weights stay in the caches. -1: copies of twice the last-level cache, so that no cache holds
  // the next copy.
  int64_t cold_bytes = -1;
};

// From which the number of copies of a kernel's weights follows.
struct WeightCopyOptions {
  int64_t cold_bytes = -1;  // KernelTimeOptions::cold_bytes
  int64_t copy_bytes = 0, activation_bytes = 0;
  int64_t cache_bytes = 0;  // size of the last cache before memory; 0: unknown, so there is one copy
  int64_t most_copies = 1;
  int64_t most_bytes = CopyArena::kMaxBytes;
};
// Returns the number of copies of its weights among which the calls of a kernel rotate; at least 1.
int64_t WeightCopies(const WeightCopyOptions& options);

// Times NAME.raw. `args` are the parameters in order; those listed as prepare_only may be undefined. `prepared` are the
// buffers that PrepareConstants returned.
Result<Timing> TimeKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                          std::span<const Tensor> prepared, CopyArena& arena, const KernelTimeOptions& options = {});

}  // namespace autotune
