// Bytes with a sign that products read without one: other readers take them without a sign, too.
#include "graph/pass/unsigned_bytes.h"

#include <gtest/gtest.h>

#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

constexpr DType kI8 = DType::Int(8), kU8 = DType::UInt(8), kI32 = DType::Int(32);

enum class Reader { kNone, kWidens, kSubtracts, kTransposes, kIsOutput };

// Returns how many tensors of bytes with a sign are left besides the product's weights.
int SignedTensors(Reader reader, double offset = 128, const Shape& rank = {}) {
  Quantizer m(6);
  const ValueId x = m.Quantize(m.b.Input("x", F32({6, 8})), {0.3, -5, kI8});
  const ValueId number = m.b.AddConstant("", TensorValue::FromNumbers(kI32, rank, {offset}));
  const ValueId sum = m.b.Must(Op::kAdd, {m.b.Must(Op::kCast, {x}, CastAttrs{kI32}), number});
  m.b.Output(m.b.Must(Op::kCast, {sum}, CastAttrs{kU8}), "bytes");
  const ValueId wide = m.b.Must(Op::kCast, {x}, CastAttrs{kI32});
  if (reader == Reader::kWidens) m.b.Output(m.b.Must(Op::kCast, {wide}, CastAttrs{}), "y");
  if (reader == Reader::kSubtracts) m.b.Output(m.b.Must(Op::kSub, {wide, m.Number(-5, kI32)}), "y");
  if (reader == Reader::kTransposes) m.b.Output(m.b.Transpose(x, {1, 0}), "y");
  if (reader == Reader::kIsOutput) m.b.Output(x, "y");
  const Graph g = m.b.Finish(), now = *DropDeadCode(ReadUnsigned(g), {});
  ExpectEqualOutputs(g, now);
  int readers = 0;
  for (const Node& node : now.nodes)
    for (const ValueId v : node.inputs) readers += now.Spec(v).dtype == kI8;
  return readers;
}

TEST(ReadUnsigned, OnlyOneReaderIsLeft) {
  EXPECT_EQ(SignedTensors(Reader::kWidens), 1);
  EXPECT_EQ(SignedTensors(Reader::kWidens, 128, {1, 1}), 1);
  EXPECT_EQ(SignedTensors(Reader::kSubtracts), 1);
}

TEST(ReadUnsigned, OtherReadersKeepTheSign) {
  EXPECT_EQ(SignedTensors(Reader::kNone), 1);
  EXPECT_EQ(SignedTensors(Reader::kTransposes), 2);
  EXPECT_EQ(SignedTensors(Reader::kIsOutput), 1);
  EXPECT_EQ(SignedTensors(Reader::kWidens, 100), 2) << "another offset";
  EXPECT_EQ(SignedTensors(Reader::kWidens, 128, {1, 1, 1}), 2) << "an offset of a higher rank than the bytes";
}

}  // namespace
}  // namespace autotune::graph
