#include "tools/autotune/verify_steps.h"

#include "graph/step_factors.h"
#include "tools/autotune/text.h"

namespace autotune::tools {

Result<std::optional<std::vector<StepSpread>>> StepTwin::Spreads(const Inputs& inputs,
                                                                 const std::vector<Tensor>& outputs) {
  if (!model_) model_ = make_();
  if (!model_->ok()) return std::optional<std::vector<StepSpread>>();
  const RunnableModel& model = **model_;
  const int64_t factors = TRY(model.InputIndex(std::string(graph::kStepFactors)));
  const int64_t steps = model.info().inputs[static_cast<size_t>(factors)].shape[0];
  for (const auto& [index, tensor] : inputs) TRY(model.SetInput(index, tensor));
  std::vector<StepSpread> spreads(outputs.begin(), outputs.end());
  for (int sample = 0; sample < kStepSamples; ++sample) {
    TRY(model.SetInput(factors, DrawStepFactors(steps, static_cast<uint64_t>(sample))));
    TRY(model.RunOnce());
    for (size_t i = 0; i < spreads.size(); ++i) spreads[i].Add(TRY(model.Output(static_cast<int64_t>(i))));
  }
  return std::optional(std::move(spreads));
}

std::string TextOf(const StepSpread::Judgement& judgement, int64_t differing) {
  const Comparison& found = judgement.comparison;
  if (!found.ok) return found.Text() + ", beyond what other roundings before its steps change";
  const std::string many = judgement.typical > 0 ? Format(", %.2g times as much as", judgement.typical) : ", as";
  return Format("%d of %d elements differ", differing, found.elements) + many +
         " other roundings before the network's steps change them" +
         (judgement.ok ? "" : Format("; %g times is allowed", StepSpread::kMostTypical));
}

}  // namespace autotune::tools
