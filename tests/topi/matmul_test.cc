#include "topi/matmul.h"

#include <gtest/gtest.h>

#include "tests/topi/operator_check.h"
#include "topi/elementwise.h"

namespace autotune::topi {
namespace {

// Computes numpy.matmul for shapes that fit.
Array NaiveMatMul(Array a, Array b) {
  bool row = a.shape.size() == 1, column = b.shape.size() == 1;
  if (row) a.shape.insert(a.shape.begin(), 1);
  if (column) b.shape.push_back(1);
  Shape lead, al(a.shape.begin(), a.shape.end() - 2), bl(b.shape.begin(), b.shape.end() - 2);
  CHECK(te::BroadcastShapes(al, bl, &lead));
  Shape full = lead;
  full.push_back(a.shape[a.shape.size() - 2]);
  full.push_back(b.shape.back());
  Array y(full);
  auto align = [&](const Shape& index, const Shape& shape) {
    Shape out;
    size_t skip = lead.size() - shape.size();
    for (size_t d = 0; d < shape.size(); ++d) out.push_back(shape[d] == 1 ? 0 : index[skip + d]);
    return out;
  };
  ForEach(full, [&](const Shape& i) {
    Shape ai = align(i, al), bi = align(i, bl);
    ai.resize(al.size() + 2), bi.resize(bl.size() + 2);
    for (int64_t k = 0; k < a.shape.back(); ++k) {
      ai[al.size()] = i[lead.size()], ai[al.size() + 1] = k;
      bi[bl.size()] = k, bi[bl.size() + 1] = i[lead.size() + 1];
      y.at(i) += a.at(ai) * b.at(bi);
    }
  });
  if (row) y.shape.erase(y.shape.end() - 2);
  if (column) y.shape.pop_back();
  return y;
}

std::string CheckMatMul(const Shape& a, const Shape& b, Rng& rng) {
  Tensor x = te::Placeholder("a", a), y = te::Placeholder("b", b);
  return Mismatch(
      {x, y}, MatMul("mm", x, y), [](const std::vector<Array>& v) { return NaiveMatMul(v[0], v[1]); }, rng);
}

TEST(MatMulTest, Shapes) {
  Rng rng(1);
  EXPECT_EQ(CheckMatMul({3, 5}, {5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({1, 7}, {7, 1}, rng), "");
  EXPECT_EQ(CheckMatMul({1, 1}, {1, 1}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 3, 5}, {5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 3, 3, 5}, {5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 3, 5}, {2, 5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 1, 3, 5}, {3, 5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({3, 5}, {2, 2, 5, 4}, rng), "");
  EXPECT_EQ(CheckMatMul({5}, {5, 4}, rng), "");
  // Products of one column have lanes along the sum.
  EXPECT_EQ(CheckMatMul({3, 37}, {37, 1}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 3, 48}, {48}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 1, 3, 20}, {4, 20, 1}, rng), "");
  EXPECT_EQ(CheckMatMul({77}, {77}, rng), "");
  EXPECT_EQ(CheckMatMul({3, 40}, {2, 40, 1}, rng), "");
  EXPECT_EQ(CheckMatMul({3, 5}, {5}, rng), "");
  EXPECT_EQ(CheckMatMul({2, 3, 5}, {5}, rng), "");
  EXPECT_EQ(CheckMatMul({5}, {2, 5, 3}, rng), "");
}

TEST(MatMulTest, AxesOfADenseLayer) {
  Tensor y = MatMul("mm", te::Placeholder("a", {2, 3, 5}), te::Placeholder("b", {5, 4}));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(y->StoredShape(), (Shape{6, 4}));
  EXPECT_EQ(Relu("r", y)->StoredShape(), (Shape{6, 4}));
}

TEST(MatMulTest, InnerDimensionsMustAgree) {
  EXPECT_THROW(MatMul("mm", te::Placeholder("a", {3, 5}), te::Placeholder("b", {4, 5})), InternalError);
  EXPECT_THROW(MatMul("mm", te::Placeholder("a", {2, 3, 5}), te::Placeholder("b", {3, 5, 4})), InternalError);
}

}  // namespace
}  // namespace autotune::topi
