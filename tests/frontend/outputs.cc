#include "tests/frontend/outputs.h"

#include <cmath>
#include <random>

namespace autotune {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Numbers RandomNumbers(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<double>(static_cast<int>(rng() % 17) - 8) / 8);
  return out;
}

void ExpectNear(const Numbers& got, const Numbers& want, const std::string& what) {
  EXPECT_THAT(got, Near(want)) << what;
}

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
