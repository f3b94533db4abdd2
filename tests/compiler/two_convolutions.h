// For tests of the compiler: a network that compiles in a tenth of the time of examples/resnet20.onnx.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/network.h"
#include "tests/frontend/model_maker.h"

namespace autotune::test {

// Returns a network of two convolutions, of which the first has more work, and what surrounds them.
inline Network TwoConvolutions(const Target& target, Builder& builder) {
  constexpr int64_t kSide = 24, kChannels = 16;
  ModelMaker m;
  m.Input("x", {1, kChannels, kSide, kSide}).Output("y");
  m.Floats("w", {kChannels, kChannels, 3, 3}, std::vector<float>(kChannels * kChannels * 9, 0.125f));
  m.Floats("v", {kChannels, kChannels, 1, 1}, std::vector<float>(kChannels * kChannels, 0.25f));
  m.Node("Conv", {"x", "w"}, {"c"}).Ints("pads", {1, 1, 1, 1});
  m.Node("Relu", {"c"}, {"r"});
  m.Node("Conv", {"r", "v"}, {"y"});
  const std::string path = ::testing::TempDir() + "two_convolutions_" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << m.Bytes();
  Network network = LoadNetwork(path, {}, target, builder).value();
  std::filesystem::remove(path);
  return network;
}

}  // namespace autotune::test
