#include "rpc/calibration.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>

#include "runtime/tensor.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/json.h"

namespace autotune::rpc {
namespace {

constexpr int kCalibrationRepeats = 40;  // the least time counts, since interrupts only add time [chosen]

template <class Work>
double LeastSeconds(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kCalibrationRepeats; ++i) {
    const double begin = SteadySeconds();
    work();
    least = std::min(least, SteadySeconds() - begin);
  }
  return least;
}

// Runs independent chains of multiply-adds in registers. Their number per second shows the clock.
void MultiplyAdds() {
  using Lanes [[gnu::vector_size(16)]] = float;
  constexpr int kSteps = 200'000;  // a millisecond or two [chosen]
  volatile float value = 1.0F;     // so that the compiler cannot compute the result in advance
  const Lanes factor = Lanes{} + 0.999F, term = Lanes{} + 0.001F;
  Lanes a = Lanes{} + value, b = Lanes{} + value, c = Lanes{} + value, d = Lanes{} + value;
  Lanes e = Lanes{} + value, f = Lanes{} + value, g = Lanes{} + value, h = Lanes{} + value;
  for (int step = 0; step < kSteps; ++step) {
    a = a * factor + term, b = b * factor + term, c = c * factor + term, d = d * factor + term;
    e = e * factor + term, f = f * factor + term, g = g * factor + term, h = h * factor + term;
  }
  value = ((a + b) + (c + d) + (e + f) + (g + h))[0];
}

// Returns the value below which a quarter (of = 1) or three quarters (of = 3) of the sorted values are.
double Quartile(const std::vector<double>& sorted, size_t of) {
  const double at = static_cast<double>(of * (sorted.size() - 1)) / 4;
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Status RunCalibration(Device* device, std::vector<double>& seconds) {
  if (device) {
    TRY(device->Settle());
    if (const double reference = device->State().reference_seconds; reference > 0) seconds = {reference};
    return {};
  }
  constexpr int64_t kBytes = 16 << 20;  // beyond most private caches
  const std::shared_ptr<void> from = AllocateAligned(kBytes), to = AllocateAligned(kBytes);
  if (!from || !to) return {};  // the limit of the runner's memory says nothing of the device
  std::memset(from.get(), 1, kBytes);
  std::memset(to.get(), 2, kBytes);
  const double arithmetic = LeastSeconds(MultiplyAdds);
  const double copying = LeastSeconds([&] {
    std::memcpy(to.get(), from.get(), kBytes);
    asm volatile("" : : "r"(to.get()) : "memory");
  });
  seconds = {arithmetic, copying};
  return {};
}

std::string CalibrationKernels() {
#ifdef __OPTIMIZE__
  return "kernels 1, compiler " __VERSION__;  // raise the number when the kernels change
#else
  return "kernels 1, compiler " __VERSION__ ", not optimized";
#endif
}

std::string CalibrationHistory::Judge(const std::string& what, const std::vector<double>& seconds, int64_t now) const {
  for (size_t kernel = 0; kernel < std::min(seconds.size(), std::size(kCalibrationKernels)); ++kernel) {
    std::vector<double> usual;
    for (const Entry& entry : entries_) {
      if (entry.what == what && entry.seconds.size() == seconds.size() && entry.at <= now && now - entry.at <= kKeptMs)
        usual.push_back(entry.seconds[kernel]);
    }
    if (usual.size() < kLeastEntries) continue;
    std::ranges::sort(usual);
    const double low = Quartile(usual, 1), median = Quartile(usual, 2), high = Quartile(usual, 3);
    const double fence = std::max(high + 3 * (high - low), median * (1 + kLeastChange));
    if (seconds[kernel] <= fence) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "%s takes %.1f %% longer than usual on this device (%.3f ms; its median of seven days is %.3f ms)",
                  kCalibrationKernels[kernel], 100 * (seconds[kernel] / median - 1), seconds[kernel] * 1e3,
                  median * 1e3);
    return text;
  }
  return "";
}

void CalibrationHistory::Add(const std::string& what, std::vector<double> seconds, int64_t now) {
  std::erase_if(entries_, [&](const Entry& entry) { return now - entry.at > kKeptMs || entry.at > now; });
  if (entries_.size() >= kMostEntries) entries_.erase(entries_.begin());
  entries_.push_back({now, what, std::move(seconds)});
}

CalibrationHistory CalibrationHistory::Read(const std::string& path) {
  CalibrationHistory history;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return history;
  const Result<std::string> text = ReadFile(path);
  const Result<Json> json = text.ok() ? Json::Parse(*text) : Result<Json>(text.error());
  Result<std::vector<Entry>> entries =
      json.ok() ? FromJson<std::vector<Entry>>(*json) : Result<std::vector<Entry>>(json.error());
  if (entries.ok() && entries->size() <= kMostEntries) history.entries_ = std::move(*entries);
  return history;
}

Status CalibrationHistory::Write(const std::string& path) const {
  return ReplaceFile(path, ToJson(entries_).Dump() + "\n");
}

}  // namespace autotune::rpc
