#include "service/step_spread.h"

#include <algorithm>
#include <cmath>

#include "service/tensor_numbers.h"
#include "support/check.h"
#include "support/rng.h"

namespace autotune {
namespace {

Tensor OfDoubles(const std::vector<int64_t>& shape, const std::vector<double>& numbers) {
  return Tensor::FromBytes(shape, {kDLFloat, 64, 1},
                           {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)})
      .value();
}

double MedianOf(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

bool IsFloat(const Tensor& tensor) { return tensor.dtype().code == kDLFloat || tensor.dtype().code == kDLBfloat; }

}  // namespace

StepSpread::StepSpread(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance)
    : actual_(actual),
      expected_(expected),
      tolerance_(IsFloat(actual) ? tolerance : Tolerance{.rtol = 0, .atol = 0}),
      numbers_(NumbersOf(actual)),
      wanted_(NumbersOf(expected)),
      squares_(numbers_.size(), 0) {
  const Tolerance usual;
  const Comparison plain = CompareTensors(actual_, expected_, usual).value();
  for (const double b : wanted_) units_.push_back(IsFloat(actual_) ? plain.floor + usual.rtol * std::abs(b) : 1);
}

double StepSpread::DistanceOf(const std::vector<double>& other) const {
  double sum = 0;
  for (size_t i = 0; i < other.size(); ++i) {
    const double ratio = (other[i] - numbers_[i]) / units_[i];
    if (std::isfinite(ratio)) sum += ratio * ratio;
  }
  return std::sqrt(sum / static_cast<double>(std::max<size_t>(1, other.size())));
}

void StepSpread::Add(const Tensor& moved) {
  const std::vector<double> numbers = NumbersOf(moved);
  CHECK(numbers.size() == numbers_.size()) << "another output";
  ++samples_;
  farthest_ = std::max(farthest_, DistanceOf(numbers));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double difference = numbers[i] - numbers_[i];
    if (std::isfinite(difference)) squares_[i] += difference * difference;
  }
}

Comparison StepSpread::CompareWithin(double spreads) const {
  constexpr int kMostBits = 16;  // of integers that are numbers, not places
  if (!IsFloat(actual_) && actual_.dtype().bits > kMostBits)
    return CompareTensors(actual_, expected_, tolerance_).value();
  // As numbers of f64, integers take the comparison of floats, and have no tolerance but these bounds.
  const std::vector<int64_t>& shape = actual_.shape();
  std::vector<double> bounds;
  for (size_t i = 0; i < squares_.size(); ++i) bounds.push_back(spreads * SpreadAt(i));
  const Tensor allowed = OfDoubles(shape, bounds), actual = IsFloat(actual_) ? actual_ : OfDoubles(shape, numbers_);
  return CompareTensors(actual, OfDoubles(shape, wanted_), tolerance_, &allowed).value();
}

double StepSpread::SpreadAt(size_t i) const {
  return std::sqrt(squares_[i] / static_cast<double>(std::max<int64_t>(1, samples_)));
}

StepSpread::Judgement StepSpread::Judge() const {
  std::vector<double> spreads, magnitudes;  // of elements that steps move
  for (size_t i = 0; i < squares_.size(); ++i)
    if (squares_[i] > 0) spreads.push_back(SpreadAt(i)), magnitudes.push_back(std::abs(numbers_[i]));
  Judgement made;
  made.comparison = CompareWithin(kMostSpreads);
  const bool are_rare =
      static_cast<double>(made.comparison.mismatches) <= kMostRare * static_cast<double>(spreads.size());
  if (!made.comparison.ok && are_rare) made.comparison = CompareWithin(kRareSpreads);
  made.times = farthest_ > 0 ? DistanceOf(wanted_) / farthest_ : 0;
  made.share = spreads.empty() ? 0 : MedianOf(spreads) / MedianOf(magnitudes);
  made.ok = made.comparison.ok && made.times <= kMostTimes && made.share <= kMostShare;
  return made;
}

Tensor DrawStepMoves(int64_t steps, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> moves;
  for (int64_t i = 0; i < steps; ++i) moves.push_back(static_cast<float>((2 * rng.Uniform() - 1) * kLargestMove));
  return Tensor::FromBytes({steps}, {kDLFloat, 32, 1},
                           {reinterpret_cast<const char*>(moves.data()), moves.size() * sizeof(float)})
      .value();
}

}  // namespace autotune
