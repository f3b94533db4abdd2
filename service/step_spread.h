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
    // How far the expected values are from the actual ones, as a multiple of how far the farthest sample is. About 1 or
    // less if nothing but other rounding errors before the steps makes the difference. Each element's difference counts
    // in units of what the default tolerance allows there.
    double times = 0;
    // The median spread of the elements that steps move, as a share of the median magnitude of these elements. So large
    // elements do not make the spreads of others look small.
    double share = 0;
    bool ok = false;
  };
  // Compares the output with the expected values. It is right if
  //   - each element differs by what the tolerance allows and kMostSpreads times its spread, the root mean square of
  //     the samples' differences there. The samples miss rare steps. So some elements may differ by kRareSpreads times
  //     their spread: at most kMostRare of the elements that steps move;
  //   - all of them together differ by no more than kMostTimes the largest sample;
  //   - `share` is at most kMostShare. Otherwise nothing can be said.
  // Integers of more than 16 bits count places, so steps excuse none.
  Judgement Judge() const;

  // The largest of a million normal numbers is 5 times the typical one, and 16 samples tell a spread up to a factor of
  // 1.5. Another network may have larger rounding errors before its steps than the samples have [chosen]; quantized
  // ResNet-50, MobileNet-V2 and BERT differ from ONNX Runtime's by 0.4 to 0.9 times the farthest sample.
  static constexpr double kMostSpreads = 8, kMostTimes = 1.5, kMostShare = 0.3;
  // [chosen; in BERT with dynamic quantization, compiled for SSE, 0.023 % of the elements need up to 15.4 spreads]
  static constexpr double kMostRare = 1.0 / 1024, kRareSpreads = 32;

 private:
  // Returns the root mean square of the differences from the actual values, in `units_`.
  double DistanceOf(const std::vector<double>& other) const;

  // Returns the root mean square of the samples' differences at element i.
  double SpreadAt(size_t i) const;
  // Compares the output with the expected values. Each element may also differ by so many times its spread.
  Comparison CompareWithin(double spreads) const;

  const Tensor actual_, expected_;
  const Tolerance tolerance_;
  std::vector<double> numbers_, wanted_, units_, squares_;  // squares_: sums over samples
  double farthest_ = 0;
  int64_t samples_ = 0;
};

// Samples, and the largest step moves: what computes the numbers before a step has a few operations after exact sums of
// integers [chosen].
inline constexpr int kStepSamples = 16;
inline constexpr double kLargestMove = 8;
// Returns `steps` numbers between -kLargestMove and kLargestMove.
Tensor DrawStepMoves(int64_t steps, uint64_t seed);

}  // namespace autotune
