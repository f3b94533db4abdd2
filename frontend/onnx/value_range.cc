#include "frontend/onnx/value_range.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace autotune {
namespace {

constexpr int kBuckets = 1 << 16;
constexpr uint32_t kSign = 0x8000;
constexpr float kMost = std::numeric_limits<float>::max();

// Returns the bucket of a number, in the order of the numbers.
uint32_t BucketOf(float value) {
  const uint32_t head = std::bit_cast<uint32_t>(value) >> 16;
  return head & kSign ? ~head & 0xffff : head | kSign;
}

// Returns the lower end of a bucket, which is the upper end of the bucket below it.
float LowerEnd(uint32_t bucket) {
  const auto number = [](uint32_t head) { return std::min(std::bit_cast<float>(head << 16), kMost); };
  return bucket & kSign ? number(bucket & ~kSign) : -number((~bucket & 0x7fff) + 1);
}

}  // namespace

ByteScale ScaleOf(const ValueRange& range) {
  constexpr double kMostByte = 255;
  const double low = std::min(range.low, 0.f), high = std::max(range.high, 0.f);
  const auto scale = static_cast<float>((high - low) / kMostByte);
  if (!std::isnormal(scale)) return {};
  return {scale, static_cast<uint8_t>(std::clamp(std::nearbyint(-low / scale), 0.0, kMostByte))};
}

RangeObserver::RangeObserver(double percentile)
    : percentile_(percentile), low_(HUGE_VALF), high_(-HUGE_VALF), counts_(percentile < 100 ? kBuckets : 0) {}

void RangeObserver::Add(std::span<const float> values) {
  for (float value : values) {
    if (!std::isfinite(value)) {
      ++infinite_;
      continue;
    }
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    ++values_;
    if (!counts_.empty()) ++counts_[BucketOf(value)];
  }
}

float RangeObserver::Quantile(double fraction) const {
  const double place = fraction * static_cast<double>(values_);
  double below = 0;
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto count = static_cast<double>(counts_[bucket]);
    if (count > 0 && below + count >= place) {
      const double low = LowerEnd(bucket), high = LowerEnd(bucket + 1);
      return std::clamp(static_cast<float>(low + (high - low) * (place - below) / count), low_, high_);
    }
    below += count;
  }
  return high_;
}

ValueRange RangeObserver::Range() const {
  if (values_ == 0) return {};
  if (counts_.empty()) return {low_, high_};
  const double missing = (1 - percentile_ / 100) / 2;
  return {Quantile(missing), Quantile(1 - missing)};
}

}  // namespace autotune
