// For tests: random models of one or two products or convolutions of 8-bit numbers, in all forms that ONNX has for
// them, with their exact results.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/tensor.h"
#include "tests/frontend/model_maker.h"

namespace autotune {

struct IntegerCase {
  std::string text;  // the case in words
  ModelMaker model;
  std::vector<Tensor> inputs;
  // Whether the model multiplies dequantized floats. Targets may compute such products in f32.
  bool of_floats = false;
  // The elements of the one output: integers, or numbers that the last operator rounds to integers.
  std::vector<double> exact;
  // Bounds of the errors that f32 makes before the last rounding; 0: the result must be the rounded number.
  std::vector<double> error;
  double zero = 0;           // what is added behind the last rounding
  double low = 0, high = 0;  // range of the output's type
};

// Returns the case of this number; equal numbers give equal cases.
IntegerCase MakeIntegerCase(uint64_t number);

struct Judgement {
  int64_t elements = 0, ties = 0;  // `ties`: elements that differ by 1, where a rounding error may have decided
  std::string wrong;               // first wrong element; empty: there is none
};
Judgement Judge(const IntegerCase& expected, const Tensor& output);

}  // namespace autotune
