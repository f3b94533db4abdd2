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
    if (!std::isfinite(difference)) continue;
    squares_[i] += difference * difference;
    largest_ = std::max(largest_, std::abs(difference) / units_[i]);
  }
}

void StepSpread::AllowRare(double most, std::vector<double>& bounds) const {
  const double floor = IsFloat(actual_) ? CompareTensors(actual_, expected_, tolerance_).value().floor : 0;
  std::vector<size_t> rare;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const double difference = std::abs(wanted_[i] - numbers_[i]);
    const double allowed = bounds[i] + floor + tolerance_.rtol * std::abs(wanted_[i]);
    if (bounds[i] > 0 && difference > allowed && difference <= largest_ * units_[i]) rare.push_back(i);
  }
  if (static_cast<double>(rare.size()) > most) return;
  for (const size_t i : rare) bounds[i] = largest_ * units_[i];
}

StepSpread::Judgement StepSpread::Judge() const {
  constexpr int kMostBits = 16;  // of integers that are numbers, not places
  const std::vector<int64_t>& shape = actual_.shape();
  std::vector<double> bounds, spreads, magnitudes;  // the latter two: of elements that steps move
  for (size_t i = 0; i < squares_.size(); ++i) {
    const double spread = std::sqrt(squares_[i] / static_cast<double>(std::max<int64_t>(1, samples_)));
    bounds.push_back(kMostSpreads * spread);
    if (spread > 0) spreads.push_back(spread), magnitudes.push_back(std::abs(numbers_[i]));
  }
  AllowRare(static_cast<double>(spreads.size()) * kMostRare, bounds);
  Judgement made;
  if (!IsFloat(actual_) && actual_.dtype().bits > kMostBits) {
    made.comparison = CompareTensors(actual_, expected_, tolerance_).value();
  } else {
    // As numbers of f64, integers take the comparison of floats, and have no tolerance but these bounds.
    const Tensor allowed = OfDoubles(shape, bounds), actual = IsFloat(actual_) ? actual_ : OfDoubles(shape, numbers_);
    made.comparison = CompareTensors(actual, OfDoubles(shape, wanted_), tolerance_, &allowed).value();
  }
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
