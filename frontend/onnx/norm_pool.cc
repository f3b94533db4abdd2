// Imports pooling and normalization.
#include <algorithm>
#include <numeric>

#include "frontend/onnx/formulas.h"
#include "support/integer.h"

namespace autotune::onnx_import {

Result<Normalized> Normalize(ImportContext& c, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  Normalized n;
  n.mean = TRY(c.Mean(x, axes));
  ValueId centered = TRY(c.Apply(Op::kSub, x, n.mean));
  n.variance = TRY(c.Mean(TRY(c.Apply(Op::kMul, centered, centered)), axes));
  ValueId deviation = TRY(c.Apply(Op::kSqrt, TRY(c.ApplyNumber(Op::kAdd, n.variance, epsilon))));
  n.inverse = TRY(c.ApplyToNumber(Op::kDiv, 1, deviation));
  n.y = TRY(c.Apply(Op::kMul, centered, n.inverse));
  return n;
}

Result<Normalized> NormalizeByRoot(ImportContext& c, ValueId x, const std::vector<int64_t>& axes, double epsilon) {
  Normalized n;
  ValueId square = TRY(c.Mean(TRY(c.Apply(Op::kMul, x, x)), axes));
  ValueId root = TRY(c.Apply(Op::kSqrt, TRY(c.ApplyNumber(Op::kAdd, square, epsilon))));
  n.inverse = TRY(c.ApplyToNumber(Op::kDiv, 1, root));
  n.y = TRY(c.Apply(Op::kMul, x, n.inverse));
  return n;
}

namespace {

// Returns y * scale + bias. Scale and bias, inputs 1 and 2, have one number per channel.
Result<ValueId> ScaledByChannel(ImportContext& c, ValueId y) {
  ValueId scale = TRY(c.Tensor(1)), bias = TRY(c.Tensor(2));
  Shape channel(c.Rank(y), 1);
  channel[1] = c.ShapeOfValue(y)[1];
  for (ValueId v : {scale, bias}) {
    if (c.ShapeOfValue(v) != Shape{channel[1]})
      return Err("scale and bias must have shape [", channel[1], "], not ", c.builder.Spec(v).Text());
  }
  return c.Apply(Op::kAdd, TRY(c.Apply(Op::kMul, y, TRY(c.Reshape(scale, channel)))), TRY(c.Reshape(bias, channel)));
}

// Imports BatchNormalization in training mode: normalizes with the mean and variance of the batch itself. Outputs 1 and
// 2 are the running mean and variance, moved towards those of the batch.
Status ImportTrainingBatchNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) < 2) return Err("input ", c.builder.Spec(x).Text(), " has no channels");
  std::vector<int64_t> axes(c.Rank(x) - 1);
  std::iota(axes.begin(), axes.end(), 1);
  axes[0] = 0;  // together with the spatial axes: all axes but that of the channels
  Normalized n = TRY(Normalize(c, x, axes, TRY(c.Float("epsilon", 1e-5f))));
  double momentum = TRY(c.Float("momentum", 0.9f));
  ValueId now[] = {n.mean, n.variance};
  for (size_t i = 0; i < std::size(now); ++i) {
    ValueId before = TRY(c.Tensor(3 + i));
    const Shape shape = {c.ShapeOfValue(x)[1]};
    if (c.ShapeOfValue(before) != shape)
      return Err("statistics must have shape ", ShapeText(shape), ", not ", c.builder.Spec(before).Text());
    ValueId kept = TRY(c.ApplyNumber(Op::kMul, before, momentum));
    ValueId fresh = TRY(c.ApplyNumber(Op::kMul, TRY(c.Reshape(now[i], shape)), 1 - momentum));
    TRY(c.BindAs(TRY(c.Cast(TRY(c.Apply(Op::kAdd, kept, fresh)), TRY(c.StoredType(3 + i)))), 1 + i));
  }
  return c.Bind(TRY(ScaledByChannel(c, n.y)));
}

Status ImportBatchNormalization(ImportContext& c) {
  if (TRY(c.Int("training_mode", 0)) != 0) return ImportTrainingBatchNormalization(c);
  if (c.opset < 7 && TRY(c.Int("is_test", 0)) == 0)
    return Err("training mode is supported from operator set 14 on, not in ", c.opset);
  if (c.opset < 9 && TRY(c.Int("spatial", 1)) != 1) return Err("spatial = 0 is not supported");
  TRY(c.RefuseExtraOutputs("without training_mode only inference is supported"));
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 5; ++i) inputs.push_back(TRY(c.Tensor(i)));
  BatchNormAttrs attrs;
  attrs.epsilon = TRY(c.Float("epsilon", 1e-5f));
  attrs.axis = 1;
  return c.Bind(TRY(c.Emit(Op::kBatchNorm, inputs, attrs)));
}

std::vector<int64_t> AxesFrom(int64_t first, int rank) {
  std::vector<int64_t> axes;
  for (int64_t d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

struct Pooling {
  ValueId x = 0;  // the input in the shape of window.Lifted
  Window window;
  PoolAttrs attrs;
};

Result<Pooling> ReadPooling(ImportContext& c, ValueId x, bool count_include_pad) {
  Shape shape = c.builder.Spec(x).shape;
  if (shape.size() < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  if (!c.HasAttr("kernel_shape")) return Err("has no kernel_shape");
  Window w = TRY(ReadWindow(c, {shape.begin() + 2, shape.end()}, {}));
  bool ceil_mode = TRY(c.Int("ceil_mode", 0)) != 0;
  PoolAttrs attrs{w.kernel, w.strides, w.pads, w.dilations, ceil_mode, count_include_pad, Layout::kNCHW};
  x = TRY(c.Reshape(x, w.Lifted(shape)));
  return Pooling{x, w, attrs};
}

// Returns the result of pooling. `flat` is the operator for images of two dimensions, `solid` the one for three.
Result<ValueId> Pooled(ImportContext& c, const Pooling& p, Op flat, Op solid) {
  ValueId y = TRY(c.Emit(p.window.kernel.size() == 2 ? flat : solid, {p.x}, p.attrs));
  return c.Reshape(y, p.window.Lowered(c.ShapeOfValue(y)));
}

// Binds output 1 of MaxPool, the indices of the largest elements in the whole input. With storage_order 1, the pixels
// of an image are numbered column by column.
Status BindIndices(ImportContext& c, const Pooling& p) {
  int64_t storage_order = TRY(c.Int("storage_order", 0));
  if (storage_order != 0 && storage_order != 1) return Err("storage_order must be 0 or 1, not ", storage_order);
  const Shape shape = c.ShapeOfValue(p.x);
  int64_t pixels = 1;
  for (size_t d = 2; d < shape.size(); ++d) pixels *= shape[d];
  ValueId place = TRY(c.Emit(Op::kArgMaxPool, {p.x}, p.attrs));
  if (storage_order == 1) {
    ValueId rest = place;
    int64_t step = pixels;
    for (size_t d = shape.size(); d-- > 2;) {
      step /= shape[d];
      ValueId along = TRY(c.ApplyNumber(Op::kMod, rest, static_cast<double>(shape[d])));
      if (d > 2) rest = TRY(c.ApplyNumber(Op::kDiv, rest, static_cast<double>(shape[d])));
      along = TRY(c.ApplyNumber(Op::kMul, along, static_cast<double>(step)));
      place = d + 1 == shape.size() ? along : TRY(c.Apply(Op::kAdd, place, along));
    }
  }
  TRY(c.Reserve({shape[0], shape[1]}));  // a constant holds the offset of each plane
  Shape planes(shape.size(), 1);
  std::copy_n(shape.begin(), 2, planes.begin());
  std::vector<int64_t> first(shape[0] * shape[1]);
  for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<int64_t>(i) * pixels;
  place = TRY(c.Apply(Op::kAdd, place, c.builder.AddConstant("", TensorValue::Of<int64_t>(planes, first))));
  return c.Bind(TRY(c.Reshape(place, p.window.Lowered(c.ShapeOfValue(place)))), 1);
}

Status ImportMaxPool(ImportContext& c) {
  Pooling p = TRY(ReadPooling(c, TRY(c.Tensor(0)), false));
  if (c.IsUsed(1)) TRY(BindIndices(c, p));
  return c.Bind(TRY(Pooled(c, p, Op::kMaxPool2d, Op::kMaxPool3d)));
}

}  // namespace

Result<ValueId> AveragePoolValue(ImportContext& c, ValueId x) {
  Pooling p = TRY(ReadPooling(c, x, TRY(c.Int("count_include_pad", 0)) != 0));
  return Pooled(c, p, Op::kAvgPool2d, Op::kAvgPool3d);
}

namespace {

Status ImportAveragePool(ImportContext& c) { return c.Bind(TRY(AveragePoolValue(c, TRY(c.Tensor(0))))); }

// PowerOf returns |x|^p, and RootOf the p-th root of a sum of such powers.
Result<ValueId> PowerOf(ImportContext& c, ValueId x, int64_t p) {
  if (p == 2) return c.Apply(Op::kMul, x, x);
  ValueId magnitude = TRY(c.Apply(Op::kAbs, x));
  return p == 1 ? magnitude : TRY(c.ApplyNumber(Op::kPow, magnitude, static_cast<double>(p)));
}
Result<ValueId> RootOf(ImportContext& c, ValueId sum, int64_t p) {
  if (p == 2) return c.Apply(Op::kSqrt, sum);
  return p == 1 ? sum : TRY(c.ApplyNumber(Op::kPow, sum, 1.0 / static_cast<double>(p)));
}

Result<int64_t> ReadPower(ImportContext& c) {
  const int64_t p = TRY(c.Int("p", 2));
  if (p < 1) return Err("p must be positive, not ", p);
  return p;
}

// Imports LpPool. The sum over a window is its average times its size. The image is padded with zeros, so that all
// windows have the same size.
Status ImportLpPool(ImportContext& c) {
  const int64_t p = TRY(ReadPower(c));
  Pooling pool = TRY(ReadPooling(c, TRY(c.Tensor(0)), true));
  // Check the attributes here, since the arithmetic below relies on valid extents, strides and pads.
  const bool flat = pool.window.kernel.size() == 2;
  TRY(InferType(flat ? Op::kAvgPool2d : Op::kAvgPool3d, pool.attrs, {c.builder.Spec(pool.x)}));
  const Shape shape = c.ShapeOfValue(pool.x);
  PadAttrs zeros{Shape(shape.size(), 0), Shape(shape.size(), 0), Shape(shape.size(), 0), PadMode::kConstant, 0};
  PoolAttrs& a = pool.attrs;
  const size_t dims = a.kernel.size();
  double size = 1;
  for (size_t d = 0; d < dims; ++d) {
    const int64_t reach = (a.kernel[d] - 1) * a.dilations[d], stride = a.strides[d], in = shape[d + 2] + a.pads[d];
    const int64_t room = in + a.pads[d + dims] - reach - 1;
    int64_t last = (a.ceil_mode ? CeilDiv(room, stride) : room / stride) * stride;
    if (a.ceil_mode && last >= in) last -= stride;  // a window must not begin after the end of the input
    zeros.before[d + 2] = a.pads[d];
    zeros.after[d + 2] = std::max(a.pads[d + dims], last + reach + 1 - in);
    size *= static_cast<double>(a.kernel[d]);
  }
  a.pads.assign(2 * dims, 0);
  a.ceil_mode = false;
  ValueId powers = TRY(PowerOf(c, pool.x, p));
  pool.x = TRY(c.Emit(Op::kPad, {powers}, zeros));
  ValueId mean = TRY(c.Emit(flat ? Op::kAvgPool2d : Op::kAvgPool3d, {pool.x}, a));
  ValueId y = TRY(RootOf(c, TRY(c.ApplyNumber(Op::kMul, mean, size)), p));
  return c.Bind(TRY(c.Reshape(y, pool.window.Lowered(c.ShapeOfValue(y)))));
}

Status ImportGlobalLpPool(ImportContext& c) {
  const int64_t p = TRY(ReadPower(c));
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  ValueId sum = TRY(c.Reduce(Op::kReduceSum, TRY(PowerOf(c, x, p)), AxesFrom(2, c.Rank(x))));
  return c.Bind(TRY(RootOf(c, sum, p)));
}

template <Op op>
Status ImportGlobalPool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.builder.Spec(x).shape;
  if (shape.size() < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  // The pooling is over the whole image, so the pixels may form one row.
  int64_t pixels = 1;
  for (size_t d = 2; d < shape.size(); ++d) pixels *= shape[d];
  if (shape.size() != 4) x = TRY(c.Reshape(x, {shape[0], shape[1], 1, pixels}));
  Shape out(shape.size(), 1);
  std::copy_n(shape.begin(), 2, out.begin());
  return c.Bind(TRY(c.Reshape(TRY(c.Emit(op, {x}, ImageAttrs{})), out)));
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
  if (shape.size() != 4) {  // the operator works across channels, so the pixels may form one row
    int64_t rest = 1;
    for (size_t i = 2; i < shape.size(); ++i) rest *= shape[i];
    image = {shape[0], shape[1], 1, rest};
  }
  x = TRY(c.Reshape(x, image));
  ValueId y = TRY(c.Emit(Op::kLrn, {x}, attrs));
  return c.Bind(TRY(c.Reshape(y, shape)));
}

// The input and the axis of Softmax, LogSoftmax and Hardmax. Before operator set 13 the input is flattened to a matrix:
// the dimensions before the axis become one, and those from the axis on become the other.
struct Rows {
  ValueId x = 0;
  int64_t axis = 0;
};

Result<Rows> ReadRows(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  Shape shape = c.ShapeOfValue(x);
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", c.opset < 13 ? 1 : -1)), c.Rank(x)));
  if (c.opset >= 13) return Rows{x, axis};
  int64_t rows = 1, columns = 1;
  for (size_t i = 0; i < shape.size(); ++i) (static_cast<int64_t>(i) < axis ? rows : columns) *= shape[i];
  x = TRY(c.Reshape(x, {rows, columns}));
  return Rows{x, 1};
}

Status BindRows(ImportContext& c, ValueId y) { return c.Bind(TRY(c.Reshape(y, TRY(c.ShapeOf(0))))); }

Status ImportSoftmax(ImportContext& c) {
  Rows r = TRY(ReadRows(c));
  return BindRows(c, TRY(c.Emit(Op::kSoftmax, {r.x}, AxisAttrs{r.axis})));
}

Status ImportLogSoftmax(ImportContext& c) {
  Rows r = TRY(ReadRows(c));
  return BindRows(c, TRY(LogSoftmaxValue(c, r.x, r.axis)));
}

// Imports Hardmax: 1 at the first of the largest elements along the axis, 0 elsewhere.
Status ImportHardmax(ImportContext& c) {
  Rows r = TRY(ReadRows(c));
  if (c.builder.Spec(r.x).NumElements() == 0) return BindRows(c, r.x);
  ValueId best = TRY(c.Emit(Op::kArgReduce, {r.x}, ArgAttrs{r.axis, true, false}));
  Shape shape(c.Rank(r.x), 1);
  shape[r.axis] = c.ShapeOfValue(r.x)[r.axis];
  TRY(c.Reserve(shape));
  std::vector<int64_t> positions(shape[r.axis]);
  std::iota(positions.begin(), positions.end(), 0);
  ValueId all = c.builder.AddConstant("", TensorValue::Of<int64_t>(shape, positions));
  return BindRows(c, TRY(c.Cast(TRY(c.Apply(Op::kEqual, best, all)), c.Type(r.x))));
}

}  // namespace

Status ImportLayerNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), scale = TRY(c.Tensor(1));
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -1)), c.Rank(x)));
  Normalized n = TRY(Normalize(c, x, AxesFrom(axis, c.Rank(x)), TRY(c.Float("epsilon", 1e-5f))));
  ValueId y = TRY(c.Apply(Op::kMul, n.y, scale));
  if (c.Has(2)) y = TRY(c.Apply(Op::kAdd, y, TRY(c.Tensor(2))));
  if (c.ShapeOfValue(y) != c.ShapeOfValue(x)) return Err("scale or bias do not fit ", c.builder.Spec(x).Text());
  TRY(c.BindAs(n.mean, 1));
  TRY(c.BindAs(n.inverse, 2));
  return c.Bind(y);
}

Status ImportSimplifiedLayerNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), scale = TRY(c.Tensor(1));
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -1)), c.Rank(x)));
  Normalized n = TRY(NormalizeByRoot(c, x, AxesFrom(axis, c.Rank(x)), TRY(c.Float("epsilon", 1e-5f))));
  ValueId y = TRY(c.Apply(Op::kMul, n.y, scale));
  if (c.ShapeOfValue(y) != c.ShapeOfValue(x)) return Err("the scale does not fit ", c.builder.Spec(x).Text());
  TRY(c.BindAs(n.inverse, 1));
  return c.Bind(y);
}

namespace {

Status ImportInstanceNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.Rank(x) < 3) return Err("input ", c.builder.Spec(x).Text(), " is no image");
  Normalized n = TRY(Normalize(c, x, AxesFrom(2, c.Rank(x)), TRY(c.Float("epsilon", 1e-5f))));
  return c.Bind(TRY(ScaledByChannel(c, n.y)));
}

// Normalizes over the channels of a group and all pixels. Scale and bias have one number per group in operator sets 18
// to 20, and one per channel since.
Status ImportGroupNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape shape = c.ShapeOfValue(x);
  const int64_t groups = TRY(c.Int("num_groups", 0));
  if (shape.size() < 2) return Err("input ", c.builder.Spec(x).Text(), " has no channels");
  if (groups < 1 || groups > std::max<int64_t>(shape[1], 1) || shape[1] % groups != 0)
    return Err(shape[1], " channels do not divide into ", groups, " groups");
  int64_t rest = shape[1] / groups;
  for (size_t d = 2; d < shape.size(); ++d) rest *= shape[d];
  Normalized n = TRY(Normalize(c, TRY(c.Reshape(x, {shape[0], groups, rest})), {2}, TRY(c.Float("epsilon", 1e-5f))));
  if (c.opset < 21) return c.Bind(TRY(c.Reshape(TRY(ScaledByChannel(c, n.y)), shape)));
  return c.Bind(TRY(ScaledByChannel(c, TRY(c.Reshape(n.y, shape)))));
}

// Imports LpNormalization: x divided by its norm along an axis. Zeros stay zeros.
Status ImportLpNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", -1)), c.Rank(x))), p = TRY(c.Int("p", 2));
  if (p != 1 && p != 2) return Err("p must be 1 or 2, not ", p);
  ValueId part = p == 1 ? TRY(c.Apply(Op::kAbs, x)) : TRY(c.Apply(Op::kMul, x, x));
  ValueId norm = TRY(c.Reduce(Op::kReduceSum, part, {axis}));
  if (p == 2) norm = TRY(c.Apply(Op::kSqrt, norm));
  ValueId divisor = TRY(c.Where(TRY(c.ApplyNumber(Op::kEqual, norm, 0)), c.Number(1, x), norm));
  return c.Bind(TRY(c.Apply(Op::kDiv, x, divisor)));
}

Status ImportMeanVarianceNormalization(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  std::vector<int64_t> axes = TRY(NormalizeAxes(TRY(c.IntList("axes", {0, 2, 3})), c.Rank(x)));
  // ONNX adds 1e-9 to the standard deviation. 1e-18 added to the variance has the same effect on constant inputs, which
  // become 0, and a negligible one on all others.
  return c.Bind(TRY(Normalize(c, x, axes, 1e-18)).y);
}

}  // namespace

Result<ValueId> LogSoftmaxValue(ImportContext& c, ValueId x, int64_t axis) {
  if (c.builder.Spec(x).NumElements() == 0) return x;
  ValueId shifted = TRY(c.Apply(Op::kSub, x, TRY(c.Reduce(Op::kReduceMax, x, {axis}))));
  return c.Apply(Op::kSub, shifted, TRY(LogOfExponentials(c, shifted, {axis})));
}

const std::vector<OperatorRow>& NormPoolOperators() {
  static const std::vector<OperatorRow> rows = {
      {"BatchNormalization", 6, 28, ImportBatchNormalization},
      {"MaxPool", 1, 28, ImportMaxPool},
      {"AveragePool", 1, 28, ImportAveragePool},
      {"GlobalAveragePool", 1, 28, ImportGlobalPool<Op::kGlobalAvgPool>},
      {"GlobalMaxPool", 1, 28, ImportGlobalPool<Op::kGlobalMaxPool>},
      {"LpPool", 2, 28, ImportLpPool},
      {"GlobalLpPool", 2, 28, ImportGlobalLpPool},
      {"LRN", 1, 28, ImportLrn},
      {"Softmax", 1, 28, ImportSoftmax},
      {"LogSoftmax", 1, 28, ImportLogSoftmax},
      {"Hardmax", 1, 28, ImportHardmax},
      // ONNX Runtime writes these two into models of any operator set, as if they were ONNX's.
      {"LayerNormalization", 1, 28, ImportLayerNormalization},
      {"SimplifiedLayerNormalization", 1, 28, ImportSimplifiedLayerNormalization},
      {"InstanceNormalization", 6, 28, ImportInstanceNormalization},
      {"GroupNormalization", 18, 28, ImportGroupNormalization},
      {"RMSNormalization", 23, 28, ImportSimplifiedLayerNormalization},
      {"LpNormalization", 1, 28, ImportLpNormalization},
      {"MeanVarianceNormalization", 9, 28, ImportMeanVarianceNormalization},
  };
  return rows;
}

}  // namespace autotune::onnx_import
