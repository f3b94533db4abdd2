#include "tests/tools/small_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "frontend/onnx/tensor_pb.h"
#include "support/rng.h"
#include "tests/frontend/model_maker.h"

namespace autotune::test {
namespace {

using Numbers = std::vector<double>;

constexpr int kSide = 12, kColors = 3, kChannels = 8, kClasses = 10, kKernel = 3;

Numbers DrawNumbers(int count, Rng& rng) {
  Numbers numbers(static_cast<size_t>(count));
  for (double& x : numbers) x = static_cast<float>(0.3 * rng.Normal());
  return numbers;
}

// Returns conv(x, w) + b for x in CHW and w in OIHW, padded to the same size.
Numbers ConvolvePlanes(const Numbers& x, const Numbers& w, const Numbers& b) {
  const int out = static_cast<int>(b.size()), in = static_cast<int>(x.size()) / (kSide * kSide);
  Numbers y;
  for (int o = 0; o < out; ++o) {
    for (int at = 0; at < kSide * kSide; ++at) {
      double sum = b[o];
      for (int tap = 0; tap < in * kKernel * kKernel; ++tap) {
        const int i = tap / (kKernel * kKernel), dy = tap / kKernel % kKernel - 1, dx = tap % kKernel - 1;
        const int row = at / kSide + dy, column = at % kSide + dx;
        if (row < 0 || row >= kSide || column < 0 || column >= kSide) continue;
        sum += x[(i * kSide + row) * kSide + column] * w[o * in * kKernel * kKernel + tap];
      }
      y.push_back(sum);
    }
  }
  return y;
}

Numbers Positive(Numbers x) {
  for (double& value : x) value = std::max(value, 0.0);
  return x;
}

struct SmallWeights {
  Numbers w1, b1, w2, b2, w3, b3, w4, b4, dense, bias;
};

Numbers ProbabilitiesOf(const Numbers& image, const SmallWeights& s) {
  const Numbers first = Positive(ConvolvePlanes(image, s.w1, s.b1));
  const Numbers second = Positive(ConvolvePlanes(first, s.w2, s.b2));
  Numbers third = ConvolvePlanes(Positive(ConvolvePlanes(second, s.w3, s.b3)), s.w4, s.b4);
  for (size_t i = 0; i < third.size(); ++i) third[i] += first[i];
  third = Positive(third);
  Numbers scores = s.bias;
  for (int c = 0; c < kChannels; ++c) {
    const auto plane = third.begin() + c * kSide * kSide;
    const double mean = std::accumulate(plane, plane + kSide * kSide, 0.0) / (kSide * kSide);
    for (int k = 0; k < kClasses; ++k) scores[k] += mean * s.dense[c * kClasses + k];
  }
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score);
  for (double& score : scores) score /= sum;
  return scores;
}

}  // namespace

void WriteSmallNetwork(const std::string& folder) {
  Rng rng(1);
  constexpr int kFirst = kChannels * kColors * kKernel * kKernel, kLater = kChannels * kChannels * kKernel * kKernel;
  auto draw = [&](int count) { return DrawNumbers(count, rng); };
  const SmallWeights s{draw(kFirst),    draw(kChannels), draw(kLater),
                       draw(kChannels), draw(kLater),    draw(kChannels),
                       draw(kLater),    draw(kChannels), draw(kChannels * kClasses),
                       draw(kClasses)};
  const Numbers image = draw(kColors * kSide * kSide);

  ModelMaker m;
  auto add = [&m](const std::string& name, const std::vector<int64_t>& shape, const Numbers& numbers) {
    m.Floats(name, shape, std::vector<float>(numbers.begin(), numbers.end()));
  };
  m.Input("image", {1, kColors, kSide, kSide}).TypedOutput("probabilities", {1, kClasses}, 1);
  add("w1", {kChannels, kColors, kKernel, kKernel}, s.w1), add("b1", {kChannels}, s.b1);
  add("w2", {kChannels, kChannels, kKernel, kKernel}, s.w2), add("b2", {kChannels}, s.b2);
  add("w3", {kChannels, kChannels, kKernel, kKernel}, s.w3), add("b3", {kChannels}, s.b3);
  add("w4", {kChannels, kChannels, kKernel, kKernel}, s.w4), add("b4", {kChannels}, s.b4);
  add("dense", {kChannels, kClasses}, s.dense), add("bias", {kClasses}, s.bias);
  auto convolve = [&m](const std::string& x, const std::string& number, const std::string& y) {
    m.Node("Conv", {x, "w" + number, "b" + number}, {y}).Ints("pads", {1, 1, 1, 1});
  };
  convolve("image", "1", "c1");
  m.Node("Relu", {"c1"}, {"r1"});
  convolve("r1", "2", "c2");
  m.Node("Relu", {"c2"}, {"r2"});
  convolve("r2", "3", "c3");
  m.Node("Relu", {"c3"}, {"r3"});
  convolve("r3", "4", "c4");
  m.Node("Add", {"c4", "r1"}, {"sum"});
  m.Node("Relu", {"sum"}, {"r4"});
  m.Node("GlobalAveragePool", {"r4"}, {"pooled"});
  m.Node("Flatten", {"pooled"}, {"flat"});
  m.Node("Gemm", {"flat", "dense", "bias"}, {"scores"});
  m.Node("Softmax", {"scores"}, {"probabilities"}).Int("axis", 1);

  std::ofstream(folder + "/small.onnx", std::ios::binary) << m.Bytes();
  const std::string data = folder + "/small_data";
  std::filesystem::create_directory(data);
  auto write = [&](const std::string& file, const std::string& name, const graph::Shape& shape,
                   const Numbers& numbers) {
    const auto value = graph::TensorValue::FromNumbers(DType::Float(32), shape, numbers);
    ASSERT_TRUE(WriteTensorPb(data + "/" + file, {name, value}).ok());
  };
  write("input_0.pb", "image", {1, kColors, kSide, kSide}, image);
  write("output_0.pb", "probabilities", {1, kClasses}, ProbabilitiesOf(image, s));
}

}  // namespace autotune::test
