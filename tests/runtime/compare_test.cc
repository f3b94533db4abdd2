#include "runtime/compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "runtime/fill.h"
#include "support/hash.h"

namespace autotune {
namespace {

using testing::HasSubstr;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
Tensor Of(std::vector<T> values, std::string_view type) {
  return Tensor::FromBytes({static_cast<int64_t>(values.size())}, DataTypeFromText(type).value(),
                           {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)})
      .value();
}
Comparison Compare(std::vector<float> a, std::vector<float> b, Tolerance tolerance = {}) {
  return CompareTensors(Of(a, "f32"), Of(b, "f32"), tolerance).value();
}

TEST(Compare, Tolerances) {
  EXPECT_TRUE(Compare({1, 2, 3}, {1, 2, 3}, {0, 0}).ok);
  EXPECT_FALSE(Compare({1, 2, 3.0001f}, {1, 2, 3}, {0, 0}).ok);
  EXPECT_TRUE(Compare({1.009f, 100}, {1, 100}, {.rtol = 0.01, .atol = 0}).ok);
  EXPECT_FALSE(Compare({1.011f, 100}, {1, 100}, {.rtol = 0.01, .atol = 0}).ok);
  // The floor is 0.01 times the lower quartile of 2, 4, 100, 100 and 100, which is 4.
  EXPECT_TRUE(Compare({0.039f, 2, 4, 100, 100, 100}, {0, 2, -4, 100, 100, 100}, {.rtol = 2, .atol = 0.01}).ok);
  EXPECT_FALSE(Compare({0.041f, 2, 4, 100, 100, 100}, {0, 2, -4, 100, 100, 100}, {.rtol = 2, .atol = 0.01}).ok);
}

TEST(Compare, FloorFollowsSmallValues) {
  auto small = [](std::vector<float> values) { return SmallMagnitude(Of(values, "f32")); };
  EXPECT_EQ(small({3, -2, 1, 4}), 2);
  EXPECT_EQ(small({1e9f, 0.5f}), 0.5);
  EXPECT_EQ(small({1e9f, 0.5f, 0.25f, kInf, kNan, 0, 0, 0}), 0.25);
  EXPECT_EQ(small({-7}), 7);
  for (const auto& none : {std::vector<float>{}, {0, 0}, {kInf, kNan, 0}}) EXPECT_EQ(small(none), kMagnitudeOfZeros);
  EXPECT_EQ(SmallMagnitude(Of<uint16_t>({0x3c00, 0xc000}, "f16")), 1);
  EXPECT_EQ(SmallMagnitude(Of<double>({1e-300, 1}, "f64")), 1e-300);
  // Where all expected values are 0, tiny results count as 0.
  EXPECT_TRUE(Compare({9e-8f, 0}, {0, 0}).ok);
  EXPECT_FALSE(Compare({1.1e-7f, 0}, {0, 0}).ok);
}

// An error of ten times the allowance is found, whatever else is in the tensor.
TEST(Compare, LargeValuesHideNoError) {
  Tensor t = Tensor::Zeros({1000}, "f32").value();
  FillRandom(t, 5, FillKind::kNormal);
  std::span<float> numbers = {t.Data<float>(), 1000};
  for (float large : {1.0f, 1e9f, -1e30f, kInf}) {
    for (int count : {1, 100, 700, 950}) {
      std::fill_n(numbers.begin(), count, large);
      const Tolerance tolerance;
      const double floor = tolerance.atol * SmallMagnitude(t);
      EXPECT_LT(floor, 1e-2) << large << " " << count;
      for (size_t at : {size_t{950}, size_t{999}}) {
        Tensor right = t.Copy().value(), wrong = t.Copy().value();
        const double allowed = tolerance.rtol * std::fabs(numbers[at]) + floor;
        right.Data<float>()[at] += static_cast<float>(0.9 * allowed);
        wrong.Data<float>()[at] += static_cast<float>(10 * allowed);
        EXPECT_TRUE(CompareTensors(right, t)->ok) << large << " " << count << " " << at;
        const Comparison found = CompareTensors(wrong, t).value();
        EXPECT_EQ(found.mismatches, 1) << large << " " << count << " " << at;
        EXPECT_EQ(found.worst_index, at);
        EXPECT_NEAR(found.worst_ratio, 10, 0.01);
      }
    }
  }
}

// Zeros instead of denormal numbers are right, also where most numbers are that small; twice the least normal number is
// not, and a tolerance of 0 allows none.
TEST(Compare, DenormalsMayBeZeros) {
  const std::vector<float> tiny = {1e-40f, -3e-39f, 0, 1}, zeros = {0, 0, 0, 1};
  EXPECT_TRUE(Compare(zeros, tiny).ok);
  EXPECT_FALSE(CompareTensors(Of(zeros, "f32"), Of(tiny, "f32"), {0, 0})->ok);
  EXPECT_FALSE(Compare({0, 0, 0, 1}, {1e-40f, -2.4e-38f, 0, 1}).ok);
  EXPECT_TRUE(CompareTensors(Of<double>({0, 1}, "f64"), Of<double>({1e-310, 1}, "f64"))->ok);
  EXPECT_FALSE(CompareTensors(Of<double>({0, 1}, "f64"), Of<double>({1e-40, 1}, "f64"))->ok);
  EXPECT_TRUE(CompareTensors(Of<float>({0, 1}, "f32"), Of<double>({1e-40, 1}, "f64"))->ok);
}

TEST(Compare, ReportsTheWorst) {
  Comparison c = Compare({1, 5, 3, 9}, {1, 2, 3, 4});
  EXPECT_FALSE(c.ok);
  EXPECT_EQ(c.mismatches, 2);
  EXPECT_EQ(c.worst_index, 3);
  EXPECT_EQ(c.worst_actual, 9);
  EXPECT_EQ(c.worst_reference, 4);
  EXPECT_NEAR(c.worst_ratio, 5 / (1e-3 * 4 + 1e-3 * 2), 1e-9);
  EXPECT_THAT(c.Text(), HasSubstr("2 of 4 elements differ; worst at 3: 9, expected 4"));
}

TEST(Compare, NansAndInfinities) {
  EXPECT_TRUE(Compare({kNan, kInf, -kInf, 1}, {kNan, kInf, -kInf, 1}).ok);
  for (auto [a, b] : {std::pair{kNan, 1.0f}, {1.0f, kNan}, {kInf, 1.0f}, {1.0f, kInf}, {kInf, -kInf}, {kNan, kInf}}) {
    Comparison c = Compare({1, 1.5, a, 2}, {1, 1, b, 2});
    EXPECT_FALSE(c.ok) << a << " " << b;
    EXPECT_EQ(c.mismatches, 2) << a << " " << b;
    EXPECT_EQ(c.worst_index, 2) << a << " " << b;
  }
}

TEST(Compare, TypesAndShapes) {
  EXPECT_TRUE(CompareTensors(Of<float>({1, 2}, "f32"), Of<double>({1, 2}, "f64"))->ok);
  EXPECT_TRUE(CompareTensors(Of<int64_t>({1, 2}, "i64"), Of<int64_t>({1, 2}, "i64"))->ok);
  EXPECT_FALSE(CompareTensors(Of<int64_t>({1, 2000001}, "i64"), Of<int64_t>({1, 2000000}, "i64"))->ok);
  EXPECT_FALSE(CompareTensors(Of<float>({1, 2}, "f32"), Of<float>({1}, "f32")).ok());
  EXPECT_FALSE(CompareTensors(Of<float>({1, 2}, "f32"), Of<int32_t>({1, 2}, "i32")).ok());
  EXPECT_TRUE(Compare({}, {}).ok);
}

TEST(Compare, FloatsOf16Bits) {
  using Bits = std::vector<uint16_t>;
  auto compare = [](const char* type, const Bits& a, const Tensor& b, Tolerance tolerance = {0, 0}) {
    return CompareTensors(Of(a, type), b, tolerance).value();
  };
  // For a 16-bit float, a neighbour of the expected number is accepted, and the next number is not.
  EXPECT_TRUE(compare("f16", {0x3c00, 0x3c01}, Of<float>({1, 1}, "f32")).ok);
  EXPECT_FALSE(compare("f16", {0x3c02}, Of<float>({1}, "f32")).ok);
  EXPECT_TRUE(compare("bf16", {0x3f80, 0x3f81}, Of<float>({1, 1}, "f32")).ok);
  EXPECT_FALSE(compare("bf16", {0x3f82}, Of<double>({1}, "f64")).ok);
  EXPECT_TRUE(compare("f16", {0x7c00, 0xfc00, 0x7e00}, Of<float>({kInf, -kInf, kNan}, "f32")).ok);
  EXPECT_FALSE(compare("f16", {0x7c00}, Of<float>({65504}, "f32"), {1, 1}).ok);
  Comparison worst = compare("f16", {0x4000, 0x0001}, Of(Bits{0x3c00, 0x0001}, "f16"));
  EXPECT_EQ(worst.mismatches, 1);
  EXPECT_EQ(worst.worst_actual, 2);
  EXPECT_EQ(worst.worst_reference, 1);
  EXPECT_TRUE(CompareTensors(Of<float>({1, 2}, "f32"), Of(Bits{0x3c00, 0x4000}, "f16"), {0, 0})->ok);
  EXPECT_FALSE(CompareTensors(Of(Bits{1}, "f16"), Of(Bits{1}, "u16")).ok());
}

// Returns the sum of products, in which pairs of products saturate at 16 bits, as those of vpmaddubsw do, or do not.
int32_t SumOfPairs(const Tensor& a, const Tensor& b, bool saturate) {
  int32_t sum = 0;
  for (int64_t i = 0; i + 1 < a.num_elements(); i += 2) {
    const int32_t pair =
        a.Data<uint8_t>()[i] * b.Data<int8_t>()[i] + a.Data<uint8_t>()[i + 1] * b.Data<int8_t>()[i + 1];
    sum += saturate ? std::clamp(pair, -32768, 32767) : pair;
  }
  return sum;
}

TEST(Fill, TheWholeRangeShowsSaturation) {
  const Tensor a = Tensor::Zeros({512}, "u8").value(), b = Tensor::Zeros({512}, "i8").value();
  FillRandom(a, 1);
  FillRandom(b, 2);
  EXPECT_EQ(SumOfPairs(a, b, true), SumOfPairs(a, b, false));  // small numbers hide it
  FillWholeRange(a, 1);
  FillWholeRange(b, 2);
  EXPECT_NE(SumOfPairs(a, b, true), SumOfPairs(a, b, false));
}

TEST(Fill, WildNumbersAreFewAndOfEveryKind) {
  for (const bool infinite : {false, true}) {
    const Tensor x = Tensor::Zeros({32, 64}, "f32").value(), few = Tensor::Zeros({8}, "f32").value();
    FillRandom(x, 1, FillKind::kNormal);
    FillRandom(few, 1, FillKind::kNormal);
    AddWildNumbers(x, 1, infinite);
    AddWildNumbers(few, 1, infinite);
    int64_t masks = 0, outliers = 0, infinities = 0, nans = 0;
    for (const float v : std::span(x.Data<float>(), 2048)) {
      masks += v == -1e9F;
      outliers += std::fabs(v) >= 1e6F && std::fabs(v) <= 1e8F;
      infinities += std::isinf(v);
      nans += std::isnan(v);
    }
    EXPECT_GT(masks, 0);
    EXPECT_GT(outliers, 0);
    EXPECT_LT(8 * (masks + outliers + infinities + nans), 2048);
    EXPECT_EQ(infinities, infinite ? 2 : 0);
    EXPECT_EQ(nans, infinite ? 1 : 0);
    for (const float v : std::span(few.Data<float>(), 8)) EXPECT_LT(std::fabs(v), 4);
  }
}

TEST(Compare, BoundsAllowWhereTheyAre) {
  const Tensor expected = Of(std::vector<float>{1, 1, 1, 1, 1}, "f32"),
               actual = Of(std::vector<float>{1, 1.5F, 1, 1, 1}, "f32");
  auto matches = [&](std::vector<float> numbers) {
    const Tensor bounds = Of(numbers, "f32");
    return CompareTensors(actual, expected, {}, &bounds)->ok;
  };
  EXPECT_TRUE(matches({0, 0.6F, 0, 0, 0}));
  EXPECT_FALSE(matches({0.6F, 0, 0.6F, 0.6F, 0.6F}));
  EXPECT_FALSE(matches({0, INFINITY, 0, 0, 0}));  // an unknown error is not allowed
  const Tensor short_one = Of(std::vector<float>{1}, "f32");
  EXPECT_FALSE(CompareTensors(actual, expected, {}, &short_one).ok());
}

TEST(Fill, GoldenValues) {
  auto hash = [](const char* type, FillKind kind) {
    Tensor t = Tensor::Zeros({70001}, type).value();
    FillRandom(t, 42, kind);
    return Hash64(t.bytes());
  };
  // Stored results depend on the generated bytes, so these hashes must not change.
  EXPECT_EQ(hash("f32", FillKind::kUniform), 13904923648539282333u);
  EXPECT_EQ(hash("f32", FillKind::kNormal), 10328749105554045161u);
  EXPECT_EQ(hash("f64", FillKind::kUniform), 10477075317156452411u);
  EXPECT_EQ(hash("i64", FillKind::kUniform), 1605645707979250775u);
  EXPECT_EQ(hash("bool", FillKind::kUniform), 10679657284438816419u);
  EXPECT_EQ(hash("f16", FillKind::kUniform), 7851746349425775979u);
  EXPECT_NE(hash("f32", FillKind::kUniform), hash("f32", FillKind::kSmallInteger));
}

TEST(Fill, Distributions) {
  Tensor t = Tensor::Empty({100000}, "f32").value();
  auto moments = [&] {
    double sum = 0, squares = 0, low = 1e9, high = -1e9;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      double v = t.Data<float>()[i];
      sum += v, squares += v * v, low = std::min(low, v), high = std::max(high, v);
    }
    return std::array{sum / 1e5, squares / 1e5, low, high};
  };
  FillRandom(t, 1, FillKind::kUniform);
  auto [mean, variance, low, high] = moments();
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(variance, 1.0 / 3, 0.01);
  EXPECT_GE(low, -1);
  EXPECT_LT(high, 1);
  FillRandom(t, 1, FillKind::kNormal);
  EXPECT_NEAR(moments()[0], 0, 0.02);
  EXPECT_NEAR(moments()[1], 1, 0.02);
  FillRandom(t, 1, FillKind::kSmallInteger);
  for (int i = 0; i < 1000; ++i) {
    float v = t.Data<float>()[i];
    ASSERT_TRUE(v == std::floor(v) && std::fabs(v) <= 4);
  }
}

TEST(Guards, NoticeStrayWrites) {
  GuardedTensor t = GuardedTensor::Empty({5}, "f32").value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.tensor().data()) % 64, 0u);
  EXPECT_TRUE(std::isnan(t.tensor().Data<float>()[4]));
  for (int i = 0; i < 5; ++i) t.tensor().Data<float>()[i] = 1;
  EXPECT_TRUE(t.Check().ok());
  char* data = static_cast<char*>(t.tensor().data());
  char old = data[20];
  data[20] = 1;
  EXPECT_EQ(t.Check().error().message, "byte 1 after the buffer was overwritten");
  data[20] = old;
  data[-3] = 1;
  EXPECT_EQ(t.Check().error().message, "byte 3 before the buffer was overwritten");
}

}  // namespace
}  // namespace autotune
