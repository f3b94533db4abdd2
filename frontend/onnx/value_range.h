// Ranges of the values that a tensor takes in some runs of a network, and the u8 integers that cover a range. A
// RangeObserver is not thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace autotune {

struct ValueRange {
  float low = 0, high = 0;
};

// A number x becomes round(x / scale) + zero, which is kept within 0 and 255.
struct ByteScale {
  float scale = 1;
  uint8_t zero = 0;
};

// Returns the scale and zero point with which 0 to 255 cover the range, which is extended to include 0. 0 itself is
// exact. A range of 0 alone gets the scale 1.
ByteScale ScaleOf(const ValueRange& range);

class RangeObserver {
 public:
  // `percentile`: the percentage of the values that Range covers, the same number of values missing at each end. 100:
  // from the least to the greatest one.
  explicit RangeObserver(double percentile = 100);

  void Add(std::span<const float> values);
  // Returns the range of the finite values so far; from 0 to 0 if there is none.
  ValueRange Range() const;
  int64_t infinite() const { return infinite_; }  // values that are infinite or no number
  int64_t values() const { return values_; }      // finite ones

 private:
  float Quantile(double fraction) const;

  const double percentile_;
  float low_, high_;
  int64_t values_ = 0, infinite_ = 0;
  // How many values begin with the same 16 bits (sign, exponent and 7 bits of mantissa), in the order of the numbers.
  // So outliers of any size leave the others apart. Empty for a percentile of 100.
  std::vector<uint64_t> counts_;
};

}  // namespace autotune
