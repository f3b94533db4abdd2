#include "graph/to_te.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "tests/graph/interpreted.h"
#include "tests/graph/maker.h"

namespace autotune::graph {
namespace {

Target Cpu() { return *Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2"); }

Graph Typed(Op op, const std::vector<TensorSpec>& inputs, Attrs attrs = {}) {
  GraphBuilder b;
  std::vector<ValueId> in;
  for (const TensorSpec& spec : inputs) in.push_back(b.Input("", spec));
  b.Output(b.Must(op, in, attrs), "");
  return b.Finish();
}

// Returns a graph of one operator on inputs of these shapes. The operands from number `constants` on are constant
// parameters.
Graph Single(Op op, const std::vector<Shape>& shapes, Attrs attrs = {}, size_t constants = 99) {
  GraphBuilder b;
  std::vector<ValueId> in;
  for (size_t i = 0; i < shapes.size(); ++i)
    in.push_back(i < constants ? b.Input("", F32(shapes[i])) : b.ConstantParameter("", F32(shapes[i])));
  b.Output(b.Must(op, in, attrs), "");
  return b.Finish();
}

void ExpectRight(const Graph& body) { EXPECT_EQ(reference::LoweredMismatch(body, 3), "") << GraphText(body); }

TEST(LowerSubgraph, Convolutions) {
  ConvAttrs a;
  a.layout = Layout::kNHWC;
  ExpectRight(Single(Op::kConv2d, {{1, 5, 7, 3}, {1, 1, 3, 4}}, a, 1));
  a.pads = {1, 0, 2, 1};
  a.strides = {2, 1};
  ExpectRight(Single(Op::kConv2d, {{2, 7, 6, 3}, {3, 2, 3, 5}}, a, 1));
  a.dilations = {2, 2};
  a.groups = 2;
  ExpectRight(Single(Op::kConv2d, {{1, 9, 9, 6}, {3, 3, 3, 4}}, a, 1));
  a.groups = 6;
  ExpectRight(Single(Op::kConv2d, {{1, 9, 9, 6}, {3, 3, 1, 6}}, a, 1));
  ExpectRight(Single(Op::kConv2d, {{1, 9, 9, 6}, {3, 3, 1, 12}}, a, 1));
  for (int64_t groups : {1, 2, 4}) {
    ConvAttrs solid{{2, 1, 2}, {1, 0, 2, 0, 1, 1}, {1, 2, 1}, groups, Layout::kNHWC};
    ExpectRight(Single(Op::kConv3d, {{1, 5, 6, 4, 4}, {3, 2, 3, 4 / groups, 8}}, solid, 1));
  }
}

TEST(LowerSubgraph, ConvolutionsOfImagesWithChannelsFirst) {
  ConvAttrs a;
  ExpectRight(Single(Op::kConv2d, {{1, 3, 5, 7}, {1, 3, 1, 1}}, a, 1));
  a.pads = {1, 0, 2, 1};
  a.strides = {2, 1};
  ExpectRight(Single(Op::kConv2d, {{2, 3, 7, 6}, {4, 3, 3, 2}}, a, 1));
  a.dilations = {2, 3};
  ExpectRight(Single(Op::kConv2d, {{2, 3, 7, 9}, {2, 3, 3, 2}}, a, 1));
  const ConvAttrs solid{{2, 1, 2}, {1, 0, 2, 0, 1, 1}, {1, 2, 1}, 1, Layout::kNCHW};
  ExpectRight(Single(Op::kConv3d, {{1, 4, 5, 6, 4}, {2, 4, 3, 2, 3}}, solid, 1));
}

TEST(LowerSubgraph, PoolsOfImagesWithChannelsFirst) {
  for (Op op : {Op::kMaxPool2d, Op::kAvgPool2d}) {
    PoolAttrs a{.kernel = {2, 3}, .strides = {2, 1}};
    ExpectRight(Single(op, {{2, 3, 7, 9}}, a));
    a.pads = {1, 0, 1, 2};
    ExpectRight(Single(op, {{2, 3, 7, 9}}, a));
    a.ceil_mode = true;
    a.count_include_pad = true;
    ExpectRight(Single(op, {{2, 3, 8, 9}}, a));
  }
}

TEST(LowerSubgraph, Products) {
  ExpectRight(Single(Op::kMatmul, {{3, 5}, {5, 7}}, {}, 1));
  ExpectRight(Single(Op::kBatchMatmul, {{4, 3, 5}, {4, 5, 2}}));
  ExpectRight(Single(Op::kBatchMatmul, {{2, 1, 3, 5}, {1, 4, 5, 2}}));
}

TEST(LowerSubgraph, ProductsOfBlocks) {
  const auto operands = [](int64_t held, bool has_zeros) {
    std::vector<TensorSpec> specs = {{DType::Int(8), {3, 2 * 16}},
                                     {DType::UInt(8), {2, held, 5}},
                                     {DType::Float(32), {2, 5}},
                                     {DType::Float(32), {3, 2}},
                                     {DType::Int(32), {3, 2}}};
    if (has_zeros) specs.push_back({DType::UInt(8), {2, 5}});
    return specs;
  };
  ExpectRight(Typed(Op::kBlockMatmul, operands(16, false)));
  ExpectRight(Typed(Op::kBlockMatmul, operands(8, false)));
  ExpectRight(Typed(Op::kBlockMatmul, operands(8, true)));
  const auto error = [&](const std::vector<TensorSpec>& specs) {
    const auto made = InferType(Op::kBlockMatmul, {}, specs);
    return made.ok() ? "" : made.error().Text();
  };
  EXPECT_EQ(error(operands(8, true)), "");
  EXPECT_NE(error(operands(7, true)), "");
  EXPECT_NE(error(operands(4, false)), "") << "four numbers a byte";
  std::vector<TensorSpec> few = operands(8, false);
  few.pop_back();
  EXPECT_NE(error(few), "");
}

TEST(LowerSubgraph, ProductsOfBlocksOfFloats) {
  const auto operands = [](DType type, int64_t held, bool has_zeros) {
    std::vector<TensorSpec> specs = {{DType::Float(32), {3, 2 * 16}}, {type, {2, held, 5}}, {DType::Float(32), {2, 5}}};
    if (has_zeros) specs.insert(specs.end(), {{DType::Float(32), {3, 2}}, {DType::Int(8), {2, 5}}});
    return specs;
  };
  const DType word = DType::Int(32), byte = DType::Int(8);
  for (const bool has_zeros : {true, false}) {
    ExpectRight(Typed(Op::kBlockMatmul, operands(byte, 16, has_zeros)));
    ExpectRight(Typed(Op::kBlockMatmul, operands(word, 2, has_zeros)));
  }
  const auto fits = [](const std::vector<TensorSpec>& specs) { return InferType(Op::kBlockMatmul, {}, specs).ok(); };
  EXPECT_FALSE(fits(operands(byte, 8, false))) << "two numbers a byte";
  EXPECT_FALSE(fits(operands(word, 16, false)));
  EXPECT_FALSE(fits(operands(DType::UInt(8), 16, false)));
  std::vector<TensorSpec> few = operands(word, 2, true);
  few.pop_back();
  EXPECT_FALSE(fits(few)) << "offsets without zero points";
}

TEST(LowerSubgraph, Elementwise) {
  for (Op op : {Op::kRelu, Op::kSigmoid, Op::kSqrt, Op::kTanh,  Op::kErf,   Op::kExp,   Op::kLog,   Op::kAbs,
                Op::kNeg,  Op::kFloor,   Op::kCeil, Op::kRound, Op::kIsNan, Op::kSin,   Op::kCos,   Op::kTan,
                Op::kAsin, Op::kAcos,    Op::kAtan, Op::kSinh,  Op::kCosh,  Op::kAsinh, Op::kAcosh, Op::kAtanh}) {
    ExpectRight(Single(op, {{2, 3, 4}}));
    ExpectRight(Typed(op, {{DType::Float(64), {2, 3, 4}}}));
  }
  ExpectRight(Single(Op::kLeakyRelu, {{3, 5}}, AlphaAttrs{0.25f}));
  for (Op op :
       {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kPow, Op::kMax, Op::kMin, Op::kEqual, Op::kLess, Op::kLessEqual}) {
    ExpectRight(Single(op, {{2, 3, 4}, {3, 1}}));
    ExpectRight(Single(op, {{4}, {2, 3, 4}}));
    ExpectRight(Single(op, {{}, {2, 3}}));
  }
  ExpectRight(Single(Op::kClip, {{2, 9}}, ClipAttrs{-0.5f, 0.25f}));
  ExpectRight(Single(Op::kClip, {{2, 9}}, ClipAttrs{0, std::numeric_limits<float>::infinity()}));
}

TEST(LowerSubgraph, OtherElementTypes) {
  for (DType type : {DType::Int(64), DType::Int(32), DType::UInt(8), DType::Float(64)}) {
    TensorSpec wide{type, {2, 3, 4}}, narrow{type, {3, 1}};
    for (Op op : {Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kEqual, Op::kLess})
      ExpectRight(Typed(op, {wide, narrow}));
    // Integer division by zero has a defined result.
    ExpectRight(Typed(Op::kDiv, {wide, narrow}));
    if (type.IsInt()) ExpectRight(Typed(Op::kMod, {wide, narrow}));
    for (DType to : {DType::Int(64), DType::Int(8), DType::Float(32), DType::Bool()}) {
      if (type.code != TypeCode::kUInt) ExpectRight(Typed(Op::kCast, {wide}, CastAttrs{to}));
    }
  }
  ExpectRight(Typed(Op::kAbs, {{DType::Int(32), {7}}}));
  TensorSpec flags{DType::Bool(), {4, 5}};
  for (Op op : {Op::kAnd, Op::kOr, Op::kXor}) ExpectRight(Typed(op, {flags, flags}));
  ExpectRight(Typed(Op::kNot, {flags}));
  for (int bits : {8, 16, 32, 64}) {
    for (DType type : {DType::Int(bits), DType::UInt(bits)}) {
      TensorSpec wide{type, {2, 3, 4}}, narrow{type, {3, 1}};
      for (Op op : {Op::kAnd, Op::kOr, Op::kXor}) ExpectRight(Typed(op, {wide, narrow}));
      ExpectRight(Typed(Op::kNot, {wide}));
      ExpectRight(Typed(Op::kBitCast, {wide}, CastAttrs{DType::Int(bits)}));
      ExpectRight(Typed(Op::kBitCast, {wide}, CastAttrs{DType::UInt(bits)}));
      if (bits >= 32) ExpectRight(Typed(Op::kBitCast, {wide}, CastAttrs{DType::Float(bits)}));
      if (type == DType::Int(bits)) continue;
      for (Op op : {Op::kShiftLeft, Op::kShiftRight}) ExpectRight(Typed(op, {wide, narrow}));
    }
  }
  ExpectRight(Typed(Op::kBitCast, {F32({7})}, CastAttrs{DType::Int(32)}));
  ExpectRight(Typed(Op::kWhere, {flags, F32({5}), F32({4, 1})}));
  ExpectRight(Typed(Op::kFma, {F32({4, 5}), F32({5}), F32({4, 1})}));
}

TEST(LowerSubgraph, LookUpsOfBytes) {
  const DType types[] = {DType::Int(8), DType::UInt(8)};
  for (const DType type : types)
    for (const DType of_table : types) ExpectRight(Typed(Op::kLookUp, {{type, {3, 7}}, {of_table, {256}}}));
  const auto refused = [](const TensorSpec& x, const TensorSpec& table) {
    return !InferType(Op::kLookUp, {}, {x, table}).ok();
  };
  EXPECT_TRUE(refused({DType::Int(16), {3}}, {DType::Int(8), {256}}));
  EXPECT_TRUE(refused({DType::Int(8), {3}}, {DType::Int(8), {255}}));
  EXPECT_TRUE(refused({DType::Int(8), {3}}, {DType::Int(8), {1, 256}}));
  EXPECT_TRUE(refused({DType::Int(8), {3}}, {DType::Float(32), {256}}));
}

TEST(LowerSubgraph, Reductions) {
  for (Op op : {Op::kReduceSum, Op::kReduceProd, Op::kReduceMax, Op::kReduceMin}) {
    for (const std::vector<int64_t>& axes : std::vector<std::vector<int64_t>>{{0}, {2}, {0, 2}, {1, 2}, {0, 1, 2}})
      ExpectRight(Single(op, {{3, 2, 5}}, AxesAttrs{axes}));
    ExpectRight(Single(op, {{1, 40}}, AxesAttrs{{1}}));
    ExpectRight(Single(op, {{2, 64}}, AxesAttrs{{1}}));
  }
  for (bool largest : {false, true}) {
    for (bool last : {false, true}) {
      ExpectRight(Single(Op::kArgReduce, {{3, 2, 5}}, ArgAttrs{1, largest, last}));
      ExpectRight(Typed(Op::kArgReduce, {{DType::Int(32), {2, 30}}}, ArgAttrs{1, largest, last}));
    }
  }
  ExpectRight(Single(Op::kGlobalMaxPool, {{2, 5, 4, 3}}, ImageAttrs{Layout::kNHWC}));
}

TEST(LowerSubgraph, WindowsAndNorms) {
  for (Op op : {Op::kMaxPool2d, Op::kAvgPool2d}) {
    for (bool include : {false, true}) {
      PoolAttrs a;
      a.layout = Layout::kNHWC;
      a.kernel = {3, 2};
      a.strides = {2, 2};
      a.pads = {1, 0, 1, 1};
      a.count_include_pad = include;
      ExpectRight(Single(op, {{1, 8, 8, 3}}, a));
      a.ceil_mode = true;
      ExpectRight(Single(op, {{1, 8, 9, 3}}, a));
      if (!include) ExpectRight(Single(Op::kArgMaxPool, {{1, 8, 9, 3}}, a));
    }
  }
  for (Op op : {Op::kMaxPool3d, Op::kAvgPool3d, Op::kArgMaxPool}) {
    PoolAttrs a{{2, 3, 2}, {1, 2, 2}, {1, 0, 1, 0, 2, 0}, {1, 1, 2}, true, true, Layout::kNHWC};
    ExpectRight(Single(op, {{1, 4, 6, 5, 2}}, a));
  }
  ExpectRight(Single(Op::kGlobalAvgPool, {{2, 5, 4, 3}}, ImageAttrs{Layout::kNHWC}));
  ExpectRight(Single(Op::kLrn, {{1, 2, 3, 8}}, LrnAttrs{5, 0.3f, 0.75f, 1, 3}));
  ExpectRight(Single(Op::kLrn, {{1, 8, 3, 2}}, LrnAttrs{4, 0.3f, 0.6f, 2, 1}));
  for (int64_t axis : {0, 1, 2}) ExpectRight(Single(Op::kSoftmax, {{3, 4, 5}}, AxisAttrs{axis}));
}

TEST(LowerSubgraph, Attention) {
  for (const AttentionForm& form : AttentionForms()) {
    Maker m(18);
    m.b.Output(m.Attend(form).values, "y");
    ExpectRight(m.b.Finish());
  }
}

// The weights of a product have a factor per row. The product may be scaled instead of the weights only if the weights
// are exponentials, which are at most 1.
TEST(LowerSubgraph, OnlyWeightsBelowOneAreScaledLate) {
  auto scaled_late = [](bool exponentials) {
    Maker m(19);
    ValueId x = m.b.Input("x", F32({2, 4, 6}));
    ValueId most = m.b.Must(Op::kReduceMax, {x}, AxesAttrs{{2}});
    ValueId e = m.b.Must(Op::kSub, {x, most});
    if (exponentials) e = m.b.Must(Op::kExp, {e});
    ValueId w = m.b.Must(Op::kMul, {e, m.b.Must(Op::kReduceSum, {e}, AxesAttrs{{2}})});
    m.b.Output(m.b.Must(Op::kBatchMatmul, {w, m.b.Input("v", F32({2, 6, 3}))}), "y");
    const Graph g = m.b.Finish();
    ExpectRight(g);
    return ToText((*LowerSubgraph(g, Cpu()))[0].func).find("batch_matmul_scaled") != std::string::npos;
  };
  EXPECT_TRUE(scaled_late(true));
  EXPECT_FALSE(scaled_late(false));
}

TEST(LowerSubgraph, Movement) {
  ExpectRight(Single(Op::kConcat, {{2, 3}, {2, 1}, {2, 4}}, AxisAttrs{1}));
  ExpectRight(Single(Op::kTranspose, {{2, 3, 4}}, TransposeAttrs{{2, 0, 1}}));
  ExpectRight(Single(Op::kReshape, {{2, 3, 4}}, ReshapeAttrs{{6, 4}}));
  ExpectRight(Single(Op::kSlice, {{5, 7}}, SliceAttrs{{4, 1}, {3, 2}, {-2, 3}}));
  ExpectRight(Single(Op::kBroadcastTo, {{3, 1}}, ReshapeAttrs{{2, 3, 4}}));
  TensorSpec indices{DType::Int(64), {2, 3}};
  ExpectRight(Typed(Op::kGather, {F32({5, 4}), indices}, AxisAttrs{0}));
  ExpectRight(Typed(Op::kGather, {F32({2, 3, 4}), {DType::Int(32), {5}}}, AxisAttrs{1}));
  ExpectRight(Typed(Op::kGather, {F32({3}), {DType::Int(64), {}}}, AxisAttrs{0}));
  ExpectRight(Typed(Op::kGatherElements, {F32({2, 5}), indices}, AxisAttrs{1}));
  ExpectRight(Single(Op::kPad, {{3, 4}}, PadAttrs{{1, 0}, {0, 2}, {0, 0}, PadMode::kConstant, 1.5}));
  ExpectRight(Single(Op::kPad, {{3, 4}}, PadAttrs{{1, 0}, {0, 2}, {2, 1}, PadMode::kConstant, 0}));
  ExpectRight(Single(Op::kPad, {{3, 4}}, PadAttrs{{2, 0}, {1, 3}, {0, 0}, PadMode::kReflect, 0}));
  ExpectRight(Single(Op::kPad, {{3, 4}}, PadAttrs{{2, 5}, {1, 3}, {0, 0}, PadMode::kEdge, 0}));
}

TEST(LowerSubgraph, SelectionAndElimination) {
  for (ScatterMode mode :
       {ScatterMode::kReplace, ScatterMode::kAdd, ScatterMode::kMul, ScatterMode::kMax, ScatterMode::kMin}) {
    // Nine indices select among four positions, so most positions are updated several times.
    TensorSpec places{DType::Int(64), {9, 3}}, rows{DType::Int(32), {6, 1}};
    ExpectRight(Typed(Op::kScatter, {F32({4, 5}), F32({9, 3}), places}, ScatterAttrs{0, mode}));
    ExpectRight(Typed(Op::kScatter, {F32({4, 3}), F32({6, 3}), rows}, ScatterAttrs{0, mode}));
    ExpectRight(
        Typed(Op::kScatter, {F32({4, 3, 4}), F32({2, 9, 3}), {DType::Int(8), {2, 9, 3}}}, ScatterAttrs{1, mode}));
  }
  for (bool largest : {false, true}) {
    for (int64_t k : {1, 2, 5, 16, 17}) {
      ExpectRight(Single(Op::kTopK, {{3, 2, 17}}, TopKAttrs{k, largest}));
      ExpectRight(Typed(Op::kTopK, {{DType::Int(8), {4, 17}}}, TopKAttrs{k, largest}));  // the values repeat
    }
  }
  ExpectRight(Typed(Op::kGatherSum, {F32({2, 5, 3}), F32({2, 7, 4}), {DType::Int(32), {2, 7, 4}}}, {}));
  ExpectRight(Typed(Op::kGatherSum, {F32({1, 5, 1}), F32({1, 7, 1}), {DType::Int(64), {1, 7, 1}}}, {}));
  for (bool centers : {false, true}) {
    for (double overlap : {0.0, 0.2, 0.6}) {
      GraphBuilder b;
      ValueId boxes = b.Input("", F32({2, 9, 4})), scores = b.Input("", F32({2, 3, 9}));
      BoxesAttrs attrs{.most = 4, .rows = 30, .overlap = overlap, .any_score = centers, .centers = centers};
      if (overlap == 0.2) attrs.rows = 7;  // fewer rows than selected boxes
      ValueId order = b.Must(Op::kTopK, {scores}, TopKAttrs{9, true});
      b.Output(b.Must(Op::kSelectBoxes, {boxes, scores, order}, attrs), "");
      ExpectRight(b.Finish());
    }
  }
  for (int64_t n : {1, 2, 3, 5}) ExpectRight(Single(Op::kDet, {{3, n, n}}));
}

TEST(LowerSubgraph, SumsAndProductsAlongAnAxis) {
  for (int form = 0; form < 8; ++form) {
    const bool product = form & 1, exclusive = form & 2, reverse = form & 4;
    ExpectRight(Single(Op::kCumulate, {{3, 2, 17}}, CumulateAttrs{2, product, exclusive, reverse}));
    ExpectRight(Single(Op::kCumulate, {{3, 5, 19}}, CumulateAttrs{1, product, exclusive, reverse}));
    ExpectRight(Single(Op::kCumulate, {{1, 5}}, CumulateAttrs{0, product, exclusive, reverse}));
    ExpectRight(Typed(Op::kCumulate, {{DType::Int(32), {7, 2}}}, CumulateAttrs{0, product, exclusive, reverse}));
  }
}

TEST(LowerSubgraph, EpilogueAndParameters) {
  GraphBuilder b;
  ValueId x = b.Input("", F32({1, 6, 6, 4})), residual = b.Input("", F32({1, 6, 6, 8}));
  ValueId w = b.ConstantParameter("", F32({3, 3, 4, 8})), bias = b.ConstantParameter("", F32({1, 1, 1, 8}));
  ValueId half = b.AddConstant("", TensorValue::Of<float>({1}, {0.5f}));
  ConvAttrs a;
  a.layout = Layout::kNHWC;
  a.pads = {1, 1, 1, 1};
  ValueId y = b.Must(Op::kAdd, {b.Must(Op::kConv2d, {x, w}, a), bias});
  y = b.Must(Op::kMul, {b.Must(Op::kAdd, {y, residual}), half});
  y = b.Must(Op::kMul, {y, b.Must(Op::kSigmoid, {y})});
  b.Output(b.Must(Op::kRelu, {y}), "");
  Graph body = b.Finish();
  ExpectRight(body);
  auto alternatives = LowerSubgraph(body, Cpu(), "k");
  ASSERT_TRUE(alternatives.ok());
  const PrimFunc& f = alternatives->front().func;
  EXPECT_EQ(alternatives->front().name, "direct");
  std::vector<ParamRole> roles;
  for (const Param& p : f.params) roles.push_back(p.role);
  EXPECT_EQ(roles, (std::vector<ParamRole>{ParamRole::kInput, ParamRole::kInput, ParamRole::kConstant,
                                           ParamRole::kConstant, ParamRole::kOutput}));
}

TEST(LowerSubgraph, WorkOnConstantsAlone) {
  // A body of literals and constants only, as folding a batch normalization of one channel makes it.
  GraphBuilder b;
  ValueId v = b.AddConstant("", TensorValue::Of<float>({1, 1, 1, 1}, {4})),
          e = b.AddConstant("", TensorValue::Scalar(5));
  b.Output(b.Must(Op::kSqrt, {b.Must(Op::kAdd, {v, e})}), "");
  ExpectRight(b.Finish());
  GraphBuilder t;
  ValueId w = t.ConstantParameter("", F32({3, 2, 2, 2})), s = t.ConstantParameter("", F32({3, 1, 1, 1}));
  t.Output(t.Must(Op::kTranspose, {t.Must(Op::kMul, {w, s})}, TransposeAttrs{{2, 3, 1, 0}}), "");
  ExpectRight(t.Finish());
}

TEST(LowerSubgraph, RefusesWhatItCannotCompute) {
  ConvAttrs grouped;  // with groups, in the default layout NCHW
  grouped.groups = 3;
  EXPECT_FALSE(LowerSubgraph(Single(Op::kConv2d, {{1, 3, 5, 5}, {3, 1, 1, 1}}, grouped), Cpu()).ok());
  EXPECT_FALSE(LowerSubgraph(Single(Op::kBatchNorm, {{1, 3}, {3}, {3}, {3}, {3}}, BatchNormAttrs{}), Cpu()).ok());
}

TEST(LowerSubgraph, LrnWantsImages) {
  EXPECT_FALSE(LowerSubgraph(Single(Op::kLrn, {{1, 8, 3}}, LrnAttrs{3, 0.3f, 0.6f, 2, 2}), Cpu()).ok());
}

TEST(FlopsOf, CountsWhatKernelsDo) {
  EXPECT_EQ(*FlopsOf(Single(Op::kConv2d, {{1, 2, 4, 4}, {3, 2, 1, 1}}, ConvAttrs{}, 1), Cpu()), 2 * 3 * 16 * 2);
  // For each row: 8 maxima, differences, exponentials, sums and products, and one quotient.
  EXPECT_EQ(*FlopsOf(Single(Op::kSoftmax, {{2, 8}}, AxisAttrs{1}), Cpu()), 2 * (5 * 8 + 1));
  EXPECT_EQ(*FlopsOf(Single(Op::kTranspose, {{2, 8}}, TransposeAttrs{{1, 0}}), Cpu()), 0);
  EXPECT_FALSE(FlopsOf(Single(Op::kLrn, {{1, 8, 3}}, LrnAttrs{3, 0.3f, 0.6f, 2, 2}), Cpu()).ok());
}

// The comparison notices a wrong value and a wrong shape, also beside a large value, and a wrong integer.
TEST(LoweredMismatch, SeesAWrongBody) {
  Graph good = Single(Op::kAdd, {{2, 3}, {2, 3}});
  std::vector<reference::Tensor> in = {{{2}, {1, 2}}, {{2}, {1, 2}}};
  EXPECT_NE(reference::Mismatch(in[0], {{2}, {1, 2.5}}), "");
  EXPECT_NE(reference::Mismatch(in[0], {{2, 1}, {1, 2}}), "");
  EXPECT_EQ(reference::Mismatch(in[0], in[1]), "");
  const double allowed = reference::kOfGraphs.rtol + reference::kOfGraphs.atol;
  EXPECT_NE(reference::Mismatch({{2}, {1e9, 1 + 10 * allowed}}, {{2}, {1e9, 1}}), "");
  EXPECT_EQ(reference::Mismatch({{2}, {1e9, 1 + allowed / 2}}, {{2}, {1e9, 1}}), "");
  EXPECT_NE(reference::Mismatch({{1}, {1e9 + 1}}, {{1}, {1e9}, DType::Int(32)}), "");
  EXPECT_EQ(reference::Mismatch({{1}, {1e9 + 1}}, {{1}, {1e9}, DType::Int(32)}, reference::kOfGraphs, 1), "");
  ExpectRight(good);
}

}  // namespace
}  // namespace autotune::graph
