#include "tools/autotune/verify_steps.h"

#include "tools/autotune/text.h"

namespace autotune::tools {

Result<bool> StepTwin::AddSamples(const Inputs& inputs, std::vector<StepSpread>& spreads) {
  if (!model_) model_ = make_();
  if (!model_->ok()) return model_->error();
  const RunnableModel& model = **model_;
  const std::vector<TensorSpec>& specs = model.info().inputs;
  if (specs.size() == inputs.size()) return false;
  for (const auto& [index, tensor] : inputs) TRY(model.SetInput(index, tensor));
  for (int sample = 0; sample < kStepSamples; ++sample) {
    const Tensor moves = DrawStepMoves(specs.back().shape[0], static_cast<uint64_t>(sample));
    TRY(model.SetInput(static_cast<int64_t>(specs.size()) - 1, moves));
    TRY(model.RunOnce());
    for (size_t i = 0; i < spreads.size(); ++i) spreads[i].Add(TRY(model.Output(static_cast<int64_t>(i))));
  }
  return true;
}

std::string TextOf(const StepSpread::Judgement& judgement, int64_t differing) {
  const Comparison& found = judgement.comparison;
  if (judgement.share > StepSpread::kMostShare)
    return found.Text() + Format("; other roundings before the network's steps change %.0f %% of it, too much to judge",
                                 100 * judgement.share);
  if (!found.ok) return found.Text() + ", beyond what other roundings before the network's steps change";
  return Format(
             "%d of %d elements differ, %.2g times as much as other roundings before the network's steps change "
             "them, which is %.2g %%",
             differing, found.elements, judgement.times, 100 * judgement.share) +
         (judgement.ok ? "" : Format("; %g times is allowed", StepSpread::kMostTimes));
}

}  // namespace autotune::tools
