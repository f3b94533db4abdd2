// Functions of one tensor of bytes with results of bytes become tables; everything else stays as it is.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/pass.h"
#include "tests/graph/quantizer.h"

namespace autotune::graph {
namespace {

constexpr DType kI8 = DType::Int(8), kU8 = DType::UInt(8), kF32 = DType::Float(32);
const ByteScale kUnsigned = {0.05, 117, kU8}, kSigned = {0.04, -13, kI8}, kOfResult = {0.02, 9, kU8};
const Shape kShape = {4, 100};

// Expects that the tables compute the same. Returns the graph with tables.
Graph WithTables(Quantizer& m, ByteLookUps look_ups = ByteLookUps::kInRegisters) {
  const Graph g = m.b.Finish();
  Counting counting;
  counting.env.byte_look_ups = look_ups;
  const Graph now = *FoldConstants(*ByteTables(g, counting.env), counting.env);
  ExpectEqualOutputs(g, now);
  return now;
}

int Tables(Quantizer& m, ByteLookUps look_ups = ByteLookUps::kInRegisters) {
  return CountOps(WithTables(m, look_ups), Op::kLookUp);
}

TEST(ByteTables, FunctionsOfOneTensor) {
  for (const ByteScale& of : {kUnsigned, kSigned}) {
    for (const ByteScale& to : {kUnsigned, kSigned}) {
      Quantizer m(1);
      const ValueId x = m.Input("x", kShape, of);
      m.b.Output(m.Quantize(m.b.Must(Op::kMul, {x, m.b.Must(Op::kSigmoid, {x})}), to), "y");
      const Graph now = WithTables(m);
      ASSERT_EQ(now.nodes.size(), 1u) << GraphText(now);
      EXPECT_EQ(now.nodes[0].op, Op::kLookUp);
    }
  }
}

// The steps between are quantized as well, as in a GELU.
TEST(ByteTables, ChainsOfFunctions) {
  Quantizer m(2);
  const ValueId x = m.Input("x", kShape, kUnsigned);
  ValueId y = m.Dequantize(m.Quantize(m.b.Must(Op::kErf, {x}), kSigned), kSigned);
  y = m.Dequantize(m.Quantize(m.b.Must(Op::kAdd, {y, m.Number(1)}), kOfResult), kOfResult);
  m.b.Output(m.Quantize(m.b.Must(Op::kMul, {x, y}), kSigned), "y");
  const Graph now = WithTables(m);
  EXPECT_EQ(now.nodes.size(), 1u) << GraphText(now);
}

// A long chain becomes several tables, each of a chain that compiles in little time.
TEST(ByteTables, LongChainsAreSplit) {
  Quantizer m(8);
  ValueId x = m.Input("x", kShape, kUnsigned);
  for (int i = 0; i < 100; ++i) {
    const ByteScale& to = i % 2 ? kUnsigned : kSigned;
    x = m.Dequantize(m.Quantize(m.b.Must(Op::kAbs, {x}), to), to);
  }
  m.b.Output(m.Quantize(x, kOfResult), "y");
  const Graph now = WithTables(m);
  EXPECT_EQ(CountOps(now, Op::kLookUp), static_cast<int>(now.nodes.size()));
  EXPECT_GT(now.nodes.size(), 1u);
  EXPECT_LT(now.nodes.size(), 10u);
}

// What reads a step between as well reads it from memory, and so does the second function.
TEST(ByteTables, StepsThatOthersRead) {
  for (const bool is_output : {false, true}) {
    Quantizer m(3);
    const ValueId x = m.Input("x", kShape, kUnsigned), other = m.b.Input("other", F32(kShape));
    const ValueId between = m.Quantize(m.b.Must(Op::kErf, {x}), kSigned), wide = m.Dequantize(between, kSigned);
    m.b.Output(is_output ? between : m.b.Must(Op::kAdd, {wide, other}), "z");
    m.b.Output(m.Quantize(m.b.Must(Op::kTanh, {wide}), kOfResult), "y");
    const Graph now = WithTables(m);
    ASSERT_EQ(CountOps(now, Op::kLookUp), 2);
    const auto is_look_up = [](const Node& node) { return node.op == Op::kLookUp; };
    const auto first = std::ranges::find_if(now.nodes, is_look_up),
               second = std::find_if(std::next(first), now.nodes.end(), is_look_up);
    EXPECT_EQ(second->inputs[0], first->output) << GraphText(now);
  }
}

TEST(ByteTables, QuantizationWithAnotherScaleIsWorthRegisters) {
  const auto tables = [](ByteLookUps look_ups, bool sigmoid) {
    Quantizer m(4);
    const ValueId x = m.Input("x", kShape, kUnsigned);
    m.b.Output(m.Quantize(sigmoid ? m.b.Must(Op::kSigmoid, {x}) : x, kOfResult), "y");
    return Tables(m, look_ups);
  };
  EXPECT_EQ(tables(ByteLookUps::kInRegisters, false), 1);
  EXPECT_EQ(tables(ByteLookUps::kByLoads, false), 0) << "arithmetic is faster than a load for each byte";
  EXPECT_EQ(tables(ByteLookUps::kByLoads, true), 1);
  EXPECT_EQ(tables(ByteLookUps::kNone, true), 0);
}

// However long arithmetic is, vectors of it are faster than a load for each byte.
TEST(ByteTables, LongArithmeticIsNotWorthLoads) {
  const auto tables = [](ByteLookUps look_ups) {
    Quantizer m(9);
    ValueId x = m.Input("x", kShape, kUnsigned);
    for (int i = 0; i < 4; ++i) x = m.Dequantize(m.Quantize(m.b.Must(Op::kAbs, {x}), kOfResult), kOfResult);
    m.b.Output(m.Quantize(x, kSigned), "y");
    return Tables(m, look_ups);
  };
  EXPECT_EQ(tables(ByteLookUps::kInRegisters), 1);
  EXPECT_EQ(tables(ByteLookUps::kByLoads), 0);
}

TEST(ByteTables, OthersStay) {
  const auto tables = [](auto&& make, const Shape& shape = kShape) {
    Quantizer m(5);
    const ValueId x = m.Input("x", shape, kUnsigned);
    m.b.Output(make(m, x), "y");
    return Tables(m);
  };
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) { return m.b.Must(Op::kSigmoid, {x}); }), 0) << "no bytes";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) { return m.b.Must(Op::kCast, {x}, CastAttrs{kU8}); }), 0) << "cheap";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) {
              const ValueId other = m.Input("other", kShape, kSigned);
              return m.Quantize(m.b.Must(Op::kMul, {x, m.b.Must(Op::kSigmoid, {other})}), kOfResult);
            }),
            0)
      << "of two tensors";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) {
              return m.Quantize(m.b.Must(Op::kSigmoid, {m.b.Must(Op::kMul, {x, m.Random({100})})}), kOfResult);
            }),
            0)
      << "with a factor for each column";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) { return m.Quantize(m.b.Must(Op::kSigmoid, {x}), kOfResult); }, {255}),
            0)
      << "the table would be longer";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) {
              const ValueId number = m.b.AddConstant("", TensorValue::FromNumbers(kF32, {1, 1, 1}, {2}));
              return m.Quantize(m.b.Must(Op::kSigmoid, {m.b.Must(Op::kMul, {x, number})}), kOfResult);
            }),
            0)
      << "a result of a higher rank";
  EXPECT_EQ(tables([](Quantizer& m, ValueId x) {
              const ValueId row = m.b.Must(Op::kReduceSum, {x}, AxesAttrs{{1}});
              return m.Quantize(m.b.Must(Op::kSigmoid, {m.b.Must(Op::kAdd, {x, row})}), kOfResult);
            }),
            0)
      << "also of the sum of its row";
}

// Numbers may be computed from constants.
TEST(ByteTables, NumbersThatFollowFromConstants) {
  Quantizer m(6);
  const ValueId x = m.b.Input("x", {kI8, kShape}), wide = m.b.Must(Op::kCast, {x}, CastAttrs{DType::Int(32)});
  const ValueId zero = m.b.Must(Op::kCast, {m.b.AddConstant("", TensorValue::FromNumbers(kI8, {1, 1}, {-7}))},
                                CastAttrs{DType::Int(32)});
  const ValueId centered = m.b.Must(Op::kCast, {m.b.Must(Op::kSub, {wide, zero})}, CastAttrs{kF32});
  const ValueId y = m.b.Must(Op::kTanh, {m.b.Must(Op::kMul, {centered, m.Number(0.03)})});
  m.b.Output(m.Quantize(y, {1.0 / 127, 0, kI8}), "y");
  EXPECT_EQ(Tables(m), 1);
}

// Equal functions of two tensors have one table.
TEST(ByteTables, EqualFunctionsShareATable) {
  Quantizer m(7);
  for (const char* name : {"a", "b"}) {
    const ValueId x = m.Input(name, kShape, kUnsigned);
    m.b.Output(m.Quantize(m.b.Must(Op::kSigmoid, {x}), kOfResult), std::string(name) + "_out");
  }
  Counting counting;
  counting.env.byte_look_ups = ByteLookUps::kInRegisters;
  const Graph g = m.b.Finish();
  const Graph now =
      *FoldConstants(*ShareCommonSubexpressions(*ByteTables(g, counting.env), counting.env), counting.env);
  ExpectEqualOutputs(g, now);
  ASSERT_EQ(now.nodes.size(), 2u);
  EXPECT_EQ(now.nodes[0].inputs[1], now.nodes[1].inputs[1]);
}

}  // namespace
}  // namespace autotune::graph
