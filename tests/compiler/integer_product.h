// For tests: a random product of matrices or a random convolution of 8-bit numbers, and its exact sums.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/rng.h"

namespace autotune {

// A tensor of 8-bit numbers with zero points.
struct SmallTensor {
  std::vector<int64_t> shape;
  bool is_signed = false;
  std::vector<int32_t> numbers;
  std::vector<int32_t> zeros;  // none, one, or one for each row of the data (column of the weights)

  int32_t low() const { return is_signed ? -128 : 0; }
  int32_t high() const { return low() + 255; }
};

struct IntegerProduct {
  bool convolves = false;
  bool transposed = false;  // whether the weights of a matrix product are [columns, terms]
  SmallTensor x, w;
  int64_t groups = 1;
  std::vector<int64_t> strides, dilations, pads;  // of a convolution; pads as in ONNX: all before, then all behind
  // Made by Compute:
  std::vector<int64_t> shape;
  std::vector<int64_t> sums;        // of (x - zero) (w - zero)
  std::vector<int64_t> magnitudes;  // sums of the terms' magnitudes

  int64_t Columns() const;                 // columns of the result, or its channels
  int64_t ColumnOf(size_t element) const;  // of the result
  int64_t Terms() const;                   // terms of a sum
  std::string Text() const;
  void Compute();

 private:
  void Multiply();
  void Convolve();
};

// What a form of products supports.
struct ProductLimits {
  bool row_zeros = false;     // zero points for each row of a matrix
  bool batched = true;        // weights with batches of their own
  bool transposable = false;  // transposed weights
  bool any_weight_zeros = true;
};
IntegerProduct DrawMatrixProduct(Rng& rng, const ProductLimits& limits);
// Draws a convolution of the given data, or of data of its own if that is null.
IntegerProduct DrawConvolution(Rng& rng, const SmallTensor* data);

}  // namespace autotune
