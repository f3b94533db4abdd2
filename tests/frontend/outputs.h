// Imports a model of a test and computes its outputs naively. Stateless; header-only, for tests.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "frontend/onnx/import.h"
#include "tests/frontend/model_maker.h"
#include "tests/graph/reference.h"

namespace autotune {

using Numbers = std::vector<double>;

// All outputs of the model, whose first inputs have the given elements; the elements of the others are 0. If the model
// is refused, the test fails and all outputs are empty.
inline std::vector<reference::Tensor> Outputs(const ModelMaker& model, const std::vector<Numbers>& inputs,
                                              const ImportOptions& options = {}) {
  constexpr size_t kMostOutputs = 9;
  Result<ImportedModel> imported = Import(model, options);
  if (!imported.ok()) {
    ADD_FAILURE() << imported.error().Text();
    return std::vector<reference::Tensor>(kMostOutputs);
  }
  const graph::Graph& g = imported->module.main();
  std::vector<reference::Tensor> in;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const graph::TensorSpec& spec = g.Spec(g.inputs[i]);
    in.push_back({spec.shape, i < inputs.size() ? inputs[i] : Numbers(spec.NumElements()), spec.dtype});
  }
  return reference::Evaluate(g, in);
}

// The elements of the first output.
inline Numbers Output(const ModelMaker& model, const std::vector<Numbers>& inputs, const ImportOptions& options = {}) {
  return Outputs(model, inputs, options)[0].data;
}

}  // namespace autotune
