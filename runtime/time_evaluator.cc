#include "runtime/time_evaluator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "runtime/kernel_context.h"
#include "runtime/thread_waits.h"
#include "support/cpus.h"
#include "support/integer.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxCopies = 4096;
constexpr int64_t kMaxNumber = int64_t{1} << 32;
constexpr double kHopeless = 8;            // greatest ratio of the times of a cold first call and a warm call
constexpr double kLongestInterrupt = 0.1;  // seconds; longest preemption of a thread on a busy machine
constexpr double kLongEnough = 0.8;        // fraction of its planned length that a repeat must last to count
// Shortest planned length of a repeat, in seconds. Schedulers give a process several milliseconds at a time, so a
// repeat of this length often fits between two preemptions.
constexpr double kShortestRepeat = 1e-3;
// Largest share of a repeat for which a thread may wait for a CPU. Smaller waits, such as those for a kernel thread
// that runs for microseconds, do not matter, since two repeats that differ by twice as much still agree.
constexpr double kMostWaiting = TimeOptions::kAgreement / 2;
constexpr int64_t kAttempts = 2;  // most repeats, disturbed ones included, as a multiple of the repeats asked for

// Copies bytes. On x86-64 it uses streaming stores, so that the copy is not in a cache afterwards.
#if defined(__x86_64__)
constexpr bool kCopiesAreCold = true;
void CopyCold(char* to, const char* from, int64_t bytes) {
  int64_t i = 0;
  for (; i + 16 <= bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  std::memcpy(to + i, from + i, bytes - i);
  _mm_sfence();
}
#else
constexpr bool kCopiesAreCold = false;
void CopyCold(char* to, const char* from, int64_t bytes) { std::memcpy(to, from, bytes); }
#endif

int64_t Calls(double seconds, double per_call) {
  double calls = std::ceil(seconds / std::max(per_call, 1e-10));
  return static_cast<int64_t>(std::clamp(calls, 1.0, static_cast<double>(kMaxNumber)));
}

}  // namespace

namespace {

// Decides whether to give up on a slow kernel. A burst that is slower than the cutoff may have met an interrupt. So the
// kernel is given up after two slow bursts, or after one that is slower than an interrupt explains. After one fast
// burst the measurement always goes on.
class Cutoff {
 public:
  explicit Cutoff(double seconds) : seconds_(seconds) {}
  // Records a burst of `count` calls of `per_call` seconds. The burst is slow if a call takes longer than `tolerance`
  // times the cutoff.
  void See(double per_call, int64_t count, double tolerance = 1) {
    if (seconds_ <= 0 || fast_enough_) return;
    if (per_call <= tolerance * seconds_) {
      fast_enough_ = tolerance == 1;
      return;
    }
    bool unexplained = (per_call - seconds_) * static_cast<double>(count) > kLongestInterrupt;
    slow_bursts_ += unexplained ? 2 : 1;
    fastest_ = std::min(fastest_, per_call);
  }
  bool InDoubt() const { return slow_bursts_ == 1 && !fast_enough_; }
  bool Exceeded() const { return slow_bursts_ >= 2 && !fast_enough_; }
  double fastest() const { return fastest_; }

 private:
  double seconds_, fastest_ = std::numeric_limits<double>::infinity();
  int slow_bursts_ = 0;
  bool fast_enough_ = false;
};

bool TwoFastestAgree(const std::vector<double>& times) {
  if (times.size() < 2) return true;
  double fastest = std::numeric_limits<double>::infinity(), next = fastest;
  for (double seconds : times) {
    next = std::min(next, std::max(seconds, fastest));
    fastest = std::min(seconds, fastest);
  }
  return next <= fastest * (1 + TimeOptions::kAgreement);
}

}  // namespace

Result<Timing> EvaluateTime(const TimeOptions& options, const CallBurst& burst, const CallBurst& before,
                            const std::function<double()>& waited) {
  return EvaluateBursts(
      options,
      [&](int64_t first, int64_t count) -> Result<BurstTime> {
        if (before) TRY(before(first, count));
        if (waited) waited();  // forgets what came before the burst
        const Clock::time_point begin = Clock::now();
        TRY(burst(first, count));
        return BurstTime{std::chrono::duration<double>(Clock::now() - begin).count(), count};
      },
      waited);
}

Result<Timing> EvaluateBursts(const TimeOptions& options, const TimedBurst& burst,
                              const std::function<double()>& waited) {
  Timing timing;
  Clock::time_point started = Clock::now();
  bool disturbed = false;  // threads waited for a CPU during the last burst
  // Makes `count` calls and returns the seconds per call.
  auto time = [&](int64_t count) -> Result<double> {
    const BurstTime made = TRY(burst(timing.calls, count));
    disturbed = waited && waited() > kMostWaiting * made.seconds;
    timing.calls += made.calls;
    return made.seconds / static_cast<double>(made.calls);
  };
  double length = options.min_repeat_seconds;  // planned length of a repeat
  const int64_t repeats = std::max<int64_t>(options.repeats, 1);
  const int64_t most = std::max(repeats, options.max_repeats);
  Cutoff cutoff(options.cutoff_seconds);
  std::vector<double> disturbed_seconds;  // time per call in each disturbed repeat

  double per_call = TRY(time(1));
  cutoff.See(per_call, 1, kHopeless);
  const int64_t fewest = std::clamp<int64_t>(options.number, 1, kMaxNumber);
  int64_t number = fewest;  // of calls in the next repeat
  // Records a repeat. If it was disturbed, makes the next ones shorter.
  auto record = [&] {
    (disturbed ? disturbed_seconds : timing.seconds).push_back(per_call);
    if (!disturbed || length <= kShortestRepeat) return;
    length = std::max(length / 2, kShortestRepeat);
    number = std::max(fewest, Calls(length, per_call));
  };
  if (length > 0) {
    // Makes bursts until the cutoff is no longer in doubt. They also tell how many calls a repeat needs. The warm-up
    // call is slow, so the first burst may be too short for a repeat.
    while (!cutoff.Exceeded()) {
      int64_t count = std::max(number, Calls(length, per_call));
      per_call = TRY(time(count));
      cutoff.See(per_call, count);
      if (per_call * static_cast<double>(count) >= kLongEnough * length) record();
      if (!cutoff.InDoubt()) break;
    }
    number = std::max(number, Calls(length, per_call));
  }
  auto enough = [&] {
    int64_t done = static_cast<int64_t>(timing.seconds.size());
    if (done + static_cast<int64_t>(disturbed_seconds.size()) >= kAttempts * most) return true;
    return done >= repeats && (done >= options.max_repeats || TwoFastestAgree(timing.seconds));
  };
  while (!cutoff.Exceeded() && !enough()) {
    if (options.max_seconds > 0 && timing.seconds.size() + disturbed_seconds.size() > 0 &&
        std::chrono::duration<double>(Clock::now() - started).count() > options.max_seconds) {
      break;
    }
    per_call = TRY(time(number));
    if (per_call * static_cast<double>(number) < kLongEnough * length && number < kMaxNumber) {
      number = std::min(Calls(1.1 * length, per_call), number * 100);
      continue;
    }
    cutoff.See(per_call, number);
    record();
  }
  if (timing.seconds.empty()) {
    timing.disturbed = !disturbed_seconds.empty();
    timing.seconds = std::move(disturbed_seconds);
  }
  if (cutoff.Exceeded()) {
    timing.seconds = {cutoff.fastest()};
    timing.cut_off = true;
  }
  return timing;
}

Result<char*> CopyArena::Reserve(int64_t bytes) {
  if (bytes > bytes_) {
    memory_ = nullptr;
    bytes_ = 0;
    memory_ = AllocateAligned(bytes);
    if (!memory_) return OutOfMemory("cannot allocate ", bytes, " bytes for copies of weights");
    bytes_ = bytes;
  }
  return static_cast<char*>(memory_.get());
}

int64_t LastLevelCacheBytes() {
  // Asked before each timing: the kernel's answer is spread over a dozen files.
  static const int64_t last = [] {
    constexpr int64_t kUnknown = int64_t{32} << 20;
    for (int level : {3, 2}) {
      if (int64_t bytes = HostCacheBytes(level); bytes > 0) return bytes;
    }
    return kUnknown;
  }();
  return last;
}

int64_t WeightCopies(const WeightCopyOptions& options) {
  if (options.copy_bytes == 0 || options.cold_bytes == 0 || options.cache_bytes == 0) return 1;
  int64_t bytes = options.cold_bytes < 0 ? 2 * options.cache_bytes : options.cold_bytes - options.activation_bytes;
  bytes = std::min(bytes, options.most_bytes);
  const int64_t copies = std::clamp<int64_t>(CeilDiv(bytes, options.copy_bytes), 1, options.most_copies);
  return std::clamp<int64_t>(options.most_bytes / options.copy_bytes, 1, copies);
}

Result<Timing> TimeKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                          std::span<const Tensor> prepared, CopyArena& arena, const KernelTimeOptions& options) {
  const KernelMetadata& metadata = kernel.metadata;
  if (args.size() != metadata.params.size() || prepared.size() != metadata.prepared.size()) {
    return Err("kernel ", metadata.name, " takes ", metadata.params.size(), " parameters and ",
               metadata.prepared.size(), " prepared buffers, got ", args.size(), " and ", prepared.size());
  }
  std::vector<void*> original;
  for (const Tensor& tensor : args) original.push_back(tensor.defined() ? tensor.data() : nullptr);
  for (const Tensor& tensor : prepared) original.push_back(tensor.data());

  struct Weight {
    size_t arg;
    int64_t bytes, offset;  // size, and offset within a copy
  };
  std::vector<Weight> weights;
  int64_t copy_bytes = 0, activation_bytes = 0;
  auto add = [&](size_t arg, const Tensor& tensor) {
    weights.push_back({arg, tensor.num_bytes(), copy_bytes});
    copy_bytes += AlignUp(tensor.num_bytes(), AT_ALIGNMENT);
  };
  for (size_t i = 0; i < args.size(); ++i) {
    bool read = std::find(metadata.prepare_only.begin(), metadata.prepare_only.end(), static_cast<int64_t>(i)) ==
                metadata.prepare_only.end();
    if (!read) original[i] = nullptr;
    if (read && !args[i].defined()) return Err("kernel ", metadata.name, ": parameter ", i, " has no data");
    if (!read) continue;
    if (metadata.params[i].kind == ParamKind::kConstant) {
      add(i, args[i]);
    } else {
      activation_bytes += args[i].num_bytes();
    }
  }
  for (size_t i = 0; i < prepared.size(); ++i) add(args.size() + i, prepared[i]);

  const int64_t rotation = WeightCopies({.cold_bytes = options.cold_bytes,
                                         .copy_bytes = copy_bytes,
                                         .activation_bytes = activation_bytes,
                                         .cache_bytes = LastLevelCacheBytes(),
                                         .most_copies = kMaxCopies});
  // Copy 0 is the original; copy i > 0 is in slot i - 1 of the arena. A copy is made just before the burst that first
  // uses it, so a slow kernel, which makes few calls, needs few copies. Without streaming stores, such a copy would be
  // in the caches, so all copies are made before the first burst.
  std::vector<std::vector<void*>> copies = {original};
  char* memory = rotation > 1 ? TRY(arena.Reserve((rotation - 1) * copy_bytes)) : nullptr;
  CallBurst before = [&](int64_t first, int64_t count) -> Status {
    int64_t needed = kCopiesAreCold ? std::min(rotation, first + count) : rotation;
    while (static_cast<int64_t>(copies.size()) < needed) {
      std::vector<void*> copy = original;
      char* slot = memory + (static_cast<int64_t>(copies.size()) - 1) * copy_bytes;
      for (const Weight& weight : weights) {
        copy[weight.arg] = slot + weight.offset;
        CopyCold(slot + weight.offset, static_cast<const char*>(original[weight.arg]), weight.bytes);
      }
      copies.push_back(std::move(copy));
    }
    return {};
  };
  CallBurst burst = [&](int64_t first, int64_t count) -> Status {
    size_t next = static_cast<size_t>(first % rotation);
    for (int64_t i = 0; i < count; ++i) {
      if (int32_t code = kernel.raw(context.abi(), copies[next].data())) {
        return context.TakeError("kernel " + metadata.name + ".raw failed with code " + std::to_string(code));
      }
      if (++next == static_cast<size_t>(rotation)) next = 0;
    }
    return {};
  };
  ThreadWaits waits;
  return EvaluateTime(options.time, burst, before, [&] { return waits.Longest(); });
}

}  // namespace autotune
