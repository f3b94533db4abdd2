// Einsum, compared with a sum of products over all values of all labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "frontend/onnx/import.h"
#include "tests/frontend/model_maker.h"
#include "tests/graph/reference.h"

namespace autotune::graph {
namespace {

using reference::At;
using reference::Tensor;
using testing::HasSubstr;

// Computes an Einsum by its definition. `inputs` and `output` name each dimension by a letter. Dimensions of extent 1
// broadcast.
Tensor Naive(const std::vector<std::string>& inputs, const std::string& output, const std::vector<Tensor>& in) {
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < in.size(); ++i) {
    for (size_t d = 0; d < inputs[i].size(); ++d) {
      int64_t& extent = extents.try_emplace(inputs[i][d], 1).first->second;
      extent = std::max(extent, in[i].shape[d]);
    }
  }
  Shape all, out;
  std::string labels;
  for (auto [label, extent] : extents) labels += label, all.push_back(extent);
  for (char label : output) out.push_back(extents.at(label));
  Tensor y{out, std::vector<double>(reference::Count(out), 0)};
  reference::ForEachIndex(all, [&](const Shape& at) {
    auto value = [&](char label) { return at[labels.find(label)]; };
    double product = 1;
    for (size_t i = 0; i < in.size(); ++i) {
      Shape index;
      for (size_t d = 0; d < inputs[i].size(); ++d) index.push_back(in[i].shape[d] == 1 ? 0 : value(inputs[i][d]));
      product *= At(in[i], index);
    }
    Shape index;
    for (char label : output) index.push_back(value(label));
    y.data[reference::Flat(index, out)] += product;
  });
  return y;
}

ModelMaker ModelOf(const std::string& equation, const std::vector<Shape>& shapes) {
  ModelMaker m(12);
  std::vector<std::string> names;
  for (const Shape& shape : shapes) m.Input(names.emplace_back(1, static_cast<char>('p' + names.size())), shape);
  m.Output("y").Node("Einsum", names, {"y"}).String("equation", equation);
  return m;
}

struct Row {
  const char* equation;
  std::vector<std::string> inputs;  // terms of the operands, with letters in place of an ellipsis
  std::string output;
  std::vector<Shape> shapes;
};

Tensor Computed(const Row& row, const std::vector<Tensor>& in) {
  Result<ImportedModel> imported = Import(ModelOf(row.equation, row.shapes));
  if (!imported.ok()) {
    ADD_FAILURE() << row.equation << ": " << imported.error().Text();
    return {};
  }
  return reference::Evaluate(imported->module.main(), in)[0];
}

TEST(Einsum, AsItsDefinition) {
  const std::vector<Row> rows = {
      {"ij->ji", {"ij"}, "ji", {{3, 4}}},
      {"ij", {"ij"}, "ij", {{3, 4}}},
      {"ba", {"ba"}, "ab", {{3, 4}}},  // without an output, the labels are in alphabetical order
      {"i->", {"i"}, "", {{5}}},
      {"ij->i", {"ij"}, "i", {{3, 4}}},
      {"ii->i", {"ii"}, "i", {{4, 4}}},
      {"ii", {"ii"}, "", {{4, 4}}},
      {"iji->ij", {"iji"}, "ij", {{3, 2, 3}}},
      {"iii->i", {"iii"}, "i", {{3, 3, 3}}},
      {"...ii->...i", {"abii"}, "abi", {{2, 3, 4, 4}}},
      {"i,i", {"i", "i"}, "", {{5}, {5}}},
      {"i,j->ij", {"i", "j"}, "ij", {{5}, {3}}},
      {"ij,jk->ik", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"ij,jk", {"ij", "jk"}, "ik", {{3, 4}, {4, 5}}},
      {"ij , kj -> ki", {"ij", "kj"}, "ki", {{3, 4}, {5, 4}}},
      {"bij,bjk->bik", {"bij", "bjk"}, "bik", {{2, 3, 4}, {2, 4, 5}}},
      {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}, "bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}},
      {"...ij,...jk->...ik", {"abij", "abjk"}, "abik", {{2, 3, 4, 2}, {2, 3, 2, 5}}},
      {"...ij,jk->...ik", {"abij", "jk"}, "abik", {{2, 3, 4, 2}, {2, 5}}},
      {"...i,...i->...", {"abi", "bi"}, "ab", {{2, 3, 4}, {3, 4}}},          // ellipses of two lengths
      {"...i,...j->...ij", {"abi", "abj"}, "abij", {{2, 1, 4}, {1, 3, 5}}},  // ellipses that broadcast
      {"i...->...i", {"iab"}, "abi", {{2, 3, 4}}},
      {"...ij", {"aij"}, "aij", {{2, 3, 4}}},
      {"ij,ij->ij", {"ij", "ij"}, "ij", {{3, 4}, {3, 4}}},
      {"ij,ij->i", {"ij", "ij"}, "i", {{3, 4}, {3, 1}}},  // an extent of 1 broadcasts
      {"ij,jk->k", {"ij", "jk"}, "k", {{3, 4}, {4, 5}}},  // the sum over i comes first
      {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il", {{2, 3}, {3, 4}, {4, 5}}},
      {"ij,ik,il->jkl", {"ij", "ik", "il"}, "jkl", {{2, 3}, {2, 4}, {2, 5}}},
      {"a,b,c->", {"a", "b", "c"}, "", {{2}, {3}, {4}}},
      {"aB,Bc->ac", {"aB", "Bc"}, "ac", {{2, 3}, {3, 4}}},
      {"ij->ij", {"ij"}, "ij", {{1, 1}}},
      {"->", {""}, "", {{}}},
      {",i->i", {"", "i"}, "i", {{}, {3}}},
  };
  Rng rng(1);
  for (const Row& row : rows) {
    std::vector<Tensor> in;
    for (const Shape& shape : row.shapes) in.push_back(reference::Random(shape, rng));
    const Tensor want = Naive(row.inputs, row.output, in), got = Computed(row, in);
    EXPECT_EQ(got.shape, want.shape) << row.equation;
    EXPECT_EQ(reference::Mismatch(got, want), "") << row.equation;
  }
  // The comparison notices that two equations are different.
  const Tensor x = reference::Random({3, 3}, rng);
  EXPECT_NE(reference::Mismatch(Computed({"ij->ji", {}, "", {{3, 3}}}, {x}), Naive({"ij"}, "ij", {x})), "");
}

TEST(Einsum, Refusals) {
  auto error = [](const char* equation, const std::vector<Shape>& shapes) {
    return ImportError(ModelOf(equation, shapes));
  };
  EXPECT_THAT(error("ij,jk->ik", {{3, 4}}), HasSubstr("Einsum (node #0): the equation has 2 terms for 1 inputs"));
  EXPECT_THAT(error("ijk->i", {{3, 4}}), HasSubstr("names 3 dimensions of a tensor of rank 2"));
  EXPECT_THAT(error("i->i", {{3, 4}}), HasSubstr("names 1 dimensions of a tensor of rank 2"));
  EXPECT_THAT(error("ij->ii", {{3, 4}}), HasSubstr("the output names a label twice"));
  EXPECT_THAT(error("ij->ik", {{3, 4}}), HasSubstr("the output names a label that no input has"));
  EXPECT_THAT(error("ij,jk->ik", {{3, 4}, {5, 6}}),
              HasSubstr("one label stands for dimensions of different extents: 4 and 5"));
  EXPECT_THAT(error("ii->i", {{3, 4}}), HasSubstr("one label stands for dimensions of different extents: 3 and 4"));
  EXPECT_THAT(error("i1->i", {{3, 4}}), HasSubstr("is not made of letters"));
  EXPECT_THAT(error("......->", {{3, 4}}), HasSubstr("at most one ellipsis"));
}

}  // namespace
}  // namespace autotune::graph
