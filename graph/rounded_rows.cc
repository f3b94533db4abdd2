#include "graph/rounded_rows.h"

namespace autotune::graph {
namespace {

constexpr DType kFloats = DType::Float(32);

ValueId Number(GraphBuilder& builder, double value) {
  return builder.AddConstant("", TensorValue::FromNumbers(kFloats, {}, {value}));
}

}  // namespace

RowsInBlocks AddRowsInBlocks(GraphBuilder& builder, ValueId x, int64_t block) {
  // Smaller ones would have no finite inverse. The numbers of their blocks become zeros.
  constexpr double kLeastMagnitude = 1e-36;
  const Shape shape = builder.Spec(x).shape;
  const int64_t rows = builder.Spec(x).NumElements() / shape.back();
  x = builder.Must(Op::kReshape, {x}, ReshapeAttrs{{rows, shape.back() / block, block}});
  ValueId most = builder.Must(Op::kReduceMax, {builder.Must(Op::kAbs, {x})}, AxesAttrs{{2}});
  most = builder.Must(Op::kMax, {most, Number(builder, kLeastMagnitude)});
  const ValueId inverse = builder.Must(Op::kDiv, {Number(builder, 1 / kScaleOfMost), most});
  const ValueId whole = builder.Must(Op::kRound, {builder.Must(Op::kMul, {x, inverse})});
  return {builder.Must(Op::kCast, {whole}, CastAttrs{DType::Int(8)}), most};
}

ValueId AddFloatsOf(GraphBuilder& builder, const RowsInBlocks& rows, const Shape& shape) {
  const ValueId floats = builder.Must(Op::kCast, {rows.numbers}, CastAttrs{kFloats});
  const ValueId scales = builder.Must(Op::kMul, {rows.most, Number(builder, kScaleOfMost)});
  return builder.Must(Op::kReshape, {builder.Must(Op::kMul, {floats, scales})}, ReshapeAttrs{shape});
}

std::optional<RowsInBlocks> RowsInBlocksOf(const Graph& graph, ValueId floats) {
  const Node* node = graph.Producer(floats);
  while (node && node->op == Op::kReshape) node = graph.Producer(node->inputs[0]);
  if (!node || node->op != Op::kMul) return std::nullopt;
  const Node* cast = graph.Producer(node->inputs[0]);
  if (!cast || cast->op != Op::kCast) return std::nullopt;
  const Node* scales = graph.Producer(node->inputs[1]);
  const Constant* scale = scales && scales->op == Op::kMul ? graph.FindConstant(scales->inputs[1]) : nullptr;
  if (!scale || !scale->data || graph.Spec(scale->value) != TensorSpec{kFloats, {}} ||
      graph.ConstantValue(*scale).Number(0) != static_cast<double>(static_cast<float>(kScaleOfMost)))
    return std::nullopt;
  const RowsInBlocks rows{cast->inputs[0], scales->inputs[0]};
  const TensorSpec& numbers = graph.Spec(rows.numbers);
  if (numbers.dtype != DType::Int(8) || numbers.rank() != 3) return std::nullopt;
  const TensorSpec most = {kFloats, {numbers.shape[0], numbers.shape[1], 1}};
  return graph.Spec(rows.most) == most ? std::optional(rows) : std::nullopt;
}

}  // namespace autotune::graph
