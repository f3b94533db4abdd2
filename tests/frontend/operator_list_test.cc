// Checks that docs/operators.md names every operator of the importer, and that the random networks, whose outputs are
// checked with numpy, contain every operator except those listed below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "frontend/onnx/importer.h"
#include "tests/read.h"

namespace autotune::onnx_import {
namespace {

namespace fs = std::filesystem;

std::set<std::string> Names() {
  std::set<std::string> names;
  for (bool microsoft : {false, true}) {
    for (const OperatorRow& row : AllOperators(microsoft)) names.insert(row.name);
  }
  return names;
}

// Returns the operators that random networks lack, since ONNX's own cases or tests of this folder cover them. A new
// operator should be added to the networks, not to this list.
const std::set<std::string>& NotInRandomNetworks() {
  static const std::set<std::string> names = {
      // operators on integers, bits and other types
      "BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "CastLike", "IsInf",
      "QLinearMatMul", "TfIdfVectorizer",
      // operators on images, sampled signals and positions
      "AffineGrid", "BlackmanWindow", "CenterCropPad", "DeformConv", "GlobalLpPool", "HammingWindow", "HannWindow",
      "LpPool", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "RoiAlign",
      // operators whose result shapes depend on values, and a control flow operator
      "NonMaxSuppression", "NonZero", "Scan", "Unique",
      // operators of quantized tensors, tested in microsoft_quantized_test.cc
      "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearGlobalAveragePool", "QLinearLeakyRelu",
      "QLinearMul", "QLinearSigmoid",
      // operators of transformers, tested in microsoft_test.cc, block_weights_test.cc and new_operator_test.cc
      "BiasGelu", "CumProd", "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedMatMul", "GroupNormalization",
      "GroupQueryAttention", "LpNormalization", "MatMulNBits", "MultiHeadAttention", "QuickGelu", "RMSNormalization",
      "RotaryEmbedding", "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
      "SwiGLU"};
  return names;
}

// Returns the operators in the tables of docs/operators.md.
std::set<std::string> OnThePage(const std::string& page) {
  std::set<std::string> names;
  const std::string tables = page.substr(0, page.find("Shapes are static"));
  static const std::regex kName("`([A-Z][A-Za-z0-9]*)`");
  for (std::sregex_iterator at(tables.begin(), tables.end(), kName), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

// Returns the text of the Python files of `folder` whose names begin with `prefix`.
std::string Scripts(const std::string& folder, const std::string& prefix) {
  std::string all;
  for (const auto& entry : fs::directory_iterator(fs::path(AUTOTUNE_SOURCE_DIR) / folder)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".py" && path.filename().string().starts_with(prefix)) all += test::ReadAll(path);
  }
  return all;
}

// Returns the elements of `names` that are not in `others`.
std::set<std::string> Without(const std::set<std::string>& names, const std::set<std::string>& others) {
  std::set<std::string> rest;
  std::set_difference(names.begin(), names.end(), others.begin(), others.end(), std::inserter(rest, rest.end()));
  return rest;
}

// Returns the names that do not appear in `scripts` between double quotes.
std::set<std::string> Missing(const std::set<std::string>& names, const std::string& scripts) {
  std::set<std::string> missing;
  for (const std::string& name : names) {
    if (scripts.find('"' + name + '"') == std::string::npos) missing.insert(name);
  }
  return missing;
}

TEST(OperatorList, ThePageNamesTheOperatorsOfTheImporter) {
  const std::set<std::string> page = OnThePage(test::ReadAll(AUTOTUNE_SOURCE_DIR "/docs/operators.md"));
  EXPECT_THAT(Without(Names(), page), testing::IsEmpty()) << "add them to a row of docs/operators.md";
  EXPECT_THAT(Without(page, Names()), testing::IsEmpty()) << "docs/operators.md lists operators that are not imported";
}

TEST(OperatorList, ThePageIsReadByItsTables) {
  EXPECT_THAT(OnThePage("| a | `Conv` (1-D), `com.microsoft`, `Gemm` |\n\nShapes are static. `Slice`"),
              testing::ElementsAre("Conv", "Gemm"));
}

TEST(OperatorList, RandomNetworksHaveTheOperators) {
  const std::set<std::string> wanted = Without(Names(), NotInRandomNetworks());
  const std::set<std::string> control = {"If", "Loop"};  // the random networks wrap them around other nodes
  EXPECT_THAT(Missing(Without(wanted, control), Scripts("examples", "reference")), testing::IsEmpty())
      << "compute them in examples/reference.py";
  EXPECT_THAT(Missing(wanted, Scripts("scripts", "random_")), testing::IsEmpty())
      << "draw them in a step of scripts/random_network.py";
}

TEST(OperatorList, TheExceptionsAreImportedAndNotDrawn) {
  EXPECT_THAT(Without(NotInRandomNetworks(), Names()), testing::IsEmpty());
  const std::set<std::string> missing = Missing(NotInRandomNetworks(), Scripts("scripts", "random_"));
  EXPECT_THAT(Without(NotInRandomNetworks(), missing), testing::IsEmpty())
      << "random networks have these operators: remove the exceptions";
}

}  // namespace
}  // namespace autotune::onnx_import
