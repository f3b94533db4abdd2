// Fills tensors with random numbers that depend on the seed alone: the same bytes on every machine and with any number
// of threads. Thread-safe on distinct tensors. Not for cryptography.
#pragma once
#include <cstdint>

#include "runtime/tensor.h"
#include "support/fields.h"

namespace autotune {

// The distribution of floats. f16 and bf16 get numbers that both types represent exactly: uniform multiples of 1/128 in
// [-0.5, 0.5) for kUniform, and of 1/64 in [-1, 1) for kNormal.
enum class FillKind {
  kUniform,       // uniform on a grid in [-1, 1)
  kNormal,        // mean 0 and variance 1, within +-3.5 (the sum of four uniform numbers)
  kSmallInteger,  // integers in [-4, 4], so that sums of products are exact in any order
};
AUTOTUNE_ENUM(FillKind, "uniform", "normal", "small integer")

// Fills `tensor` with random numbers. `kind` applies to floats only: integers are in [-4, 4], unsigned ones in [0, 7],
// and bools are 0 or 1.
void FillRandom(const Tensor& tensor, uint64_t seed, FillKind kind = FillKind::kUniform);

// Replaces some numbers of a float tensor, which the seed selects, by those that spoil what should not see them: a run
// of a row by -1e9, as masks have it, and three more runs and three single numbers by outliers of 1e6, 1e7 and 1e8 of
// both signs; with `infinite`, also single numbers by both infinities and NaN. Less than an eighth of the numbers
// change, so that most results stay ordinary. Tensors of less than kLeastWild numbers, or with floats of 16 bits, do
// not change.
void AddWildNumbers(const Tensor& tensor, uint64_t seed, bool infinite);
inline constexpr int64_t kLeastWild = 64;

// Fills a tensor of integers with random numbers of the whole range of their type. Not for bools.
void FillWholeRange(const Tensor& tensor, uint64_t seed);

}  // namespace autotune
