// Imports Conv, ConvTranspose, Gemm and MatMul, and reads the geometry of sliding windows.
#include <algorithm>

#include "frontend/onnx/formulas.h"

namespace autotune::onnx_import {

// Limit of a window's kernel extents, strides, dilations, pads and output sizes, so that sums and products of them
// cannot overflow.
constexpr int64_t kMaxWindow = 1 << 24;

Shape Window::Lifted(Shape shape) const {
  if (one_dimensional) shape.insert(shape.begin() + 2, 1);
  return shape;
}

Shape Window::Lowered(Shape shape) const {
  if (one_dimensional) shape.erase(shape.begin() + 2);
  return shape;
}

Result<Window> ReadWindow(const ImportContext& context, const Shape& spatial, std::vector<int64_t> kernel) {
  size_t rank = spatial.size();
  if (rank < 1 || rank > 3) return Err("works on ", rank, "-D images; only 1-D to 3-D are supported");
  Window w;
  std::vector<int64_t> declared = TRY(context.IntList("kernel_shape", kernel));
  if (kernel.empty()) kernel = declared;
  if (declared != kernel)
    return Err("kernel_shape ", ShapeText(declared), " contradicts the weight's ", ShapeText(kernel));
  w.kernel = kernel;
  w.strides = TRY(context.IntList("strides", std::vector<int64_t>(rank, 1)));
  w.dilations = TRY(context.IntList("dilations", std::vector<int64_t>(rank, 1)));
  w.pads = TRY(context.IntList("pads", std::vector<int64_t>(2 * rank, 0)));
  if (w.kernel.size() != rank || w.strides.size() != rank || w.dilations.size() != rank || w.pads.size() != 2 * rank) {
    return Err("kernel, strides, dilations or pads do not fit an image of ", rank, " dimensions");
  }
  for (const auto* numbers : {&w.kernel, &w.strides, &w.dilations, &w.pads}) {
    for (int64_t n : *numbers) {
      if (n < -kMaxWindow || n > kMaxWindow)
        return Err("kernel, strides, dilations or pads hold ", n, ", which is not between ", -kMaxWindow, " and ",
                   kMaxWindow);
    }
  }
  std::string auto_pad = TRY(context.String("auto_pad", "NOTSET"));
  if (auto_pad == "VALID") {
    w.pads.assign(2 * rank, 0);
  } else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    for (size_t i = 0; i < rank; ++i) {
      if (w.strides[i] < 1) return Err("strides must be positive");
      int64_t out = (spatial[i] + w.strides[i] - 1) / w.strides[i];
      int64_t total =
          std::max<int64_t>(0, (out - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1 - spatial[i]);
      int64_t less = total / 2, more = total - less;
      w.pads[i] = auto_pad == "SAME_UPPER" ? less : more;
      w.pads[i + rank] = total - w.pads[i];
    }
  } else if (auto_pad != "NOTSET") {
    return Err("auto_pad '", auto_pad, "' is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER");
  }
  if (rank == 1) {
    w.one_dimensional = true;
    w.kernel.insert(w.kernel.begin(), 1);
    w.strides.insert(w.strides.begin(), 1);
    w.dilations.insert(w.dilations.begin(), 1);
    w.pads = {0, w.pads[0], 0, w.pads[1]};
  }
  return w;
}

namespace {

// Returns the graph's convolution for two or three spatial dimensions.
Op ConvOver(size_t dims) { return dims == 2 ? Op::kConv2d : Op::kConv3d; }

}  // namespace

Result<ValueId> ConvValues(ImportContext& c, ValueId x, ValueId w) {
  Shape xs = c.builder.Spec(x).shape, ws = c.builder.Spec(w).shape;
  if (xs.size() < 3 || ws.size() != xs.size())
    return Err("input ", ShapeText(xs), " and weight ", ShapeText(ws), " do not fit");
  Window window = TRY(ReadWindow(c, {xs.begin() + 2, xs.end()}, {ws.begin() + 2, ws.end()}));
  x = TRY(c.Reshape(x, window.Lifted(xs)));
  w = TRY(c.Reshape(w, window.Lifted(ws)));
  int64_t groups = TRY(c.Int("group", 1));
  ConvAttrs attrs{window.strides, window.pads, window.dilations, groups, Layout::kNCHW};
  ValueId y = TRY(c.Emit(ConvOver(window.strides.size()), {x, w}, attrs));
  return c.Reshape(y, window.Lowered(c.ShapeOfValue(y)));
}

namespace {

// Returns y plus the bias of input 2, one number per channel; y itself if there is no bias.
Result<ValueId> WithBias(ImportContext& c, ValueId y) {
  if (!c.Has(2)) return y;
  ValueId bias = TRY(c.Tensor(2));
  Shape channel(c.Rank(y), 1);
  channel[1] = c.ShapeOfValue(y)[1];
  if (c.ShapeOfValue(bias) != Shape{channel[1]})
    return Err("bias must have shape [", channel[1], "], not ", c.builder.Spec(bias).Text());
  return c.Apply(Op::kAdd, y, TRY(c.Reshape(bias, channel)));
}

}  // namespace

Result<ValueId> ConvValue(ImportContext& c) {
  ValueId x = TRY(c.Factor(0)), w = TRY(c.Factor(1));
  return WithBias(c, TRY(ConvValues(c, x, w)));
}

namespace {

Status ImportConv(ImportContext& c) { return c.Bind(TRY(ConvValue(c))); }

// Imports ConvTranspose, the gradient of a convolution. Inserts stride - 1 zeros between the pixels of the input, and
// convolves the result with the mirrored weight.
Status ImportConvTranspose(ImportContext& c) {
  ValueId x = TRY(c.Factor(0)), w = TRY(c.Factor(1));
  Shape xs = c.ShapeOfValue(x), ws = c.ShapeOfValue(w);
  if (xs.size() < 3 || ws.size() != xs.size() || ws[0] != xs[1])
    return Err("input ", ShapeText(xs), " and weight ", ShapeText(ws), " do not fit");
  // In this operator pads crop the output, and auto_pad determines the output's extent.
  std::string auto_pad = TRY(c.String("auto_pad", "NOTSET"));
  Window window = TRY(ReadWindow(c, {xs.begin() + 2, xs.end()}, {ws.begin() + 2, ws.end()}));
  std::vector<int64_t> more = TRY(c.IntList("output_padding", Shape(xs.size() - 2, 0)));
  std::vector<int64_t> wanted = TRY(c.IntList("output_shape", {}));
  for (const auto* numbers : {&more, &wanted}) {
    for (int64_t n : *numbers) {
      if (n < 0 || n > kMaxWindow)
        return Err("output_padding or output_shape hold ", n, ", which is not between 0 and ", kMaxWindow);
    }
  }
  if (more.size() != xs.size() - 2 || (!wanted.empty() && wanted.size() != xs.size() - 2))
    return Err("output_padding or output_shape do not fit an image of ", xs.size() - 2, " dimensions");
  xs = window.Lifted(xs), ws = window.Lifted(ws);
  const size_t rank = xs.size(), dims = rank - 2;
  if (window.one_dimensional) {
    more.insert(more.begin(), 0);
    if (!wanted.empty()) wanted.insert(wanted.begin(), 1);
  }
  int64_t groups = TRY(c.Int("group", 1));
  if (groups < 1 || groups > std::max<int64_t>(ws[0], 1) || ws[0] % groups != 0)
    return Err(ws[0], " input channels do not divide into ", groups, " groups");
  int64_t out_channels = ws[1] * groups, inner = ws[0] / groups;
  PadAttrs spread{Shape(rank, 0), Shape(rank, 0), Shape(rank, 0), PadMode::kConstant, 0};
  SliceAttrs cut{Shape(rank, 0), xs, Shape(rank, 1)}, mirror{Shape(rank, 0), ws, Shape(rank, 1)};
  Shape out = {xs[0], out_channels};
  for (size_t i = 0; i < dims; ++i) {
    int64_t stride = window.strides[i], reach = (window.kernel[i] - 1) * window.dilations[i], extra = 0;
    if (stride < 1 || more[i] < 0) return Err("strides must be positive, output_padding not negative");
    int64_t begin = window.pads[i], end = window.pads[i + dims], full = (xs[2 + i] - 1) * stride + reach + 1 + more[i];
    bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (same || !wanted.empty()) {
      int64_t extent = wanted.empty() ? xs[2 + i] * stride : wanted[i];
      int64_t total = std::max<int64_t>(0, full - extent);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
      extra = extent - (full - total);
    }
    out.push_back(full - begin - end + extra);
    if (out.back() < 1) return Err("pads leave nothing of the output");
    int64_t before = reach - begin, after = reach - end + more[i] + extra;
    spread.interior[2 + i] = stride - 1;
    spread.before[2 + i] = std::max<int64_t>(0, before);
    spread.after[2 + i] = std::max<int64_t>(0, after);
    cut.begin[2 + i] = std::max<int64_t>(0, -before);
    cut.extent[2 + i] = out.back() + reach;
    mirror.begin[2 + i] = window.kernel[i] - 1;
    mirror.step[2 + i] = -1;
  }
  x = TRY(c.Reshape(x, xs));
  x = TRY(c.Emit(Op::kPad, {x}, spread));
  if (c.ShapeOfValue(x) != cut.extent) x = TRY(c.Emit(Op::kSlice, {x}, cut));
  w = TRY(c.Reshape(w, ws));
  w = TRY(c.Emit(Op::kSlice, {w}, mirror));
  Shape grouped = {groups, inner, ws[1]}, swapped = {out_channels, inner};
  std::vector<int64_t> swap = {0, 2, 1};  // within a group, puts output channels before input channels
  for (size_t i = 0; i < dims; ++i) {
    grouped.push_back(ws[2 + i]);
    swapped.push_back(ws[2 + i]);
    swap.push_back(static_cast<int64_t>(3 + i));
  }
  w = TRY(c.Reshape(TRY(c.Transpose(TRY(c.Reshape(w, grouped)), swap)), swapped));
  ConvAttrs attrs{Shape(dims, 1), Shape(2 * dims, 0), window.dilations, groups, Layout::kNCHW};
  ValueId y = TRY(WithBias(c, TRY(c.Emit(ConvOver(dims), {x, w}, attrs))));
  return c.Bind(TRY(c.Reshape(y, window.Lowered(out))));
}

Status ImportGemm(ImportContext& c) {
  ValueId a = TRY(c.Factor(0)), b = TRY(c.Factor(1));
  if (c.builder.Spec(a).rank() != 2 || c.builder.Spec(b).rank() != 2) return Err("operands must be matrices");
  if (TRY(c.Int("transA", 0))) a = TRY(c.Transpose(a, {1, 0}));
  if (TRY(c.Int("transB", 0))) b = TRY(c.Transpose(b, {1, 0}));
  float alpha = TRY(c.Float("alpha", 1)), beta = TRY(c.Float("beta", 1));
  bool constant_b = c.Constant(1) != nullptr;
  // Multiply the constant operand by alpha, since constant folding then removes the multiplication.
  if (alpha != 1 && constant_b) b = TRY(c.ApplyNumber(Op::kMul, b, alpha));
  ValueId y = TRY(c.Emit(Op::kMatmul, {a, b}));
  if (c.Type(a).IsInt()) y = TRY(c.Cast(y, c.Type(a)));  // sums of bytes are wider
  if (alpha != 1 && !constant_b) y = TRY(c.ApplyNumber(Op::kMul, y, alpha));
  if (c.Has(2) && beta != 0) {
    ValueId bias = TRY(c.Tensor(2));
    if (beta != 1) bias = TRY(c.ApplyNumber(Op::kMul, bias, beta));
    Shape shape = c.builder.Spec(y).shape;
    y = TRY(c.Emit(Op::kAdd, {y, bias}));
    if (c.builder.Spec(y).shape != shape) return Err("C does not broadcast to ", ShapeText(shape));
  }
  return c.Bind(y);
}

}  // namespace

Result<ValueId> MatMulValues(ImportContext& c, ValueId a, ValueId b) {
  const DType type = c.Type(a);
  Shape as = c.builder.Spec(a).shape, bs = c.builder.Spec(b).shape;
  if (as.empty() || bs.empty()) return Err("operands must not be scalars");
  // Vectors become matrices; their unit dimension is dropped from the result.
  bool row = as.size() == 1, column = bs.size() == 1;
  if (row) as.insert(as.begin(), 1);
  if (column) bs.push_back(1);
  int64_t m = as[as.size() - 2], k = as.back(), n = bs.back();
  if (bs[bs.size() - 2] != k)
    return Err("cannot multiply ", c.builder.Spec(a).Text(), " by ", c.builder.Spec(b).Text());
  Shape batch = TRY(BroadcastShapes(Shape(as.begin(), as.end() - 2), Shape(bs.begin(), bs.end() - 2)));
  ValueId y = 0;
  bool shared_b = std::all_of(bs.begin(), bs.end() - 2, [](int64_t d) { return d == 1; });
  if (shared_b) {  // all batch entries share one matrix b, so they become one larger product
    int64_t rows = m;
    for (size_t i = 0; i + 2 < as.size(); ++i) rows *= as[i];
    a = TRY(c.Reshape(a, {rows, k}));
    b = TRY(c.Reshape(b, {k, n}));
    y = TRY(c.Apply(Op::kMatmul, a, b));
  } else {
    size_t rank = batch.size() + 2;
    as.insert(as.begin(), rank - as.size(), 1);
    bs.insert(bs.begin(), rank - bs.size(), 1);
    a = TRY(c.Reshape(a, as));
    b = TRY(c.Reshape(b, bs));
    y = TRY(c.Apply(Op::kBatchMatmul, a, b));
  }
  Shape out = batch;
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  // Sums of bytes, which are wider, wrap around in the operands' type.
  return c.Reshape(type.IsInt() ? TRY(c.Cast(y, type)) : y, out);
}

namespace {

Status ImportMatMul(ImportContext& c) {
  ValueId a = TRY(c.Factor(0)), b = TRY(c.Factor(1));
  return c.Bind(TRY(MatMulValues(c, a, b)));
}

}  // namespace

const std::vector<OperatorRow>& ConvOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Conv", 1, 28, ImportConv},
      {"ConvTranspose", 1, 28, ImportConvTranspose},
      {"Gemm", 6, 28, ImportGemm},
      {"MatMul", 1, 28, ImportMatMul},
  };
  return rows;
}

}  // namespace autotune::onnx_import
