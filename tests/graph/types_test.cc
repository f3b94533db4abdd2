// Element types: an operator agrees with the reference in every type that the table of operators allows. It refuses
// every other type, with an error that names the type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/interpreted.h"

namespace autotune::graph {
namespace {

using ::testing::HasSubstr;

const DType kTypes[] = {DType::Float(32), DType::Float(64), DType::Int(8),    DType::Int(16),  DType::Int(32),
                        DType::Int(64),   DType::UInt(8),   DType::UInt(16),  DType::UInt(32), DType::UInt(64),
                        DType::Bool(),    DType::Float(16), DType::BFloat16()};

// Operands and attributes that fit an operator.
struct TypeExample {
  std::vector<Shape> shapes;
  Attrs attrs;
};

TypeExample ExampleOf(Op op) {
  const Shape image = {1, 4, 4, 2}, solid = {1, 3, 4, 4, 2}, matrix = {3, 5};
  const PoolAttrs flat{{2, 2}, {1, 1}, {0, 1, 1, 0}, {1, 1}, false, false, Layout::kNHWC};
  const PoolAttrs deep{{2, 2, 2}, {1, 1, 1}, {0, 1, 0, 1, 0, 1}, {1, 1, 1}, false, false, Layout::kNHWC};
  switch (op) {
    case Op::kConv2d:
      return {{image, {3, 3, 2, 3}}, ConvAttrs{{1, 1}, {1, 1, 1, 1}, {1, 1}, 1, Layout::kNHWC}};
    case Op::kConv3d:
      return {{solid, {2, 2, 2, 2, 3}}, ConvAttrs{{1, 1, 1}, {0, 0, 0, 1, 1, 1}, {1, 1, 1}, 1, Layout::kNHWC}};
    case Op::kMatmul:
      return {{matrix, {5, 2}}, {}};
    case Op::kBatchMatmul:
      return {{{2, 3, 5}, {2, 5, 2}}, {}};
    case Op::kMaxPool2d:
    case Op::kAvgPool2d:
    case Op::kArgMaxPool:
      return {{image}, flat};
    case Op::kMaxPool3d:
    case Op::kAvgPool3d:
      return {{solid}, deep};
    case Op::kGlobalAvgPool:
    case Op::kGlobalMaxPool:
      return {{image}, ImageAttrs{Layout::kNHWC}};
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kReduceMax:
    case Op::kReduceMin:
      return {{matrix}, AxesAttrs{{1}}};
    case Op::kLrn:
      return {{image}, LrnAttrs{.size = 2, .axis = 3}};
    case Op::kConcat:
    case Op::kGatherElements:
      return {{matrix, matrix}, AxisAttrs{0}};
    case Op::kScatter:
      return {{matrix, {2, 5}, {2, 1}}, ScatterAttrs{}};
    case Op::kCumulate:
      return {{matrix}, CumulateAttrs{1, true, true, false}};
    case Op::kTopK:
      return {{matrix}, TopKAttrs{3, true}};
    case Op::kSelectBoxes:
      return {{{2, 5, 4}, {2, 3, 5}, {2, 3, 5}}, BoxesAttrs{.most = 2, .rows = 7, .overlap = 0.5}};
    case Op::kGatherSum:
      return {{{2, 4, 3}, {2, 5, 3}, {2, 5, 3}}, {}};
    case Op::kDet:
      return {{{2, 3, 3}}, {}};
    case Op::kGather:
      return {{matrix, {4}}, AxisAttrs{0}};
    case Op::kSlice:
      return {{matrix}, SliceAttrs{{2, 0}, {3, 2}, {-1, 2}}};
    case Op::kPad:
      return {{matrix}, PadAttrs{{1, 0}, {0, 2}, {0, 0}, PadMode::kConstant, 1}};
    case Op::kBroadcastTo:
      return {{{3, 1}}, ReshapeAttrs{{3, 4}}};
    case Op::kReshape:
      return {{matrix}, ReshapeAttrs{{5, 3}}};
    case Op::kTranspose:
      return {{matrix}, TransposeAttrs{{1, 0}}};
    case Op::kCast:
      return {{matrix}, CastAttrs{DType::Float(32)}};
    case Op::kClip:
      return {{matrix}, ClipAttrs{0, 1}};
    default:
      break;
  }
  const OpInfo& info = GetOpInfo(op);
  return {std::vector<Shape>(info.num_inputs, matrix), info.defaults};
}

bool Takes(OperandTypes types, DType type) {
  switch (types) {
    case OperandTypes::kAnyNumbers:
    case OperandTypes::kFactors:
      return !type.IsBool();
    case OperandTypes::kComputed:
      return !type.IsHalf();
    case OperandTypes::kFloats:
    case OperandTypes::kWeighted:
      return type.IsFloat() && !type.IsHalf();
    case OperandTypes::kNumbers:
      return !type.IsBool() && !type.IsHalf();
    case OperandTypes::kSigned:
      return (type.IsFloat() && !type.IsHalf()) || type.code == TypeCode::kInt;
    case OperandTypes::kIntegers:
      return type.IsInt();
    case OperandTypes::kBools:
      return type.IsBool();
    case OperandTypes::kBits:
      return type.IsBool() || type.IsInt();
    case OperandTypes::kUnsigned:
      return type.IsInt() && type.code == TypeCode::kUInt;
    default:
      return true;
  }
}

bool HasLastIndices(OperandTypes types) { return types == OperandTypes::kPlaced || types == OperandTypes::kWeighted; }

// Builds the operator on operands of `type`. The second operand is of type `other` if that differs from `type`.
Result<Graph> GraphOf(Op op, DType type, DType other) {
  TypeExample example = ExampleOf(op);
  if (op == Op::kBitCast) {  // to another type of the same width
    const bool has_float = type.IsInt() && type.bits >= 16;
    example.attrs = CastAttrs{has_float ? DType::Float(type.bits) : DType::Int(type.bits)};
  }
  OperandTypes types = GetOpInfo(op).types;
  GraphBuilder b;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < example.shapes.size(); ++i) {
    DType own = types == OperandTypes::kSelected && i == 0                ? DType::Bool()
                : types == OperandTypes::kIndexed && i == 1               ? DType::Int(64)
                : HasLastIndices(types) && i + 1 == example.shapes.size() ? DType::Int(32)
                                                                          : type;
    if (i == 1 && other != type) own = other;
    inputs.push_back(b.Input("x" + std::to_string(i), {own, example.shapes[i]}));
  }
  b.Output(TRY(b.Add(op, inputs, example.attrs)), "y");
  return b.Finish();
}

TEST(ElementTypes, EveryOperatorComputesWhatItTakes) {
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (op == Op::kFused || op == Op::kCall || op == Op::kBatchNorm)
      continue;  // these are not lowered as single operators
    if (GetOpInfo(op).types == OperandTypes::kOwn) continue;
    for (DType type : kTypes) {
      SCOPED_TRACE(std::string(ToText(op)) + " of " + type.Text());
      Result<Graph> graph = GraphOf(op, type, type);
      ASSERT_EQ(graph.ok(), Takes(GetOpInfo(op).types, type)) << (graph.ok() ? "taken" : graph.error().Text());
      if (!graph.ok()) {
        EXPECT_THAT(graph.error().Text(), HasSubstr("is for ")) << graph.error().Text();
        continue;
      }
      EXPECT_EQ(reference::LoweredMismatch(*graph, 1), "");
    }
  }
}

TEST(ElementTypes, OperandsHaveOneType) {
  for (int i = 0; i < kNumOps; ++i) {
    const Op op = static_cast<Op>(i);
    if (op == Op::kFused || op == Op::kCall || GetOpInfo(op).types == OperandTypes::kOwn) continue;
    if (ExampleOf(op).shapes.size() < 2) continue;
    DType own = GetOpInfo(op).types == OperandTypes::kBools ? DType::Bool() : DType::Float(32);
    if (GetOpInfo(op).types == OperandTypes::kIntegers) own = DType::Int(64);
    if (GetOpInfo(op).types == OperandTypes::kBits) own = DType::Int(64);
    if (GetOpInfo(op).types == OperandTypes::kUnsigned) own = DType::UInt(64);
    Result<Graph> mixed = GraphOf(op, own, DType::Float(64));
    ASSERT_FALSE(mixed.ok()) << ToText(op);
    bool indexed = GetOpInfo(op).types == OperandTypes::kIndexed;
    EXPECT_THAT(mixed.error().Text(), HasSubstr(indexed ? "takes indices that are integers" : "element types differ"));
  }
}

TEST(ElementTypes, ProductsTakeBytesAndOtherFactors) {
  const DType u8 = DType::UInt(8), i8 = DType::Int(8), f32 = DType::Float(32), i32 = DType::Int(32);
  for (Op op : {Op::kConv2d, Op::kMatmul, Op::kBatchMatmul}) {
    for (const auto& [a, b, sum] : {std::tuple{u8, i8, i32},
                                    {i8, u8, i32},
                                    {u8, u8, i32},
                                    {DType::Int(16), DType::Int(16), i32},
                                    {u8, f32, f32},
                                    {f32, i8, f32},
                                    {f32, DType::Float(16), f32}}) {
      const Result<Graph> graph = GraphOf(op, a, b);
      ASSERT_TRUE(graph.ok()) << ToText(op) << ": " << graph.error().Text();
      EXPECT_EQ(graph->Spec(graph->outputs[0]).dtype, sum) << ToText(op);
      EXPECT_EQ(reference::LoweredMismatch(*graph, 1), "") << ToText(op) << " of " << a.Text() << ", " << b.Text();
    }
    EXPECT_FALSE(GraphOf(op, f32, i32).ok());
    EXPECT_FALSE(GraphOf(op, DType::Float(16), f32).ok());
    EXPECT_FALSE(GraphOf(op, u8, i32).ok());
  }
}

TEST(ElementTypes, PaddingHoldsWhatTheImageCanHold) {
  const auto padded = [](DType type, int64_t value) {
    GraphBuilder b;
    const ValueId x = b.Input("x", {type, {1, 3, 3, 4}}), w = b.Input("w", {type, {3, 3, 4, 2}});
    ConvAttrs attrs{.pads = {1, 1, 1, 1}, .layout = Layout::kNHWC, .pad_value = value};
    return b.Add(Op::kConv2d, {x, w}, attrs);
  };
  EXPECT_TRUE(padded(DType::UInt(8), 255).ok());
  EXPECT_TRUE(padded(DType::Int(8), -128).ok());
  EXPECT_TRUE(padded(DType::Float(32), 0).ok());
  for (const auto& [type, value] : {std::pair{DType::UInt(8), int64_t{256}},
                                    {DType::UInt(8), int64_t{-1}},
                                    {DType::Int(8), int64_t{128}},
                                    {DType::Float(32), int64_t{1}}}) {
    const auto refused = padded(type, value);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().Text(), HasSubstr("pad_value " + std::to_string(value))) << type.Text();
  }
}

}  // namespace
}  // namespace autotune::graph
