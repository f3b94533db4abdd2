#include "service/step_spread.h"

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

bool IsFloat(const Tensor& tensor) { return tensor.dtype().code == kDLFloat || tensor.dtype().code == kDLBfloat; }

}  // namespace

StepSpread::StepSpread(const Tensor& actual)
    : actual_(actual), numbers_(NumbersOf(actual)), squares_(numbers_.size(), 0) {}

void StepSpread::Add(const Tensor& moved) {
  const std::vector<double> numbers = NumbersOf(moved);
  CHECK(numbers.size() == numbers_.size()) << "another output";
  ++samples_;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double difference = numbers[i] - numbers_[i];
    if (std::isfinite(difference)) squares_[i] += difference * difference;
  }
}

Result<StepSpread::Judgement> StepSpread::Judge(const Tensor& expected, const Tolerance& tolerance) const {
  const std::vector<double> wanted = NumbersOf(expected);
  if (actual_.shape() != expected.shape())
    return Err("cannot compare ", actual_.TypeText(), " with ", expected.TypeText());
  std::vector<double> spreads, bounds;
  for (const double square : squares_) {
    spreads.push_back(std::sqrt(square / static_cast<double>(samples_)));
    bounds.push_back(kMostSpreads * spreads.back());
  }
  // Integers have no tolerance but these bounds. As numbers of f64 they take the comparison of floats.
  const std::vector<int64_t>& shape = actual_.shape();
  const Tensor allowed = OfDoubles(shape, bounds);
  Judgement made;
  made.comparison =
      IsFloat(actual_)
          ? TRY(CompareTensors(actual_, OfDoubles(shape, wanted), tolerance, &allowed))
          : TRY(CompareTensors(OfDoubles(shape, numbers_), OfDoubles(shape, wanted), {.rtol = 0, .atol = 0}, &allowed));
  double sum = 0, count = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double ratio = std::abs(numbers_[i] - wanted[i]) / spreads[i];
    if (spreads[i] > made.comparison.floor && std::isfinite(ratio)) sum += ratio * ratio, ++count;
  }
  made.typical = count > 0 ? std::sqrt(sum / count) : 0;
  made.ok = made.comparison.ok && made.typical <= kMostTypical;
  return made;
}

Tensor DrawStepFactors(int64_t steps, uint64_t seed) {
  constexpr double kRoundoff = 0x1p-24;
  Rng rng(seed);
  std::vector<float> factors;
  for (int64_t i = 0; i < steps; ++i)
    factors.push_back(static_cast<float>(1 + (2 * rng.Uniform() - 1) * kMostStepRoundoffs * kRoundoff));
  return Tensor::FromBytes({steps}, {kDLFloat, 32, 1},
                           {reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float)})
      .value();
}

}  // namespace autotune
