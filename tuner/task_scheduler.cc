#include "tuner/task_scheduler.h"

#include <algorithm>

#include "ir/arithmetic.h"
#include "topi/alternatives.h"

namespace autotune {
namespace {

constexpr double kNoise = 1.03;        // ratio of two measurements that noise explains
constexpr double kUnknownRate = 1e10;  // operations or bytes per second; any value gives the same ranking of tasks
// F(4x4, 3x3), the largest algorithm of topi/winograd.h, needs 36 multiplications instead of the direct sum's 144.
constexpr double kWinogradSaving = 4;

// The least of k draws from a bounded distribution approaches the bound like 1 / k. So the prior expects k attempts to
// shorten a task by the share kPriorGain * k / (kPriorTrials + k), which is a tenth for 16 attempts. The expected gain
// of the next attempt is the derivative of this share.
constexpr double kPriorGain = 0.2;
constexpr double kPriorTrials = 16;

}  // namespace

double FewestOperations(const TuneTask& task, const TaskAlternative& alternative) {
  if (alternative.name == "skip_padding") return 0;  // the share of the padding is not known here
  return topi::IsWinograd(alternative.name) ? task.flops / kWinogradSaving : task.flops;
}

double BelievedPeak(double measured, double reached) { return reached <= kNoise * measured ? measured : 0; }

double RooflineSeconds(const TuneTask& task, double peak_flops) {
  if (task.small_products) return 0;
  double operations = task.flops;
  for (const TaskAlternative& alternative : task.alternatives)
    operations = std::min(operations, FewestOperations(task, alternative));
  return peak_flops > 0 ? operations / peak_flops : 0;
}

double EstimatedSeconds(const TuneTask& task, double rate) {
  if (rate <= 0) rate = kUnknownRate;
  return std::max(task.flops, static_cast<double>(BytesOfParams(task.alternatives[0].func))) / rate;
}

bool IsAtRoofline(const TaskProgress& progress) {
  return progress.bound > 0 && progress.seconds <= kNoise * progress.bound;
}

double ExpectedGain(const TaskProgress& progress, int weight, int under_way) {
  double attempts = kPriorTrials + progress.attempts + under_way;
  double prior = kPriorGain * kPriorTrials / (attempts * attempts);  // per trial
  double rate = (prior * kPriorTrials + progress.improvement) / (kPriorTrials + progress.recent + under_way);
  return weight * std::max(0.0, progress.seconds - progress.bound) * rate;
}

}  // namespace autotune
