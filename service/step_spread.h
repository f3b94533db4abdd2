// Judges an output of a network whose numbers are rounded to whole ones (graph/step_moves.h). Not thread-safe.
#pragma once
#include <vector>

#include "runtime/compare.h"
#include "runtime/tensor.h"

namespace autotune {

// How far the numbers of one output differ if the numbers before the network's steps move.
class StepSpread {
 public:
  // `actual`: what the network computes. CompareTensors can compare both tensors (CHECK).
  StepSpread(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance);

  // Adds a sample: the same output with step moves.
  void Add(const Tensor& moved);

  struct Judgement {
    Comparison comparison;  // with the bounds of steps
    // How much expected values differ, and the samples as well, from what the network computes: the root mean square of
    // the differences, as multiples of what the tolerance allows at each element. `times` is the ratio of the former to
    // the largest sample; up to about 1 if nothing but other rounding errors before the steps makes the difference.
    double times = 0;
    double share = 0;  // norm of the samples' differences, as a share of the output's norm
    bool ok = false;
  };
  // Compares the output with the expected values. It is right if
  //   - each element differs by what the tolerance allows and kMostSpreads times its spread, the root mean square of
  //     the samples' differences there;
  //   - all of them together differ by no more than kMostTimes the largest sample;
  //   - the samples' differences are no more than kMostShare of the output. Otherwise nothing can be said.
  // Integers of more than 16 bits count places, so steps excuse none.
  Judgement Judge() const;

  // The largest of a million normal numbers is 5 times the typical one, and 16 samples tell a spread up to a factor of
  // 1.5. Another network may have larger rounding errors before its steps than the samples have [chosen]; quantized
  // ResNet-50, MobileNet-V2 and BERT differ from ONNX Runtime's by 0.5 to 1.0 times the largest sample.
  static constexpr double kMostSpreads = 8, kMostTimes = 1.5, kMostShare = 0.3;

 private:
  // Returns the root mean square of the differences as multiples of what the tolerance allows.
  double SizeOf(const std::vector<double>& other) const;

  const Tensor actual_, expected_;
  const Tolerance tolerance_;
  std::vector<double> numbers_, wanted_, allowed_, squares_;  // squares_: sums over samples
  double largest_ = 0;
  int64_t samples_ = 0;
};

// Samples, and the largest step moves: what computes the numbers before a step has a few operations after exact sums of
// integers [chosen].
inline constexpr int kStepSamples = 16;
inline constexpr double kLargestMove = 8;
// Returns `steps` numbers between -kLargestMove and kLargestMove.
Tensor DrawStepMoves(int64_t steps, uint64_t seed);

}  // namespace autotune
