// For tests: imports a model and computes its outputs with the reference. Stateless.
#pragma once
#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "frontend/onnx/import.h"
#include "tests/frontend/model_maker.h"
#include "tests/graph/reference.h"

namespace autotune {

using Numbers = std::vector<double>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Sigmoid(double x);
// Returns multiples of 1/8 from -1 to 1.
Numbers RandomNumbers(int64_t count, uint32_t seed);

// Matches numbers that are right where `want` is expected. The reference computes in doubles, but constants are floats.
MATCHER_P(Near, want, "are the expected numbers") {
  constexpr Tolerance kNear = {.rtol = 1e-6, .atol = 1e-6};
  const std::string difference = test::Difference(arg, want, kNear);
  *result_listener << difference;
  return difference.empty();
}

void ExpectNear(const Numbers& got, const Numbers& want, const std::string& what);

// Returns all outputs of the model. `inputs` gives the elements of its first inputs; the elements of the other inputs
// are 0. If the model is refused, the test fails and all outputs are empty.
std::vector<reference::Tensor> Outputs(const ModelMaker& model, const std::vector<Numbers>& inputs,
                                       const ImportOptions& options = {});

// Returns the elements of the first output.
Numbers Output(const ModelMaker& model, const std::vector<Numbers>& inputs, const ImportOptions& options = {});

}  // namespace autotune
