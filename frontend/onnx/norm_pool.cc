// Pooling and normalization.
#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

Status ImportBatchNormalization(ImportContext& c) {
  if (TRY(c.Int("training_mode", 0)) != 0) return Err("training mode is not supported");
  if (c.opset < 9 && TRY(c.Int("spatial", 1)) != 1) return Err("spatial = 0 is not supported");
  TRY(c.RefuseExtraOutputs("only inference is supported"));
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 5; ++i) inputs.push_back(TRY(c.Tensor(i)));
  BatchNormAttrs attrs;
  attrs.epsilon = TRY(c.Float("epsilon", 1e-5f));
  attrs.axis = 1;
  return c.Bind(TRY(c.Emit(Op::kBatchNorm, inputs, attrs)));
}

Status ImportPool(ImportContext& c, Op op, int64_t count_include_pad) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.builder.Spec(x).shape;
  if (shape.size() < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  if (!c.HasAttr("kernel_shape")) return Err("has no kernel_shape");
  Window w = TRY(ReadWindow(c, {shape.begin() + 2, shape.end()}, {}));
  if (w.one_dimensional) x = c.builder.Reshape(x, {shape[0], shape[1], 1, shape[2]}, c.node().name);
  bool ceil_mode = TRY(c.Int("ceil_mode", 0)) != 0;
  Pool2dAttrs attrs{w.kernel, w.strides, w.pads, w.dilations, ceil_mode, count_include_pad != 0, Layout::kNCHW};
  ValueId y = TRY(c.Emit(op, {x}, attrs));
  if (w.one_dimensional) {
    Shape out = c.builder.Spec(y).shape;
    y = c.builder.Reshape(y, {out[0], out[1], out[3]}, c.node().name);
  }
  return c.Bind(y);
}

Status ImportMaxPool(ImportContext& c) {
  TRY(c.RefuseExtraOutputs("indices are not supported"));
  return ImportPool(c, Op::kMaxPool2d, 0);
}

Status ImportAveragePool(ImportContext& c) { return ImportPool(c, Op::kAvgPool2d, TRY(c.Int("count_include_pad", 0))); }

Status ImportGlobalAveragePool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.builder.Spec(x).shape;
  if (shape.size() != 3 && shape.size() != 4) return Err("input ", c.builder.Spec(x).Text(), " is no 1-D or 2-D image");
  if (shape.size() == 3) x = c.builder.Reshape(x, {shape[0], shape[1], 1, shape[2]}, c.node().name);
  ValueId y = TRY(c.Emit(Op::kGlobalAvgPool, {x}, ImageAttrs{}));
  if (shape.size() == 3) y = c.builder.Reshape(y, {shape[0], shape[1], 1}, c.node().name);
  return c.Bind(y);
}

Status ImportLrn(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.builder.Spec(x).rank() < 2) return Err("input ", c.builder.Spec(x).Text(), " has no channels");
  if (!c.HasAttr("size")) return Err("has no size");
  LrnAttrs attrs;
  attrs.size = TRY(c.Int("size", 1));
  attrs.alpha = TRY(c.Float("alpha", 1e-4f));
  attrs.beta = TRY(c.Float("beta", 0.75f));
  attrs.bias = TRY(c.Float("bias", 1));
  Shape shape = c.builder.Spec(x).shape, image = shape;
  if (shape.size() != 4) {  // channels matter, the rest is a row
    int64_t rest = 1;
    for (size_t i = 2; i < shape.size(); ++i) rest *= shape[i];
    image = {shape[0], shape[1], 1, rest};
  }
  ValueId y = TRY(c.Emit(Op::kLrn, {c.builder.Reshape(x, image, c.node().name)}, attrs));
  return c.Bind(c.builder.Reshape(y, shape, c.node().name));
}

Status ImportSoftmax(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.builder.Spec(x).shape;
  int64_t axis = TRY(c.Int("axis", c.opset < 13 ? 1 : -1));
  axis = TRY(NormalizeAxis(axis, static_cast<int>(shape.size())));
  if (c.opset >= 13) return c.Bind(TRY(c.Emit(Op::kSoftmax, {x}, AxisAttrs{axis})));
  // Before operator set 13 the input counts as a matrix: dimensions before the axis, dimensions from it on.
  int64_t rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i) (static_cast<int64_t>(i) < axis ? rows : columns) *= shape[i];
  ValueId y = c.builder.Reshape(x, {rows, columns}, c.node().name);
  y = TRY(c.Emit(Op::kSoftmax, {y}, AxisAttrs{1}));
  return c.Bind(c.builder.Reshape(y, shape, c.node().name));
}

}  // namespace

const std::vector<OperatorRow>& NormPoolOperators() {
  static const std::vector<OperatorRow> rows = {
      {"BatchNormalization", 7, 17, ImportBatchNormalization},
      {"MaxPool", 1, 17, ImportMaxPool},
      {"AveragePool", 7, 17, ImportAveragePool},
      {"GlobalAveragePool", 1, 17, ImportGlobalAveragePool},
      {"LRN", 1, 17, ImportLrn},
      {"Softmax", 1, 17, ImportSoftmax},
  };
  return rows;
}

}  // namespace autotune::onnx_import
