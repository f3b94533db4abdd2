#include "costmodel/feature_names.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "costmodel/features.h"
#include "tests/ir/parse.h"

namespace autotune {
namespace {

float Feature(const Features& features, const std::string& name) {
  const std::vector<FeatureName>& names = FeatureNames();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].name != name) continue;
    // Features are logarithms stored as f32, so the quantity is exact only up to rounding.
    return static_cast<float>(std::round(100 * names[i].QuantityOf(features[i])) / 100);
  }
  ADD_FAILURE() << "no feature " << name;
  return -1;
}

TEST(FeatureNames, OneForEachAndNoneTwice) {
  std::set<std::string> names;
  for (const FeatureName& name : FeatureNames()) EXPECT_TRUE(names.insert(name.name).second) << name.name;
  EXPECT_EQ(static_cast<int>(names.size()), NumFeatures());
}

TEST(FeatureNames, TheyNameWhatIsThere) {
  PrimFunc scale = test::Parse(
      "func scale(x: f32[64, 8] input, y: f32[64, 8] output) { for i in 64 parallel { for j in 8 vectorized { "
      "block b(vi: S 64 = i, vj: S 8 = j) { y[vi, vj] = x[vi, vj] * 2.0 } } } }");
  Features features =
      ExtractFeatures(NestOf(scale), Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").value());
  EXPECT_FLOAT_EQ(Feature(features, "function.flops"), 512);
  EXPECT_FLOAT_EQ(Feature(features, "function.parameter_bytes"), 2 * 512 * 4);
  EXPECT_FLOAT_EQ(Feature(features, "function.blocks"), 1);
  EXPECT_FLOAT_EQ(Feature(features, "function.loops"), 2);
  EXPECT_FLOAT_EQ(Feature(features, "block0.mul"), 1);
  EXPECT_FLOAT_EQ(Feature(features, "block0.vector_lanes"), 8);
  EXPECT_FLOAT_EQ(Feature(features, "block0.depth"), 2);
  EXPECT_FLOAT_EQ(Feature(features, "block0.padding"), 1);
  EXPECT_FLOAT_EQ(Feature(features, "block0.access0.element"), 4);
  EXPECT_FLOAT_EQ(Feature(features, "block0.access0.unique"), 2048);
  EXPECT_FLOAT_EQ(Feature(features, "block0.access0.write") + Feature(features, "block0.access1.write"), 1);
  EXPECT_FLOAT_EQ(Feature(features, "block0.access2.unique"), 0) << "block0 has two accesses";
  EXPECT_FLOAT_EQ(Feature(features, "block1.flops"), 0) << "the program has one block";
}

}  // namespace
}  // namespace autotune
