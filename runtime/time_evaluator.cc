#include "runtime/time_evaluator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "runtime/kernel_context.h"

namespace autotune {
namespace {

constexpr int64_t kMaxCopies = 4096;
constexpr int64_t kMaxNumber = int64_t{1} << 32;
constexpr double kHopeless = 8;      // a cold first call may take this many times longer than a warm one
constexpr double kLongEnough = 0.8;  // of min_repeat_seconds, for a repeat to count

// Copies without leaving the copy in a cache, where the CPU can.
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

Result<Timing> EvaluateTime(const TimeOptions& options, const CallBurst& burst, const CallBurst& before) {
  using Clock = std::chrono::steady_clock;
  Timing timing;
  Clock::time_point started = Clock::now();
  // Seconds that `count` calls take.
  auto time = [&](int64_t count) -> Result<double> {
    if (before) TRY(before(timing.calls, count));
    Clock::time_point begin = Clock::now();
    TRY(burst(timing.calls, count));
    Clock::time_point end = Clock::now();
    timing.calls += count;
    return std::chrono::duration<double>(end - begin).count();
  };
  auto cut_off = [&](double per_call) {
    timing.seconds = {per_call};
    timing.cut_off = true;
    return timing;
  };
  double cutoff = options.cutoff_seconds, least = options.min_repeat_seconds;
  int64_t repeats = std::max<int64_t>(options.repeats, 1);

  double warm_up = TRY(time(1));
  if (cutoff > 0 && warm_up > kHopeless * cutoff) return cut_off(warm_up);
  int64_t number = std::clamp<int64_t>(options.number, 1, kMaxNumber);
  if (least > 0) {
    int64_t count = std::max(number, Calls(least / 4, warm_up));
    double seconds = TRY(time(count));
    if (cutoff > 0 && seconds / count > cutoff) return cut_off(seconds / count);
    if (seconds >= kLongEnough * least) timing.seconds.push_back(seconds / count);
    number = std::max(number, Calls(least, seconds / count));
  }
  auto agreed = [&] {
    if (timing.seconds.size() < 2) return true;
    double fastest = std::numeric_limits<double>::infinity(), next = fastest;
    for (double seconds : timing.seconds) {
      next = std::min(next, std::max(seconds, fastest));
      fastest = std::min(seconds, fastest);
    }
    return next <= fastest * (1 + TimeOptions::kAgreement);
  };
  auto enough = [&] {
    int64_t done = static_cast<int64_t>(timing.seconds.size());
    return done >= repeats && (done >= options.max_repeats || agreed());
  };
  while (!enough()) {
    if (options.max_seconds > 0 && !timing.seconds.empty() &&
        std::chrono::duration<double>(Clock::now() - started).count() > options.max_seconds) {
      break;
    }
    double seconds = TRY(time(number));
    if (seconds < kLongEnough * least && number < kMaxNumber) {
      number = std::min(Calls(1.1 * least, seconds / number), number * 100);
      continue;
    }
    timing.seconds.push_back(seconds / number);
    if (cutoff > 0 && timing.seconds.size() == 1 && timing.seconds[0] > cutoff && repeats > 1) {
      return cut_off(timing.seconds[0]);
    }
  }
  return timing;
}

Result<char*> CopyArena::Reserve(int64_t bytes) {
  if (bytes > bytes_) {
    memory_ = nullptr;
    bytes_ = 0;
    memory_ = AllocateAligned(bytes);
    if (!memory_) return Err("out of memory: cannot allocate ", bytes, " bytes for copies of weights");
    bytes_ = bytes;
  }
  return static_cast<char*>(memory_.get());
}

int64_t LastLevelCacheBytes() {
  // sysconf is no help: inside a virtual machine it may tell the whole socket's.
  for (int index : {3, 2}) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    int64_t size = 0;
    char unit = 0;
    if (file >> size >> unit && size > 0) return size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0);
  }
  return int64_t{32} << 20;
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
    int64_t bytes, offset;  // in a copy
  };
  std::vector<Weight> weights;
  int64_t copy_bytes = 0;
  auto add = [&](size_t arg, const Tensor& tensor) {
    weights.push_back({arg, tensor.num_bytes(), copy_bytes});
    copy_bytes += (tensor.num_bytes() + AT_ALIGNMENT - 1) / AT_ALIGNMENT * AT_ALIGNMENT;
  };
  for (size_t i = 0; i < args.size(); ++i) {
    bool read = std::find(metadata.prepare_only.begin(), metadata.prepare_only.end(), static_cast<int64_t>(i)) ==
                metadata.prepare_only.end();
    if (!read) original[i] = nullptr;
    if (read && !args[i].defined()) return Err("kernel ", metadata.name, ": parameter ", i, " has no data");
    if (read && metadata.params[i].kind == ParamKind::kConstant) add(i, args[i]);
  }
  for (size_t i = 0; i < prepared.size(); ++i) add(args.size() + i, prepared[i]);

  int64_t cold = options.cold_bytes < 0 ? 2 * LastLevelCacheBytes() : options.cold_bytes;
  cold = std::min(cold, CopyArena::kMaxBytes);
  int64_t rotation = copy_bytes == 0 ? 1 : std::clamp<int64_t>((cold + copy_bytes - 1) / copy_bytes, 1, kMaxCopies);
  if (rotation * copy_bytes > CopyArena::kMaxBytes) {
    rotation = std::max<int64_t>(1, CopyArena::kMaxBytes / copy_bytes);
  }
  // Copy 0 is the original, copy i > 0 lies at slot i - 1 of the arena. A copy is made just before the burst that first
  // uses it: a slow kernel needs only as many as it makes calls.
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
        std::string text = context.TakeError();
        return Err("kernel ", metadata.name, ".raw failed with code ", code, text.empty() ? "" : ": ", text);
      }
      if (++next == static_cast<size_t>(rotation)) next = 0;
    }
    return {};
  };
  return EvaluateTime(options.time, burst, before);
}

}  // namespace autotune
