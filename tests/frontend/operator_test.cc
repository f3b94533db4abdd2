// Parses texts of the option --op: each operator becomes a graph, and each invalid text gives an error of one line.
#include "frontend/operator/operator.h"

#include <gmock/gmock.h>

namespace autotune {
namespace {

using graph::Op;
using graph::Shape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

graph::Graph GraphOf(const std::string& text) {
  auto parsed = ParseOperator(text);
  EXPECT_TRUE(parsed.ok()) << parsed.error().Text();
  if (!parsed.ok()) return {};
  Status whole = graph::CheckGraph(parsed->module.main());
  EXPECT_TRUE(whole.ok()) << whole.error().Text();
  return parsed->module.main();
}
Shape OutputOf(const graph::Graph& graph) { return graph.Spec(graph.outputs.at(0)).shape; }

struct Case {
  const char* text;
  Op op;  // of the last node
  size_t inputs, constants;
  Shape output;
};

TEST(Operator, EachBecomesAGraph) {
  for (const Case& c : {
           Case{"matmul:2,3,5", Op::kMatmul, 2, 0, {2, 5}},
           Case{"batch_matmul:7,2,3,5", Op::kBatchMatmul, 2, 0, {7, 2, 5}},
           Case{"dense:2,3,5", Op::kMatmul, 1, 1, {2, 5}},
           Case{"conv2d:1,8,10,4;3,3,4,6", Op::kConv2d, 1, 1, {1, 6, 8, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;pad=1", Op::kConv2d, 1, 1, {1, 8, 10, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;pad=0,1", Op::kConv2d, 1, 1, {1, 6, 10, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;pad=1,0,2,3", Op::kConv2d, 1, 1, {1, 9, 11, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;stride=2", Op::kConv2d, 1, 1, {1, 3, 4, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;stride=1,2", Op::kConv2d, 1, 1, {1, 6, 4, 6}},
           Case{"conv2d:1,8,10,4;3,3,4,6;dilation=2", Op::kConv2d, 1, 1, {1, 4, 6, 6}},
           Case{"conv2d:1,8,10,4;3,3,2,6;groups=2", Op::kConv2d, 1, 1, {1, 6, 8, 6}},
           Case{"depthwise_conv2d:1,8,10,4;3,3;stride=2;pad=1", Op::kConv2d, 1, 1, {1, 4, 5, 4}},
           Case{"softmax:3,4,5", Op::kSoftmax, 1, 0, {3, 4, 5}},
           Case{"softmax:3,4,5;axis=0", Op::kSoftmax, 1, 0, {3, 4, 5}},
           Case{"layer_norm:3,8", Op::kAdd, 1, 6, {3, 8}},
           Case{"reduce_sum:3,4,5", Op::kReduceSum, 1, 0, {3, 4, 1}},
           Case{"reduce_max:3,4,5;axes=2,0,-1", Op::kReduceMax, 1, 0, {1, 4, 1}},
           Case{"reduce_min:3;axes=0", Op::kReduceMin, 1, 0, {1}},
           Case{"reduce_prod:3,2", Op::kReduceProd, 1, 0, {3, 1}},
       }) {
    graph::Graph graph = GraphOf(c.text);
    ASSERT_FALSE(graph.nodes.empty()) << c.text;
    EXPECT_EQ(graph.nodes.back().op, c.op) << c.text;
    EXPECT_EQ(graph.inputs.size(), c.inputs) << c.text;
    EXPECT_EQ(graph.constants.size(), c.constants) << c.text;
    EXPECT_EQ(OutputOf(graph), c.output) << c.text;
    EXPECT_EQ(graph.Spec(graph.inputs[0]).dtype.Text(), "f32") << c.text;
  }
}

TEST(Operator, AttributesAreThoseWritten) {
  graph::Graph graph = GraphOf("conv2d:1,8,10,4;5,3,2,6;stride=2,1;pad=1,0,2,3;dilation=1,2;groups=2");
  auto attrs = std::get<graph::ConvAttrs>(graph.nodes[0].attrs);
  EXPECT_EQ(
      attrs,
      (graph::ConvAttrs{
          .strides = {2, 1}, .pads = {1, 0, 2, 3}, .dilations = {1, 2}, .groups = 2, .layout = graph::Layout::kNHWC}));
  EXPECT_EQ(std::get<graph::AxisAttrs>(GraphOf("softmax:3,4,5").nodes[0].attrs).axis, 2);
  EXPECT_EQ(std::get<graph::AxisAttrs>(GraphOf("softmax:3,4,5;axis=-3").nodes[0].attrs).axis, 0);
  EXPECT_EQ(std::get<graph::AxesAttrs>(GraphOf("reduce_sum:3,4,5;axes=2,0").nodes[0].attrs).axes, (Shape{0, 2}));
}

TEST(Operator, DtypeIsOfAllOperands) {
  graph::Graph graph = GraphOf("layer_norm:3,8;dtype=f64");
  for (const graph::Value& value : graph.values) EXPECT_EQ(value.spec.dtype.Text(), "f64");
}

// 16-bit operands and results are stored in 16 bits and computed in 32.
TEST(Operator, HalvesAreCastToBeComputed) {
  for (const char* dtype : {"f16", "bf16"}) {
    graph::Graph graph = GraphOf(std::string("matmul:2,3,5;dtype=") + dtype);
    for (graph::ValueId input : graph.inputs) EXPECT_EQ(graph.Spec(input).dtype.Text(), dtype);
    EXPECT_EQ(graph.Spec(graph.outputs[0]).dtype.Text(), dtype);
    int products = 0;
    for (const graph::Node& node : graph.nodes) {
      if (node.op != graph::Op::kMatmul) continue;
      ++products;
      EXPECT_EQ(graph.Spec(node.output).dtype.Text(), "f32");
    }
    EXPECT_EQ(products, 1);
  }
}

TEST(Operator, WeightsAreNotZero) {
  for (const char* dtype : {"f32", "f64", "f16", "bf16"}) {
    graph::Graph graph = GraphOf(std::string("dense:2,3,5;dtype=") + dtype);
    graph::TensorValue weights = graph.ConstantValue(graph.constants[0]);
    double sum = 0;
    for (int64_t i = 0; i < weights.spec.NumElements(); ++i) {
      EXPECT_LE(std::abs(weights.Number(i)), 1.0);  // a weight just below 1 may round to 1
      sum += std::abs(weights.Number(i));
    }
    EXPECT_GT(sum, 1) << dtype;
  }
}

TEST(Operator, NamesAreFitForFiles) {
  EXPECT_EQ(ParseOperator("conv2d:1,8,8,4;3,3,4,4;stride=2").value().name, "conv2d_1x8x8x4_3x3x4x4_stride2");
}

TEST(Operator, ErrorsAreOneLineThatSaysWhatIsExpected) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"unknown operator ''", "matmul"}},
           {"frobnicate:1", {"unknown operator 'frobnicate'", "known are matmul"}},
           {"matmull:1,2,3", {"did you mean matmul?"}},
           {"conv:1,8,8,4;3,3,4,4", {"did you mean conv2d?"}},
           {"matmul", {"matmul takes matmul:M,K,N"}},
           {"matmul:1,2", {"matmul takes matmul:M,K,N, not 1,2"}},
           {"matmul:1,2;2,3", {"matmul takes matmul:M,K,N"}},
           {"conv2d:1,8,8,4", {"conv2d takes conv2d:N,H,W,C;KH,KW,C/groups,O"}},
           {"matmul:1,x,3", {"'x' in 1,x,3", "whole number"}},
           {"matmul:1,-2,3", {"'-2'"}},
           {"matmul:1,0,3", {"'0'"}},
           {"matmul:1,,3", {"''"}},
           {"matmul:1,99999999999999999999,3", {"'99999999999999999999'"}},
           {"matmul:1,2147483648,3", {"'2147483648'", "from 1 to 2147483647"}},
           {"matmul:2000000000,2000000000,2000000000", {"too large"}},
           {"dense:1,100000,100000", {"GiB"}},
           {"matmul:1,2,3;stride=2", {"matmul has no option 'stride'", "known are dtype"}},
           {"conv2d:1,8,8,4;3,3,4,4;strid=2", {"did you mean stride?"}},
           {"conv2d:1,8,8,4;3,3,4,4;stride=0", {"stride=0", "'0'"}},
           {"conv2d:1,8,8,4;3,3,4,4;stride=1,2,3", {"has 3 numbers; 1 or 2 are expected"}},
           {"conv2d:1,8,8,4;3,3,4,4;pad=1,2,3", {"has 3 numbers; 1, 2 or 4 are expected"}},
           {"conv2d:1,8,8,4;3,3,4,4;stride=", {"''"}},
           {"conv2d:1,8,8,4;3,3,4,4;stride=1;stride=2", {"stride is given twice"}},
           {"conv2d:1,8,8,4;3,3,3,4", {"conv2d:1,8,8,4;3,3,3,4"}},
           {"conv2d:1,8,8,4;9,9,4,4", {"conv2d:1,8,8,4;9,9,4,4"}},
           {"softmax:3,4;axis=2", {"axis=2 is no axis of [3,4]"}},
           {"reduce_sum:3,4;axes=-3", {"axes=-3"}},
           {"softmax:3,4;axis=2147483648", {"from -2 to 2147483647"}},
           {"softmax:3,4;dtype=f32;dtype=f64", {"dtype is given twice"}},
           {"softmax:3,4;dtype=i8", {"dtype=i8 is none of f32, f64, f16, bf16, u8s8, s8s8 and u8u8"}},
           {"softmax:3,4;dtype=u8s8",
            {"dtype=u8s8 is for products: matmul, batch_matmul, dense, conv2d, depthwise_conv2d"}},
       }) {
    auto parsed = ParseOperator(text);
    ASSERT_FALSE(parsed.ok()) << text;
    std::string error = parsed.error().Text();
    EXPECT_THAT(error, AllOf(HasSubstr("--op '" + text + "'"), Not(HasSubstr("\n"))));
    for (const std::string& word : words) EXPECT_THAT(error, HasSubstr(word)) << text;
  }
}

TEST(Operator, ProductsTakeBytes) {
  for (const auto& [dtype, first, second] : {std::tuple{"u8s8", DType::UInt(8), DType::Int(8)},
                                             {"s8s8", DType::Int(8), DType::Int(8)},
                                             {"u8u8", DType::UInt(8), DType::UInt(8)}}) {
    for (const std::string form : {"matmul:2,8,3", "batch_matmul:4,2,8,3", "dense:2,8,3"}) {
      const graph::Graph g = GraphOf(form + ";dtype=" + dtype);
      const graph::Node& product = g.nodes.front();
      EXPECT_EQ(g.Spec(product.inputs[0]).dtype, first) << form;
      EXPECT_EQ(g.Spec(product.inputs[1]).dtype, second) << form;
      EXPECT_EQ(g.Spec(product.output).dtype, DType::Int(32)) << form;
    }
  }
}

TEST(Operator, HelpNamesEveryOperatorAndItsOptions) {
  EXPECT_THAT(OperatorHelp(),
              AllOf(HasSubstr("  matmul:M,K,N\n"),
                    HasSubstr("conv2d:N,H,W,C;KH,KW,C/groups,O   options: stride, pad, dilation, groups\n"),
                    HasSubstr("  softmax:shape   options: axis\n")));
}

}  // namespace
}  // namespace autotune
