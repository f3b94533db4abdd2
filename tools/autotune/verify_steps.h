// The second opinion of `autotune verify`, on networks whose numbers are rounded to whole ones. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "service/step_spread.h"
#include "tools/autotune/runnable_model.h"

namespace autotune::tools {

// A network with step factors (graph/step_factors.h), made when it is needed.
class StepTwin {
 public:
  using Inputs = std::vector<std::pair<int64_t, Tensor>>;  // index of the input, tensor

  // `make` compiles the network; an error: it has no steps, or cannot be compiled.
  explicit StepTwin(std::function<Result<RunnableModel>()> make) : make_(std::move(make)) {}

  // Returns how far step factors move each of the outputs, which the network without them computes; nothing if there is
  // no network with step factors.
  Result<std::optional<std::vector<StepSpread>>> Spreads(const Inputs& inputs, const std::vector<Tensor>& outputs);

 private:
  const std::function<Result<RunnableModel>()> make_;
  std::optional<Result<RunnableModel>> model_;
};

// Says how a judged output differs.
std::string TextOf(const StepSpread::Judgement& judgement, int64_t differing);

}  // namespace autotune::tools
