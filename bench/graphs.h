// Parts of graphs that several benches measure.
#pragma once
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace autotune::bench {

inline graph::TensorSpec F32(graph::Shape shape) { return {DType::Float(32), std::move(shape)}; }

// Adds a layer normalization over the columns of a matrix, with a scale and a shift per column.
inline graph::ValueId LayerNorm(graph::GraphBuilder& b, graph::ValueId x) {
  using graph::Op;
  const int64_t columns = b.Spec(x).shape.back();
  auto number = [&](float value) { return b.AddConstant("", graph::TensorValue::Scalar(value)); };
  auto mean = [&](graph::ValueId v) {
    graph::ValueId sum = b.Must(Op::kReduceSum, {v}, graph::AxesAttrs{{1}});
    return b.Must(Op::kMul, {sum, number(1 / static_cast<float>(columns))});
  };
  graph::ValueId centered = b.Must(Op::kSub, {x, mean(x)});
  graph::ValueId variance = mean(b.Must(Op::kMul, {centered, centered}));
  graph::ValueId deviation = b.Must(Op::kSqrt, {b.Must(Op::kAdd, {variance, number(1e-5F)})});
  const std::vector<float> weights(static_cast<size_t>(columns), 0.5F);
  auto row = [&] { return b.AddConstant("", graph::TensorValue::Of<float>({columns}, weights)); };
  graph::ValueId y = b.Must(Op::kMul, {b.Must(Op::kDiv, {centered, deviation}), row()});
  return b.Must(Op::kAdd, {y, row()});
}

}  // namespace autotune::bench
