// The error of a network against another one, over samples and outputs.
#include "service/network_error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace autotune {
namespace {

Tensor Floats(std::vector<int64_t> shape, const std::vector<float>& numbers) {
  Tensor tensor = Tensor::Empty(std::move(shape), "f32").value();
  std::ranges::copy(numbers, tensor.Data<float>());
  return tensor;
}

TEST(NetworkError, IsThatOfTheWorstOutputOverAllSamples) {
  ErrorSums sums({"a", "b"});
  sums.Add(0, Floats({2}, {3, 4}), Floats({2}, {3, 4.5f}));
  sums.Add(1, Floats({1}, {10}), Floats({1}, {11}));
  sums.Add(0, Floats({2}, {0, 1}), Floats({2}, {0, 0}));  // of other sizes: squares add up before they are divided
  sums.Add(1, Floats({1}, {100}), Floats({1}, {100}));
  const NetworkError total = sums.Total();
  EXPECT_EQ(total.output, "a");
  EXPECT_NEAR(total.error, std::sqrt((0.25 + 1) / (9 + 20.25)), 1e-6);
}

TEST(NetworkError, WithoutExactNumbersIsAbsolute) {
  ErrorSums sums({"zero"});
  sums.Add(0, Floats({2}, {3, 4}), Floats({2}, {0, 0}));
  EXPECT_NEAR(sums.Total().error, 5, 1e-6);
}

TEST(NetworkError, NoNumberIsTheWorst) {
  ErrorSums sums({"a", "b"});
  sums.Add(0, Floats({1}, {NAN}), Floats({1}, {1}));
  sums.Add(1, Floats({1}, {9}), Floats({1}, {1}));
  EXPECT_EQ(sums.Total().output, "a");
  EXPECT_TRUE(std::isnan(sums.Total().error));
}

TEST(NetworkError, AgreementCountsRowsThatTellTheirLargestNumber) {
  ErrorSums sums({"classes", "other"});
  // The first row agrees; the second one does not; the third one hardly tells two numbers apart; the last one is flat.
  sums.Add(0, Floats({4, 3}, {0, 5, 1, 9, 0, 8, 0, 1000, 999, 2, 1, 1}),
           Floats({4, 3}, {0, 6, 1, 8, 0, 9, 0, 999, 1000, 1, 1, 1}));
  sums.Add(1, Floats({1, 2}, {1, 0}), Floats({1, 2}, {0, 1}));  // only the first output counts
  const NetworkError total = sums.Total();
  EXPECT_EQ(total.judged, 2);
  EXPECT_EQ(total.same, 1);
  EXPECT_EQ(total.Agreement(), 0.5);
}

}  // namespace
}  // namespace autotune
