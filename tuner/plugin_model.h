// A cost model whose scores a process computes (tuner/plugin.h). The process gets every sample once, and answers
// requests with one score for each candidate. A number of scores that does not fit or a score that is no number is an
// error, which ends the run. If an answer comes too late, the model of MakeXgboostModel, which learns from the same
// samples, scores that request.
#pragma once
#include <memory>

#include "costmodel/cost_model.h"
#include "tuner/plugin.h"

namespace autotune {

// `plugin` must have the role "cost model".
std::unique_ptr<CostModel> MakePluginModel(std::shared_ptr<Plugin> plugin, uint64_t seed);

}  // namespace autotune
