// Mutator: ONNX models made from valid ones by a few random changes, as an exporter with a bug or a careless edit makes
// them: an attribute, a type, a shape, an operator or an edge changed. Most stay well-formed protobuf, so unlike random
// bytes they get past the parser. For tests. Deterministic: all randomness comes from the Rng.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "support/rng.h"

namespace autotune {

struct Mutant {
  std::string bytes;  // of the model
  std::string what;   // the changes, one line: "Conv.strides = [0,1]; input x: f64"
};

// Applies 1 to 3 changes. `model` must be an ONNX model with a node (CHECK).
Mutant Mutate(std::string_view model, Rng& rng);

// Whether these bytes are a model that Mutate takes.
bool IsModel(std::string_view bytes);

}  // namespace autotune
