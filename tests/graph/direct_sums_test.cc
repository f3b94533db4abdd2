// Convolutions whose constant weights Winograd's guard refuses are computed directly; others are left alone.
#include <gtest/gtest.h>

#include "graph/pass.h"
#include "tests/graph/maker.h"
#include "topi/winograd.h"

namespace autotune::graph {
namespace {

constexpr int64_t kChannels = 16;

// Returns whether the pass marks a convolution with random weights of magnitudes in [0.5, 1.5], changed by `change`.
template <class Change>
bool IsMarked(const Change& change, ConvAttrs attrs = {.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC}) {
  Maker m(1);
  Rng rng(3);
  std::vector<float> weights(9 * kChannels * kChannels);
  for (float& w : weights) w = static_cast<float>((rng.Uniform() + 0.5) * (rng.Below(2) == 0 ? -1 : 1));
  change(weights);
  const ValueId x = m.b.Input("x", F32({1, 8, 8, kChannels}));
  const ValueId w = m.b.AddConstant("", TensorValue::Of<float>({3, 3, kChannels, kChannels}, weights));
  m.b.Output(m.b.Must(Op::kConv2d, {x, w}, attrs), "y");
  Counting counting;
  const Graph g = ExpectKept(m.b.Finish(), {{"direct_sums", DirectSums}}, counting.env);
  return std::get<ConvAttrs>(g.nodes[0].attrs).exact;
}

// Multiplies the weights of a position, for one output channel or for all.
auto Scaled(int64_t position, double factor, int64_t channel = -1) {
  return [=](std::vector<float>& weights) {
    for (int64_t i = 0; i < kChannels * kChannels; ++i) {
      if (channel < 0 || i % kChannels == channel)
        weights[static_cast<size_t>(position * kChannels * kChannels + i)] *= static_cast<float>(factor);
    }
  };
}

TEST(DirectSums, MarksWildWeightsOnly) {
  EXPECT_FALSE(IsMarked([](auto&) {}));
  EXPECT_FALSE(IsMarked(Scaled(4, 20)));
  EXPECT_TRUE(IsMarked(Scaled(4, 200)));
  EXPECT_TRUE(IsMarked(Scaled(0, 0, 5))) << "one output channel suffices";
  EXPECT_FALSE(IsMarked([](auto& weights) {
    for (size_t i = 5; i < weights.size(); i += kChannels) weights[i] = 0;
  })) << "an output channel without weights";
  EXPECT_TRUE(IsMarked([](auto& weights) { weights[7] = std::numeric_limits<float>::infinity(); }));
  EXPECT_TRUE(IsMarked([](auto& weights) { weights[7] = std::numeric_limits<float>::quiet_NaN(); }));
}

TEST(DirectSums, LeavesOtherWindowsAlone) {
  Maker m(2);
  const ValueId x = m.b.Input("x", F32({1, 8, 8, 2}));
  const ValueId w = m.b.AddConstant("", TensorValue::Of<float>({1, 1, 2, 1}, {1e9F, 1e-9F}));
  m.b.Output(m.b.Must(Op::kConv2d, {x, w}, ConvAttrs{.layout = Layout::kNHWC}), "y");
  Counting counting;
  const Graph g = ExpectKept(m.b.Finish(), {{"direct_sums", DirectSums}}, counting.env);
  EXPECT_FALSE(std::get<ConvAttrs>(g.nodes[0].attrs).exact);
}

}  // namespace
}  // namespace autotune::graph
