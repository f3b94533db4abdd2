// Time evaluator: measures how long one call of a kernel takes, with weights cold and activations warm, as they are in
// a network. It warms up, chooses the number of calls per repeat by their length, and ends early for hopeless
// candidates. One measurement at a time per CopyArena and KernelContext. It returns all times and does not judge them.
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
  int64_t number = 1;  // calls per repeat, at least
  int64_t repeats = 1;
  // The largest number of repeats. Repeats beyond `repeats` are made while the two fastest differ by more than
  // kAgreement: then only one repeat was undisturbed, if any, and its time alone is not trusted. No effect if it is at
  // most `repeats`.
  int64_t max_repeats = 0;
  double min_repeat_seconds = 0;  // `number` grows until a repeat lasts this long; longer is steadier and slower
  double cutoff_seconds = 0;      // per call; two slower bursts and no faster one end the measurement; 0: never
  double max_seconds = 0;         // no further repeat is begun after this long; 0: no limit
  AUTOTUNE_FIELDS(number, repeats, max_repeats, min_repeat_seconds, cutoff_seconds, max_seconds)

  static constexpr double kAgreement = 0.02;  // of the fastest
};

struct Timing {
  std::vector<double> seconds;  // per call, of each repeat; at least one
  int64_t calls = 0;            // made in all
  bool cut_off = false;         // gave up early; `seconds` holds only the fastest burst's time
  AUTOTUNE_FIELDS(seconds, calls, cut_off)
};

// Makes calls number [first, first + count) back to back.
using CallBurst = std::function<Status(int64_t first, int64_t count)>;

// One warm-up call, then the repeats: without min_repeat_seconds and max_repeats exactly 1 + number * repeats calls.
// `before` runs untimed and gets the numbers of the next calls. The first error of a call ends the measurement.
Result<Timing> EvaluateTime(const TimeOptions& options, const CallBurst& burst, const CallBurst& before = nullptr);

// Memory for the copies of weights, kept from one candidate to the next so that its pages stay mapped.
class CopyArena {
 public:
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;
  Result<char*> Reserve(int64_t bytes);  // 64-byte aligned; invalidates what it returned before

 private:
  std::shared_ptr<void> memory_;
  int64_t bytes_ = 0;
};

// Size of the last-level cache as the system reports it, or 32 MiB.
int64_t LastLevelCacheBytes();

struct KernelTimeOptions {
  TimeOptions time;
  // Bytes that the network touches between two calls of this kernel: its constants and activations. Calls rotate among
  // enough copies of the weights (at most CopyArena::kMaxBytes) that the copies and the kernel's activations take about
  // as many bytes. Each call then finds its weights in the cache level in which the network would leave them. 0: one
  // copy, weights stay warm. -1: copies of twice the last-level cache, so that no copy is in any cache.
  int64_t cold_bytes = -1;
};

// Times NAME.raw. `args` are the parameters in order (prepare_only ones may be undefined), `prepared` the buffers that
// PrepareConstants returned.
Result<Timing> TimeKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                          std::span<const Tensor> prepared, CopyArena& arena, const KernelTimeOptions& options = {});

}  // namespace autotune
