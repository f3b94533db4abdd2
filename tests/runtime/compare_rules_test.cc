// runtime/compare.h and examples/compare.py are one rule: they give the same verdicts on the same random tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "runtime/compare.h"
#include "runtime/npy.h"
#include "support/half.h"
#include "support/rng.h"

namespace autotune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pair {
  Tensor actual, expected;
};

template <class T>
Tensor TensorOf(const std::vector<T>& values, std::string_view type) {
  return Tensor::FromBytes({static_cast<int64_t>(values.size())}, DataTypeFromText(type).value(),
                           {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)})
      .value();
}

// Draws a size on both sides of those from which the floor looks at a 16th and at a 64th of the numbers.
size_t DrawSize(Rng& rng) { return static_cast<size_t>(rng.Below(rng.Below(2) ? 12 : 400)); }

double DrawSpecial(Rng& rng) {
  constexpr double kSpecial[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
  return kSpecial[rng.Below(std::size(kSpecial))];
}

// Draws floats of one magnitude or of all magnitudes of the type, denormal ones too, with zeros and special numbers.
template <class T>
std::vector<T> DrawFloats(Rng& rng) {
  using Limits = std::numeric_limits<T>;
  const double top = Limits::max_exponent10 - 1, bottom = Limits::min_exponent10 - Limits::digits10;
  const std::pair<double, double> ranges[] = {{-1, 1}, {-1, 1}, {bottom, top}, {bottom, bottom + 12}, {-2, 9}};
  const auto [low, high] = ranges[rng.Below(std::size(ranges))];
  const double zeros = rng.Below(2) ? 0 : rng.Uniform(), special = rng.Below(2) ? 0 : rng.Uniform() / 4;
  std::vector<T> values(DrawSize(rng));
  for (T& value : values) {
    const double number = (rng.Below(2) ? 1 : -1) * std::pow(10, low + (high - low) * rng.Uniform());
    value = static_cast<T>(rng.Uniform() < zeros ? 0 : rng.Uniform() < special ? DrawSpecial(rng) : number);
  }
  return values;
}

// Draws expected numbers of type E, and actual ones of type A with up to three errors around the allowance.
template <class A, class E>
Pair DrawFloatPair(Rng& rng, const char* actual_type, const char* expected_type) {
  const std::vector<A> drawn = DrawFloats<A>(rng);
  std::vector<E> expected(drawn.begin(), drawn.end());
  std::vector<A> actual = drawn;
  const Tolerance tolerance;
  const double floor = tolerance.atol * SmallMagnitude(TensorOf(expected, expected_type));
  for (int64_t errors = drawn.empty() ? 0 : rng.Below(4); errors > 0; --errors) {
    const auto at = static_cast<size_t>(rng.Below(static_cast<int64_t>(drawn.size())));
    const double allowed = tolerance.rtol * std::fabs(expected[at]) + floor, factor = std::pow(10, rng.Uniform() - 0.7);
    actual[at] = static_cast<A>(rng.Below(8) == 0 ? DrawSpecial(rng)
                                                  : expected[at] + (rng.Below(2) ? 1 : -1) * factor * allowed);
  }
  return {TensorOf(actual, actual_type), TensorOf(expected, expected_type)};
}

// Draws 16-bit floats of any bits or of one magnitude, and errors of a few units in the last place.
Pair DrawHalfPair(Rng& rng) {
  const bool any = rng.Below(2) == 0;
  std::vector<uint16_t> expected(DrawSize(rng));
  for (uint16_t& bits : expected) bits = static_cast<uint16_t>(any ? rng.Below(0x10000) : 0x3c00 + rng.Below(0x400));
  std::vector<uint16_t> actual = expected;
  for (int64_t errors = expected.empty() ? 0 : rng.Below(3); errors > 0; --errors) {
    uint16_t& bits = actual[static_cast<size_t>(rng.Below(static_cast<int64_t>(actual.size())))];
    bits = static_cast<uint16_t>(bits + 1 + rng.Below(5));
  }
  if (rng.Below(2) == 0) return {TensorOf(actual, "f16"), TensorOf(expected, "f16")};
  std::vector<double> wide;
  for (const uint16_t bits : expected) wide.push_back(HalfFromBits(bits));
  return {TensorOf(actual, "f16"), TensorOf(wide, "f64")};
}

template <class T>
Pair DrawIntegerPair(Rng& rng, const char* type) {
  std::vector<T> expected(DrawSize(rng));
  for (T& value : expected) value = static_cast<T>(rng.Next());
  std::vector<T> actual = expected;
  if (!actual.empty() && rng.Below(2) == 0) actual[static_cast<size_t>(rng.Below(actual.size()))] ^= T{1};
  return {TensorOf(actual, type), TensorOf(expected, type)};
}

Pair DrawPair(Rng& rng) {
  switch (rng.Below(10)) {
    case 0:
    case 1:
    case 2:
      return DrawFloatPair<float, float>(rng, "f32", "f32");
    case 3:
      return DrawFloatPair<float, double>(rng, "f32", "f64");
    case 4:
      return DrawFloatPair<double, double>(rng, "f64", "f64");
    case 5:
    case 6:
      return DrawHalfPair(rng);
    case 7:
      return DrawIntegerPair<int8_t>(rng, "i8");
    case 8:
      return DrawIntegerPair<uint64_t>(rng, "u64");
    default:
      return DrawIntegerPair<int64_t>(rng, "i64");
  }
}

std::string LineOf(const Pair& pair) {
  const Comparison compared = CompareTensors(pair.actual, pair.expected).value();
  char line[96];
  std::snprintf(line, sizeof line, "largest error: %.3g of the allowed one: %s", compared.worst_ratio,
                compared.ok ? "right" : "WRONG");
  return line;
}

class CompareRules : public testing::Test {
 protected:
  CompareRules() { EXPECT_TRUE(mkdtemp(folder_.data())); }
  ~CompareRules() override { std::filesystem::remove_all(folder_); }

  // Returns what examples/compare.py prints for each pair.
  std::vector<std::string> LinesOfPython(const std::vector<Pair>& pairs) const {
    std::string command = "cd " + folder_ + " && /usr/bin/python3 " AUTOTUNE_SOURCE_DIR "/examples/compare.py";
    for (size_t i = 0; i < pairs.size(); ++i) {
      const std::string name = std::to_string(i);
      EXPECT_TRUE(WriteNpy(folder_ + "/a" + name, pairs[i].actual).ok());
      EXPECT_TRUE(WriteNpy(folder_ + "/b" + name, pairs[i].expected).ok());
      command += " a" + name + " b" + name;
    }
    std::vector<std::string> lines;
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    for (char line[512]; fgets(line, sizeof line, pipe);) lines.push_back({line, strcspn(line, "\n")});
    pclose(pipe);
    return lines;
  }

 private:
  std::string folder_ = testing::TempDir() + "compare-rules-XXXXXX";
};

TEST_F(CompareRules, PythonGivesTheSameVerdicts) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "needs python3-numpy";
  constexpr size_t kPairs = 800;
  Rng rng(39);
  std::vector<Pair> pairs;
  while (pairs.size() < kPairs) pairs.push_back(DrawPair(rng));
  const std::vector<std::string> lines = LinesOfPython(pairs);
  ASSERT_EQ(lines.size(), kPairs) << (lines.empty() ? "" : lines.back());
  std::map<std::string, int> verdicts;
  for (size_t i = 0; i < kPairs; ++i) {
    const std::string line = LineOf(pairs[i]);
    ASSERT_EQ(lines[i], line) << i << ": " << pairs[i].actual.TypeText() << ", " << pairs[i].expected.TypeText();
    ++verdicts[DataTypeText(pairs[i].actual.dtype()) + line.substr(line.size() - 6)];
  }
  for (const char* type : {"f32", "f64", "f16", "i8", "u64", "i64"}) {
    for (const char* verdict : {" right", " WRONG"}) EXPECT_GT(verdicts[std::string(type) + verdict], 10) << type;
  }
}

// Types and shapes that C++ refuses to compare are wrong for Python.
TEST_F(CompareRules, PythonRefusesTheSameTypes) {
  if (std::system("/usr/bin/python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "needs python3-numpy";
  const Tensor floats = TensorOf<float>({1, 2}, "f32"), few = TensorOf<float>({1}, "f32"),
               integers = TensorOf<int32_t>({1, 2}, "i32"), wide = TensorOf<int64_t>({1, 2}, "i64"),
               doubles = TensorOf<double>({1, 2}, "f64");
  const std::vector<Pair> refused = {{floats, integers}, {integers, floats}, {integers, wide}, {floats, few}};
  std::vector<Pair> all = refused;
  all.push_back({floats, doubles});
  const std::vector<std::string> lines = LinesOfPython(all);
  ASSERT_EQ(lines.size(), all.size());
  for (size_t i = 0; i < refused.size(); ++i) {
    EXPECT_FALSE(CompareTensors(refused[i].actual, refused[i].expected).ok()) << i;
    EXPECT_EQ(lines[i], "largest error: inf of the allowed one: WRONG") << i;
  }
  EXPECT_EQ(lines.back(), "largest error: 0 of the allowed one: right");
  EXPECT_EQ(lines.back(), LineOf(all.back()));
}

}  // namespace
}  // namespace autotune
