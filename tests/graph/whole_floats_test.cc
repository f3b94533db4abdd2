// Integers between floats: what the pass leaves out does not change a bit, and what would change stays.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>

#include "graph/pass.h"
#include "graph/to_te.h"
#include "ir/interp.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

constexpr DType kU8 = DType::UInt(8), kI8 = DType::Int(8), kU16 = DType::UInt(16), kI32 = DType::Int(32);
constexpr float kScale = 0.25f;
const Shape kShape = {5, 6};

// QuantizeLinear and DequantizeLinear as the importer makes them, with variations.
struct Trip {
  DType type = kU8;
  std::vector<float> zero = {0};     // of QuantizeLinear: one number, or one for each column
  std::vector<int32_t> shift = {0};  // of DequantizeLinear
  float low = 0, high = 255;
  bool round = true;
  bool add = true;
  bool reads_integers = false;  // the integers are an output, too
  std::optional<float> addend;  // added to the result
  std::optional<DType> moved;   // the result is integers of this type, minus `shift`

  Graph Build() const {
    Maker m(1);
    GraphBuilder& b = m.b;
    auto number = [&](float x) { return b.AddConstant("", TensorValue::Scalar(x)); };
    auto row = [&](auto values) {
      using T = typename decltype(values)::value_type;
      const Shape shape = values.size() == 1 ? Shape{} : Shape{1, static_cast<int64_t>(values.size())};
      return b.AddConstant("", TensorValue::Of<T>(shape, values));
    };
    ValueId y = b.Must(Op::kDiv, {b.Input("x", F32(kShape)), number(kScale)});
    if (round) y = b.Must(Op::kRound, {y});
    if (add) y = b.Must(Op::kAdd, {y, row(zero)});
    y = b.Must(Op::kMin, {b.Must(Op::kMax, {y, number(low)}), number(high)});
    const ValueId integers = b.Must(Op::kCast, {y}, CastAttrs{type});
    y = b.Must(Op::kSub, {b.Must(Op::kCast, {integers}, CastAttrs{kI32}), row(shift)});
    if (moved) {
      b.Output(b.Must(Op::kCast, {y}, CastAttrs{*moved}), "y");
      if (reads_integers) b.Output(integers, "integers");
      return b.Finish();
    }
    y = b.Must(Op::kMul, {b.Must(Op::kCast, {y}, CastAttrs{DType::Float(32)}), number(kScale)});
    if (addend) y = b.Must(Op::kAdd, {y, number(*addend)});
    b.Output(y, "y");
    if (reads_integers) b.Output(integers, "integers");
    return b.Finish();
  }
};

// Special numbers, both sides of halves and of the ends of 8-bit types, and numbers beyond all integers.
std::vector<double> Numbers() {
  const float inf = INFINITY;
  std::vector<double> numbers = {NAN,  inf, -inf, -0.0, 0.0,  0.125, -0.125, 0.375, 1e30, -1e30, 1e-40,
                                 -1e9, 63,  64,   -32,  31.8, -33,   5e6,    -5e6,  17e6, 4e9};
  Rng rng(3);
  while (static_cast<int64_t>(numbers.size()) < reference::Count(kShape)) numbers.push_back(rng.Below(800) / 8.0 - 50);
  return numbers;
}

// Returns the bits of the first output, from the interpreted kernels.
std::vector<uint64_t> Bits(const Graph& g) {
  const Graph fused = *Fuse(g, {});
  const Target target = *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2");
  std::vector<InterpArray> values(fused.values.size());
  values[fused.inputs[0]] = {DType::Float(32), kShape, Numbers()};
  for (const Constant& c : fused.constants) {
    const reference::Tensor t = reference::FromValue(fused.ConstantValue(c));
    values[c.value] = {t.dtype, t.shape, t.data};
  }
  for (const Node& node : fused.nodes) {
    const TensorSpec& spec = fused.Spec(node.output);
    std::vector<InterpArray> arrays;
    for (ValueId v : node.inputs) arrays.push_back(values[v]);
    arrays.push_back({spec.dtype, spec.shape, std::vector<double>(reference::Count(spec.shape))});
    const auto alternatives = LowerSubgraph(*node.body, target);
    EXPECT_TRUE(alternatives.ok() && Interpret(alternatives->front().func, arrays).ok());
    values[node.output] = arrays.back();
  }
  std::vector<uint64_t> bits;
  for (double x : values[fused.outputs[0]].data) bits.push_back(std::bit_cast<uint64_t>(x));
  return bits;
}

// Expects that the pass keeps every bit; returns how many conversions are left.
int Conversions(const Trip& trip) {
  const Graph g = trip.Build(), now = *WholeFloats(g, {});
  EXPECT_EQ(Bits(g), Bits(now)) << GraphText(now);
  return CountOps(now, Op::kCast);
}

TEST(WholeFloats, TripsThroughIntegersStayFloats) {
  EXPECT_EQ(Conversions({}), 0);
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {131}}), 0);
  EXPECT_EQ(Conversions({.type = kI8, .zero = {-3}, .shift = {-3}, .low = -128, .high = 127}), 0);
  EXPECT_EQ(Conversions({.type = kI8, .low = -127, .high = 127}), 0) << "a narrower range";
  EXPECT_EQ(Conversions({.type = kU16, .zero = {9}, .shift = {9}, .high = 65535}), 0);
  EXPECT_EQ(Conversions({.zero = {1, 2, 3, 4, 5, 255}, .shift = {1, 2, 3, 4, 5, 0}}), 0) << "a zero for each column";
}

TEST(WholeFloats, OthersConvert) {
  EXPECT_EQ(Conversions({.round = false}), 3) << "fractions are cut off";
  EXPECT_EQ(Conversions({.zero = {0.5f}}), 3) << "fractions are cut off";
  EXPECT_EQ(Conversions({.add = false}), 3) << "the integer of -0 is 0";
  EXPECT_EQ(Conversions({.zero = {-0.f}}), 3) << "the integer of -0 is 0";
  EXPECT_EQ(Conversions({.type = kI8}), 3) << "255 wraps around";
  EXPECT_EQ(Conversions({.low = -1}), 3) << "-1 wraps around";
  EXPECT_EQ(Conversions({.low = 0.5f}), 3) << "fractions are cut off";
  EXPECT_EQ(Conversions({.type = kI32, .high = 1 << 25}), 3) << "f32 does not hold all such integers";
  EXPECT_EQ(Conversions({.shift = {-(1 << 24)}}), 3) << "f32 does not hold all such integers";
  EXPECT_EQ(Conversions({.reads_integers = true}), 3) << "the integers are made anyway";
}

// Bytes that products read with the other sign are made so.
TEST(WholeFloats, OtherSignsAreMadeAtOnce) {
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {128}, .moved = kI8}), 1);
  EXPECT_EQ(Conversions({.type = kI8, .zero = {-3}, .shift = {-128}, .low = -128, .high = 127, .moved = kU8}), 1);
  EXPECT_EQ(Conversions({.zero = {1, 2, 3, 4, 5, 255}, .shift = {128}, .moved = kI8}), 1) << "a zero for each column";
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {127}, .moved = kI8}), 3) << "128 wraps around";
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {129}, .moved = kI8}), 3) << "-129 wraps around";
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {-5}, .moved = kI32}), 3) << "no bytes";
  EXPECT_EQ(Conversions({.zero = {131}, .shift = {128}, .reads_integers = true, .moved = kI8}), 3)
      << "the other bytes are made anyway";
}

// Returns how many sums and differences are left beside that with the addend.
int ZeroPoints(const Trip& trip) {
  const Graph g = trip.Build(), now = *WholeFloats(g, {});
  EXPECT_EQ(Bits(g), Bits(now)) << GraphText(now);
  return CountOps(now, Op::kAdd) + CountOps(now, Op::kSub) - (trip.addend ? 1 : 0);
}

TEST(WholeFloats, BoundsTakeTheZeroPoint) {
  EXPECT_EQ(ZeroPoints({.zero = {131}, .shift = {131}, .addend = 1}), 0);
  EXPECT_EQ(ZeroPoints({.addend = 1}), 0);
  EXPECT_EQ(ZeroPoints({.type = kI8, .zero = {-3}, .shift = {-3}, .low = -128, .high = 127, .addend = 0}), 0);
  EXPECT_EQ(ZeroPoints({.zero = {131}, .shift = {130}, .addend = 1}), 1) << "two zero points: their difference";
}

TEST(WholeFloats, OtherZeroPointsStay) {
  EXPECT_EQ(ZeroPoints({.zero = {131}, .shift = {131}}), 2) << "the result would have -0";
  EXPECT_EQ(ZeroPoints({.zero = {131}, .shift = {131}, .addend = -0.f}), 2) << "so would this";
  EXPECT_EQ(ZeroPoints({.zero = {1, 2, 3, 4, 5, 6}, .shift = {1, 2, 3, 4, 5, 6}, .addend = 1}), 2) << "one per column";
}

}  // namespace
}  // namespace autotune::graph
