// For tests: makes ONNX models from valid ones by a few random changes, as a buggy exporter or a careless edit would.
// The changes concern attributes, types, shapes, operators and edges. Mutants are well-formed protobuf, so the parser
// accepts them, unlike random bytes. Deterministic: all randomness comes from the Rng.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "support/rng.h"

namespace autotune {

struct Mutant {
  std::string bytes;  // the serialized model
  std::string what;   // the changes in one line, as in "Conv.strides = [0,1]; without Relu"
};

// Applies 1 to 3 changes. `model` must be an ONNX model with a node (CHECK).
Mutant Mutate(std::string_view model, Rng& rng);

// Returns whether Mutate accepts these bytes.
bool IsModel(std::string_view bytes);

}  // namespace autotune
