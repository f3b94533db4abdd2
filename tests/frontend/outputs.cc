#include "tests/frontend/outputs.h"

namespace autotune {

std::vector<reference::Tensor> Outputs(const ModelMaker& model, const std::vector<Numbers>& inputs,
                                       const ImportOptions& options) {
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

Numbers Output(const ModelMaker& model, const std::vector<Numbers>& inputs, const ImportOptions& options) {
  return Outputs(model, inputs, options)[0].data;
}

}  // namespace autotune
