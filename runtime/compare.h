// Compares a tensor with expected values at every element, by the one rule of this project: `autotune verify`, the
// device's check of candidates, tests and scripts use it (examples/compare.py is the same rule in Python). Guard bands
// reveal writes beyond a buffer. Thread-safe on distinct tensors.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/tensor.h"
#include "support/fields.h"

namespace autotune {

// The allowed difference at an element with the expected value b is rtol * |b| + atol * q, where q is
// SmallMagnitude(expected), or LeastMagnitude of the actual type if that is larger. The floor follows the small values
// of the tensor. If it followed the largest one, a single value of 1e9 would excuse wrong values everywhere else.
struct Tolerance {
  double rtol = 1e-3;  // factor of |b|
  double atol = 1e-3;  // factor of SmallMagnitude
  AUTOTUNE_FIELDS(rtol, atol)
};

// Returns a tolerance for products whose operands are rounded, which moves a sum of products by up to `rounding` times
// the sum of the products' magnitudes (Target::ProductRounding).
Tolerance Widened(Tolerance tolerance, double rounding);

// The SmallMagnitude of a tensor without a finite value other than 0. With the default atol, results up to 1e-7 then
// count as 0, as in ONNX's own tests.
inline constexpr double kMagnitudeOfZeros = 1e-4;

// Returns a typical size of the small values among the finite |values| other than 0, of which there are n: the smallest
// of v(4), 4 v(16) and 16 v(64), where v(d) is the value at n / d in rising order, such as the lower quartile v(4).
// Each v(d) needs n / d >= 4, except v(4). The three agree for numbers that are spread evenly around 0. The last one
// still follows the small numbers if 95 % are large. Returns kMagnitudeOfZeros if there are none. `tensor` has floats.
double SmallMagnitude(const Tensor& tensor);

// The least SmallMagnitude with which floats of `type` are compared. With the default atol, it allows the least normal
// number: kernels may give 0 instead of denormal numbers (docs/ir.md), as GPUs do.
double LeastMagnitude(DLDataType type);

struct Comparison {
  bool ok = true;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Row-major index of the worst element: the one with the largest |actual - reference| / allowed.
  int64_t worst_index = 0;
  double worst_actual = 0;
  double worst_reference = 0;
  double floor = 0;  // allowed difference where 0 is expected; 0 for integers
  // |actual - reference| / allowed at worst_index; infinite for mismatches of NaN, infinities and integers.
  double worst_ratio = 0;
  AUTOTUNE_FIELDS(ok, elements, mismatches, worst_index, worst_actual, worst_reference, floor, worst_ratio)

  // "12 of 1000 elements differ; worst at 17: 1.5, expected 1.25 (3.2 times the tolerance)"
  std::string Text() const;
};

// Compares every element of `actual` with its expected value in `reference`. A NaN matches only a NaN, an infinity only
// itself; integers and bools must be equal. Both tensors are floats (the reference may be wider), or both have one
// integer type. Returns an error if the shapes or types cannot be compared. If `actual` is f16 or bf16, rtol grows by
// the relative distance of two neighbouring numbers, since both sides may round differently.
// `bounds`, if given, has a float of the reference's type for each element: the rounding error that is also allowed
// there. Infinite ones and NaN count as 0.
Result<Comparison> CompareTensors(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance = {},
                                  const Tensor* bounds = nullptr);

// A tensor between two bands of known bytes.
class GuardedTensor {
 public:
  static constexpr int64_t kBandBytes = 4096;  // on each side
  // Allocates a tensor, aligned to 64 bytes, filled with 0xff bytes (NaN in floats). The upper band begins directly
  // after the last element.
  static Result<GuardedTensor> Empty(std::vector<int64_t> shape, std::string_view type);
  const Tensor& tensor() const { return tensor_; }
  // Returns all bytes: the bands and the elements between them.
  std::span<char> memory() const { return {static_cast<char*>(memory_.get()), static_cast<size_t>(total_bytes_)}; }
  // Fills the elements with 0xff bytes again, which erases the results of an earlier run.
  void Refill() const;
  // Returns an error if a byte of the bands was overwritten. The error names the side and the distance.
  Status Check() const;

 private:
  Tensor tensor_;
  std::shared_ptr<void> memory_;
  int64_t total_bytes_ = 0;
};

}  // namespace autotune
