// Imports losses, which networks contain if they were exported with their training criterion.
#include <numeric>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Computes NegativeLogLikelihoodLoss of the log-probabilities x [N, C, ...] for the classes in the input
// `target_input`, [N, ...].
Result<ValueId> LikelihoodLoss(ImportContext& c, ValueId x, size_t target_input, size_t weight_input) {
  ValueId target = TRY(c.Tensor(target_input));
  Shape shape = c.ShapeOfValue(x), places = c.ShapeOfValue(target), each = shape;
  if (shape.size() < 2) return Err("the input ", c.builder.Spec(x).Text(), " has no classes");
  each[1] = 1;
  shape.erase(shape.begin() + 1);
  if (shape != places) return Err("labels ", c.builder.Spec(target).Text(), " do not fit ", c.builder.Spec(x).Text());
  std::string reduction = TRY(c.String("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return Err("reduction '", reduction, "' is not one of none, sum, mean");

  ValueId label = TRY(c.Reshape(target, each));
  ValueId picked = TRY(c.Emit(Op::kGatherElements, {x, label}, AxisAttrs{1}));
  ValueId loss = TRY(c.Apply(Op::kNeg, TRY(c.Reshape(picked, places))));
  std::optional<ValueId> weight;
  if (c.Has(weight_input)) {
    ValueId weights = TRY(c.Tensor(weight_input));
    if (c.ShapeOfValue(weights) != Shape{c.ShapeOfValue(x)[1]})
      return Err("there must be a weight for each class, not ", c.builder.Spec(weights).Text());
    weight = TRY(c.Emit(Op::kGather, {weights, target}, AxisAttrs{0}));
  }
  if (c.HasAttr("ignore_index")) {
    ValueId ignored = TRY(c.ApplyNumber(Op::kEqual, target, static_cast<double>(TRY(c.Int("ignore_index", 0)))));
    weight = TRY(c.Where(ignored, c.Number(0, x), weight ? *weight : c.Number(1, x)));
  }
  if (weight) loss = TRY(c.Apply(Op::kMul, loss, *weight));
  if (reduction == "none") return loss;
  std::vector<int64_t> axes(places.size());
  std::iota(axes.begin(), axes.end(), 0);
  ValueId sum = TRY(c.Reshape(TRY(c.Reduce(Op::kReduceSum, loss, axes)), {}));
  if (reduction == "sum") return sum;
  if (!weight) return c.Reshape(TRY(c.Mean(loss, axes)), {});
  return c.Apply(Op::kDiv, sum, TRY(c.Reshape(TRY(c.Reduce(Op::kReduceSum, *weight, axes)), {})));
}

Status ImportNegativeLogLikelihoodLoss(ImportContext& c) {
  return c.Bind(TRY(LikelihoodLoss(c, TRY(c.Tensor(0)), 1, 2)));
}

Status ImportSoftmaxCrossEntropyLoss(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) < 2) return Err("the input ", c.builder.Spec(x).Text(), " has no classes");
  ValueId log_probabilities = TRY(LogSoftmaxValue(c, x, 1));
  TRY(c.Bind(log_probabilities, 1));
  return c.Bind(TRY(LikelihoodLoss(c, log_probabilities, 1, 2)));
}

}  // namespace

const std::vector<OperatorRow>& LossOperators() {
  static const std::vector<OperatorRow> rows = {
      {"NegativeLogLikelihoodLoss", 12, 28, ImportNegativeLogLikelihoodLoss},
      {"SoftmaxCrossEntropyLoss", 12, 28, ImportSoftmaxCrossEntropyLoss},
  };
  return rows;
}

}  // namespace autotune::onnx_import
