// Judges an output of a network whose numbers are rounded to whole ones (graph/step_factors.h). Not thread-safe.
#pragma once
#include <vector>

#include "runtime/compare.h"
#include "runtime/tensor.h"

namespace autotune {

// How far step factors move each element of one output.
class StepSpread {
 public:
  explicit StepSpread(const Tensor& actual);  // what the network computes

  // Adds the same output of the network with step factors.
  void Add(const Tensor& moved);

  struct Judgement {
    Comparison comparison;  // with the bounds of steps
    // Root mean square of |actual - expected| / spread, over the elements that steps move beyond the tolerance; 0:
    // there are none. About 1 if nothing but other rounding errors before the steps makes the difference.
    double typical = 0;
    bool ok = false;
  };
  // Compares the output with expected values. An element may differ by what `tolerance` allows and kMostSpreads times
  // its spread, and `typical` must not exceed kMostTypical. Errors: those of CompareTensors.
  Result<Judgement> Judge(const Tensor& expected, const Tolerance& tolerance) const;

  // Differences between two right networks are as large as the spreads. Single ones exceed them: of a million normal
  // numbers, the largest is about 5 times the typical one, and 16 samples tell a spread up to a factor of 2. The other
  // network may have larger rounding errors before its steps, so more of its numbers take the other way [chosen].
  static constexpr double kMostSpreads = 10, kMostTypical = 3;

 private:
  Tensor actual_;
  std::vector<double> numbers_, squares_;
  int64_t samples_ = 0;
};

// Samples of step factors. They move numbers by up to so many units of roundoff of f32: what computes them has a few
// operations of f32 after exact sums of integers [chosen].
inline constexpr int kStepSamples = 16;
inline constexpr double kMostStepRoundoffs = 8;
Tensor DrawStepFactors(int64_t steps, uint64_t seed);

}  // namespace autotune
