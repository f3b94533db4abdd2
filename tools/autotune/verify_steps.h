// The second opinion of `autotune verify`, on networks whose numbers are rounded to whole ones. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "service/step_spread.h"
#include "tools/autotune/runnable_model.h"

namespace autotune::tools {

// A network with step moves (graph/step_moves.h), made when it is needed.
class StepTwin {
 public:
  using Inputs = std::vector<std::pair<int64_t, Tensor>>;  // index of the input, tensor

  explicit StepTwin(std::function<Result<RunnableModel>()> make) : make_(std::move(make)) {}

  // Adds samples of all outputs to their spreads. Returns false if the network has no steps. Errors: those of `make`,
  // and of runs.
  Result<bool> AddSamples(const Inputs& inputs, std::vector<StepSpread>& spreads);

 private:
  const std::function<Result<RunnableModel>()> make_;
  std::optional<Result<RunnableModel>> model_;
};

// Says how a judged output differs. `differing`: elements that differ by more than the tolerance.
std::string TextOf(const StepSpread::Judgement& judgement, int64_t differing);

}  // namespace autotune::tools
