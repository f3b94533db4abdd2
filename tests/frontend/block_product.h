// For tests: models with products whose weights have a scale for each block of terms (MatMulNBits).
#pragma once
#include "support/integer.h"
#include "tests/frontend/outputs.h"

namespace autotune {

// A product of `rows` rows with k x n weights in blocks.
struct BlockProduct {
  int64_t rows = 1, k = 64, n = 5, block = 32, bits = 4;
  enum Zeros { kNone, kPacked, kFloats } zeros = kNone;
  bool has_bias = false;
  int64_t level = 0;  // accuracy_level; 4: data are rounded to 8 bits
  int64_t Blocks() const { return CeilDiv(k, block); }
};

// Data of a product, its results, and the errors that the sums of f32 may have. Without `level` 4, data and weights are
// multiples of 1/8, so nothing is rounded. With it, data are no whole multiples of their scale, but nowhere near a tie;
// `want` is the product of the rounded data, and `want_exact` that of the data.
struct BlockProductData {
  Numbers x, want, want_exact, bounds;
};

// Adds the product to a model of operator set 21, from input x<suffix> to output y<suffix>.
BlockProductData AddBlockProduct(ModelMaker& model, const BlockProduct& product, const std::string& suffix = "",
                                 uint64_t seed = 4);

}  // namespace autotune
