// Imports conversions between floats and small integers, and products and convolutions of small integers.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "frontend/onnx/formulas.h"
#include "support/integer.h"

namespace autotune::onnx_import {
Result<ValueId> QuantizedValue(ImportContext& c, ValueId x, ValueId scale, ValueId zero, DType type) {
  if (!type.IsInt() || type.bits > (c.opset < 21 ? 8 : 16))
    return Err("quantization to ", type.Text(), " is not supported");
  ValueId y = TRY(c.Apply(Op::kRound, TRY(c.Apply(Op::kDiv, x, scale))));
  y = TRY(c.Apply(Op::kAdd, y, TRY(c.Cast(zero, c.Type(x)))));
  const float range = std::ldexp(1.f, type.bits), low = type.code == TypeCode::kUInt ? 0.f : -range / 2;
  y = TRY(c.ApplyNumber(Op::kMin, TRY(c.ApplyNumber(Op::kMax, y, low)), low + range - 1));
  return c.Cast(y, type);
}

Result<ValueId> DequantizedValue(ImportContext& c, ValueId x, ValueId scale, std::optional<ValueId> zero) {
  const auto cast = [&](ValueId v, DType type) -> Result<ValueId> {
    return c.Type(v) == type ? v : c.EmitUnfolded(Op::kCast, {v}, CastAttrs{type});
  };
  ValueId y = TRY(cast(x, DType::Int(32)));
  if (zero) {
    const ValueId wide = TRY(c.Cast(*zero, DType::Int(32)));
    y = TRY(c.EmitUnfolded(Op::kSub, {y, wide}));
  }
  y = TRY(cast(y, c.Type(scale)));
  return c.EmitUnfolded(Op::kMul, {y, scale});
}

namespace {

// Returns a scale or zero point in a shape that broadcasts to x. The input has one number, one for each index of the
// axis or, since operator set 21, one for each block of `block_size` indices of the axis; the last block may be
// shorter.
Result<ValueId> AlongAxis(ImportContext& c, size_t input, ValueId x) {
  ValueId v = TRY(c.Tensor(input));
  int64_t n = c.builder.Spec(v).NumElements(), block = c.opset >= 21 ? TRY(c.Int("block_size", 0)) : 0;
  if (block < 0) return Err("block_size must not be negative");
  if (n == 1 && block == 0) return c.Reshape(v, {});
  int64_t axis = TRY(NormalizeAxis(TRY(c.Int("axis", 1)), c.Rank(x)));
  if (block > 0) {
    Shape shape = c.ShapeOfValue(x);
    const int64_t extent = shape[axis];
    if (block > std::max<int64_t>(extent, 1)) return Err("block_size ", block, " exceeds ", c.builder.Spec(x).Text());
    shape[axis] = CeilDiv(extent, block);
    if (c.ShapeOfValue(v) != shape)
      return Err("scale and zero point must have shape ", ShapeText(shape), ", not ", c.builder.Spec(v).Text());
    TRY(c.Reserve({extent}));
    std::vector<int64_t> places(extent);
    for (int64_t i = 0; i < extent; ++i) places[i] = i / block;
    ValueId indices = c.builder.AddConstant("", TensorValue::Of<int64_t>({extent}, places));
    return c.Emit(Op::kGather, {v, indices}, AxisAttrs{axis});
  }
  if (c.Rank(v) != 1 || n != c.ShapeOfValue(x)[axis])
    return Err("scale and zero point do not fit axis ", axis, " of ", c.builder.Spec(x).Text());
  Shape along(c.Rank(x), 1);
  along[axis] = n;
  return c.Reshape(v, along);
}

Status ImportQuantizeLinear(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), scale = TRY(AlongAxis(c, 1, x));
  if (c.Type(x) == DType::Int(32)) x = TRY(c.Cast(x, DType::Float(32)));
  if (c.Type(x) != DType::Float(32)) return Err("is supported on f32 and i32, not on ", c.builder.Spec(x).Text());
  if (c.Type(scale) != c.Type(x))
    return Err("divides ", c.builder.Spec(x).Text(), " by ", c.builder.Spec(scale).Text());
  ValueId zero = c.Has(2) ? TRY(AlongAxis(c, 2, x)) : c.Number(0, x);
  DType type = c.Has(2) ? c.Type(zero) : DType::UInt(8);
  if (int64_t wanted = c.opset >= 21 ? TRY(c.Int("output_dtype", 0)) : 0; wanted != 0) {
    if (DType named = TRY(SupportedType(wanted)); c.Has(2) && named != type) {
      return Err("output_dtype is ", named.Text(), ", but the zero point is ", type.Text());
    } else {
      type = named;
    }
  }
  return c.Bind(TRY(QuantizedValue(c, x, scale, zero, type)));
}

// Computes scale and zero point from the range of the data, which is extended to include 0. If all data are 0, the
// scale is 1, as in ONNX's reference implementation and in ONNX Runtime.
Status ImportDynamicQuantizeLinear(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  if (c.Type(x) != DType::Float(32)) return Err("is supported on f32, not on ", c.builder.Spec(x).Text());
  std::vector<int64_t> axes(c.Rank(x));
  std::iota(axes.begin(), axes.end(), 0);
  ValueId top = TRY(c.Reshape(TRY(c.Reduce(Op::kReduceMax, x, axes)), {}));
  ValueId bottom = TRY(c.Reshape(TRY(c.Reduce(Op::kReduceMin, x, axes)), {}));
  top = TRY(c.ApplyNumber(Op::kMax, top, 0));
  bottom = TRY(c.ApplyNumber(Op::kMin, bottom, 0));
  const ValueId range = TRY(c.Apply(Op::kSub, top, bottom));
  ValueId scale = TRY(c.ApplyNumber(Op::kDiv, range, 255));
  scale = TRY(c.Where(TRY(c.ApplyNumber(Op::kEqual, range, 0)), c.Number(1, scale), scale));
  ValueId zero = TRY(c.ApplyToNumber(Op::kSub, 0, TRY(c.Apply(Op::kDiv, bottom, scale))));
  zero = TRY(c.Apply(Op::kRound, TRY(c.Emit(Op::kClip, {zero}, ClipAttrs{0, 255}))));
  TRY(c.Bind(scale, 1));
  TRY(c.Bind(TRY(c.Cast(zero, DType::UInt(8))), 2));
  return c.Bind(TRY(QuantizedValue(c, x, scale, zero, DType::UInt(8))));
}

// If the scales of DequantizeLinear hold for whole blocks of an axis of x, returns the shape of x with that axis cut
// into blocks; else nothing. `axis`: the axis of the blocks.
Result<std::optional<Shape>> WholeBlocks(ImportContext& c, ValueId x, int64_t& axis) {
  const int64_t block = c.opset >= 21 ? TRY(c.Int("block_size", 0)) : 0;
  if (block <= 0) return std::optional<Shape>();
  axis = TRY(NormalizeAxis(TRY(c.Int("axis", 1)), c.Rank(x)));
  Shape shape = c.ShapeOfValue(x);
  if (shape[axis] % block != 0) return std::optional<Shape>();
  shape[axis] /= block;
  shape.insert(shape.begin() + axis + 1, block);
  return std::optional(shape);
}

Status ImportDequantizeLinear(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), scale = TRY(AlongAxis(c, 1, x));
  if (int64_t wanted = c.opset >= 23 ? TRY(c.Int("output_dtype", 0)) : 0; wanted != 0) {
    if (DType type = TRY(SupportedType(wanted)); type != TRY(c.StoredType(1)))
      return Err("a scale of ", TRY(c.StoredType(1)).Text(), " with outputs of ", type.Text(), " is not supported");
  }
  int64_t axis = 0;
  const std::optional<Shape> blocks = TRY(WholeBlocks(c, x, axis));
  // Returns a scale or zero point, of which the blocks are a dimension of their own.
  const auto of_blocks = [&](size_t input, ValueId along) -> Result<ValueId> {
    if (!blocks) return along;
    Shape shape = *blocks;
    shape[static_cast<size_t>(axis) + 1] = 1;
    return c.Reshape(TRY(c.Tensor(input)), shape);
  };
  scale = TRY(of_blocks(1, scale));
  std::optional<ValueId> zero;
  if (c.Has(2)) zero = TRY(of_blocks(2, TRY(AlongAxis(c, 2, x))));
  const ValueId y = TRY(DequantizedValue(c, blocks ? TRY(c.Reshape(x, *blocks)) : x, scale, zero));
  return c.Bind(blocks ? TRY(c.Reshape(y, c.ShapeOfValue(x))) : y);
}

// Returns a scale or zero point in a shape that broadcasts to matrices. The input is one number, one per row of the
// left operand or of the result, one per column of the right operand, or already has that shape.
Result<ValueId> AlongMatrix(ImportContext& c, size_t input, bool columns) {
  ValueId v = TRY(c.Tensor(input));
  const int64_t n = c.builder.Spec(v).NumElements();
  if (n == 1) return c.Reshape(v, {});
  if (c.Rank(v) == 1) return c.Reshape(v, columns ? Shape{n} : Shape{n, 1});
  return v;
}

// Returns an operand as i32, minus its zero point.
Result<ValueId> Centered(ImportContext& c, size_t input, size_t zero_input, bool columns) {
  ValueId x = TRY(c.Cast(TRY(c.Tensor(input)), DType::Int(32)));
  if (!c.Has(zero_input)) return x;
  ValueId zero = TRY(c.Cast(TRY(AlongMatrix(c, zero_input, columns)), DType::Int(32)));
  ValueId y = TRY(c.Apply(Op::kSub, x, zero));
  if (c.ShapeOfValue(y) != c.ShapeOfValue(x)) return Err("a zero point does not fit ", c.builder.Spec(x).Text());
  return y;
}

// Returns y times the scales a and b. They must broadcast to the shape of y.
Result<ValueId> Scaled(ImportContext& c, ValueId y, ValueId a, ValueId b) {
  ValueId scaled = TRY(c.Apply(Op::kMul, y, TRY(c.Apply(Op::kMul, a, b))));
  if (c.ShapeOfValue(scaled) != c.ShapeOfValue(y)) return Err("scales do not fit ", c.builder.Spec(y).Text());
  return scaled;
}

// Imports QLinearMatMul: a product of integers with exact accumulators, then scaled in floats.
Status ImportQLinearMatMul(ImportContext& c) {
  ValueId a = TRY(Centered(c, 0, 2, false)), b = TRY(Centered(c, 3, 5, true));
  ValueId y = TRY(c.Cast(TRY(MatMulValues(c, a, b)), DType::Float(32)));
  ValueId a_scale = TRY(AlongMatrix(c, 1, false)), b_scale = TRY(AlongMatrix(c, 4, true));
  y = TRY(Scaled(c, y, a_scale, b_scale));
  ValueId scale = TRY(AlongMatrix(c, 6, false)), zero = TRY(AlongMatrix(c, 7, false));
  return c.Bind(TRY(QuantizedValue(c, y, scale, zero, c.Type(zero))));
}

// Returns a scale or zero point of a convolution's weight, in a shape that broadcasts to `rank` dimensions. The input
// has one number, or one for each output channel; dimension `axis` holds the output channels.
Result<ValueId> AlongChannels(ImportContext& c, size_t input, int rank, int axis) {
  ValueId v = TRY(c.Tensor(input));
  const int64_t n = c.builder.Spec(v).NumElements();
  if (n == 1) return c.Reshape(v, {});
  if (c.Rank(v) != 1) return Err("a scale or zero point ", c.builder.Spec(v).Text(), " is no vector");
  Shape along(rank, 1);
  along[axis] = n;
  return c.Reshape(v, along);
}

// Returns the convolution of image and weight as i32, after subtracting the zero point of each. The subtraction comes
// first, so that a padding of 0 stands for the image's zero point.
Result<ValueId> IntegerConv(ImportContext& c, size_t x_input, size_t x_zero, size_t w_input, size_t w_zero) {
  ValueId x = TRY(c.Cast(TRY(c.Tensor(x_input)), DType::Int(32)));
  ValueId w = TRY(c.Cast(TRY(c.Tensor(w_input)), DType::Int(32)));
  const Shape image = c.ShapeOfValue(x), weight = c.ShapeOfValue(w);
  if (weight.size() < 3) return Err("the weight ", c.builder.Spec(w).Text(), " is none of a convolution");
  if (c.Has(x_zero)) {
    ValueId zero = TRY(c.Tensor(x_zero));
    if (c.builder.Spec(zero).NumElements() != 1) return Err("the image has more than one zero point");
    x = TRY(c.Apply(Op::kSub, x, TRY(c.Cast(TRY(c.Reshape(zero, {})), DType::Int(32)))));
  }
  if (c.Has(w_zero)) {
    ValueId zero = TRY(AlongChannels(c, w_zero, c.Rank(w), 0));
    w = TRY(c.Apply(Op::kSub, w, TRY(c.Cast(zero, DType::Int(32)))));
  }
  if (c.ShapeOfValue(x) != image || c.ShapeOfValue(w) != weight)
    return Err("a zero point does not fit ", ShapeText(weight));
  return ConvValues(c, x, w);
}

Status ImportConvInteger(ImportContext& c) { return c.Bind(TRY(IntegerConv(c, 0, 2, 1, 3))); }

Status ImportQLinearConv(ImportContext& c) {
  ValueId y = TRY(IntegerConv(c, 0, 2, 3, 5));
  const int rank = c.Rank(y);
  if (c.Has(8)) {
    ValueId bias = TRY(c.Tensor(8));
    if (c.ShapeOfValue(bias) != Shape{c.ShapeOfValue(y)[1]})
      return Err("the bias ", c.builder.Spec(bias).Text(), " does not fit ", c.builder.Spec(y).Text());
    y = TRY(c.Apply(Op::kAdd, y, TRY(AlongChannels(c, 8, rank, 1))));
  }
  ValueId x_scale = TRY(AlongChannels(c, 1, rank, 1)), w_scale = TRY(AlongChannels(c, 4, rank, 1));
  y = TRY(Scaled(c, TRY(c.Cast(y, c.Type(x_scale))), x_scale, w_scale));
  ValueId scale = TRY(c.Reshape(TRY(c.Tensor(6)), {})), zero = TRY(c.Reshape(TRY(c.Tensor(7)), {}));
  return c.Bind(TRY(QuantizedValue(c, y, scale, zero, c.Type(zero))));
}

Status ImportMatMulInteger(ImportContext& c) {
  ValueId a = TRY(Centered(c, 0, 2, false)), b = TRY(Centered(c, 1, 3, true));
  return c.Bind(TRY(MatMulValues(c, a, b)));
}

}  // namespace

const std::vector<OperatorRow>& QuantizeOperators() {
  static const std::vector<OperatorRow> rows = {
      {"QuantizeLinear", 10, 28, ImportQuantizeLinear},
      {"DequantizeLinear", 10, 28, ImportDequantizeLinear},
      {"DynamicQuantizeLinear", 11, 28, ImportDynamicQuantizeLinear},
      {"QLinearMatMul", 10, 28, ImportQLinearMatMul},
      {"MatMulInteger", 10, 28, ImportMatMulInteger},
      {"QLinearConv", 10, 28, ImportQLinearConv},
      {"ConvInteger", 10, 28, ImportConvInteger},
  };
  return rows;
}

}  // namespace autotune::onnx_import
