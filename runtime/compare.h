// Compares a kernel's output with a reference at every element. Guard bands reveal writes beyond a buffer. The caller
// chooses the tolerance. Thread-safe on distinct tensors.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/tensor.h"
#include "support/fields.h"

namespace autotune {

struct Tolerance {
  double atol = 1e-4;  // factor of the largest finite |reference|
  double rtol = 1e-3;  // factor of each |reference|
  AUTOTUNE_FIELDS(atol, rtol)
};

struct Comparison {
  bool ok = true;
  int64_t elements = 0;
  int64_t mismatches = 0;
  // Row-major index of the worst element: the one whose difference exceeds its tolerance most, or comes nearest to it.
  int64_t worst_index = 0;
  double worst_actual = 0;
  double worst_reference = 0;
  double max_reference = 0;  // largest finite |reference|
  // |actual - reference| / allowed at worst_index; infinite for mismatches of NaN, infinities and integers.
  double worst_ratio = 0;
  AUTOTUNE_FIELDS(ok, elements, mismatches, worst_index, worst_actual, worst_reference, max_reference, worst_ratio)

  // "12 of 1000 elements differ; worst at 17: 1.5, expected 1.25 (3.2 times the tolerance)"
  std::string Text() const;
};

// Compares every element a of `actual` with its b of `reference`: |a - b| <= atol * max|b| + rtol * |b|. A NaN matches
// only a NaN, an infinity only itself; integers and bools must be equal. Both tensors are floats (the reference may be
// wider), or both have one integer type. Returns an error if the shapes or types cannot be compared. If `actual` is f16
// or bf16, rtol grows by the relative distance of two neighbouring numbers, since both sides may round differently.
Result<Comparison> CompareTensors(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance = {});

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
