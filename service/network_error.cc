#include "service/network_error.h"

#include <algorithm>
#include <cmath>

#include "service/tensor_numbers.h"

namespace autotune {
void ErrorSums::Add(int64_t i, const Tensor& got, const Tensor& want) {
  const std::vector<double> y = NumbersOf(got), exact = NumbersOf(want);
  Squares& sums = sums_[static_cast<size_t>(i)];
  for (size_t e = 0; e < exact.size(); ++e) {
    sums.exact += exact[e] * exact[e];
    sums.difference += (y[e] - exact[e]) * (y[e] - exact[e]);
  }
  if (i == 0 && !want.shape().empty()) AddRows(y, exact, want.shape().back());
}

void ErrorSums::AddRows(const std::vector<double>& got, const std::vector<double>& want, int64_t columns) {
  constexpr double kQuanta = 255;  // of 8 bits
  if (columns < 2) return;
  for (auto row = want.begin(); row != want.end(); row += columns) {
    const auto end = row + columns, largest = std::max_element(row, end);
    const double least = *std::min_element(row, end);
    double second = least;
    for (auto x = row; x != end; ++x)
      if (x != largest) second = std::max(second, *x);
    if (!(*largest - second > (*largest - least) / kQuanta)) continue;
    const auto got_row = got.begin() + (row - want.begin());
    ++judged_;
    same_ += std::max_element(got_row, got_row + columns) - got_row == largest - row;
  }
}

NetworkError ErrorSums::Total() const {
  NetworkError worst{.error = -1, .judged = judged_, .same = same_};
  for (size_t i = 0; i < sums_.size(); ++i) {
    const double error = std::sqrt(sums_[i].exact > 0 ? sums_[i].difference / sums_[i].exact : sums_[i].difference);
    if (!(error <= worst.error)) worst.error = error, worst.output = names_[i];
    if (std::isnan(error)) break;  // nothing is worse
  }
  return worst;
}

}  // namespace autotune
