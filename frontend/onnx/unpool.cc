// Imports Col2Im and MaxUnpool, which put the columns or maxima of windows back at their pixels.
#include <algorithm>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Imports Col2Im: puts windows back into an image. Each pixel is the sum of the elements of all windows that cover it.
Status ImportCol2Im(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0));
  const Shape columns = c.ShapeOfValue(x), image = TRY(c.Ints(1, "image_shape")), block = TRY(c.Ints(2, "block_shape"));
  const size_t dims = image.size();
  const std::vector<int64_t> strides = TRY(c.IntList("strides", Shape(dims, 1)));
  const std::vector<int64_t> dilations = TRY(c.IntList("dilations", Shape(dims, 1)));
  const std::vector<int64_t> pads = TRY(c.IntList("pads", Shape(2 * dims, 0)));
  if (!c.Type(x).IsFloat()) return Err("is supported on floats, not on ", c.builder.Spec(x).Text());
  if (dims < 1 || block.size() != dims || strides.size() != dims || dilations.size() != dims ||
      pads.size() != 2 * dims || columns.size() != 3)
    return Err("columns ", ShapeText(columns), " do not fit an image ", ShapeText(image));
  Shape windows(dims);
  int64_t pixels = 1, taps = 1, places = 1;
  for (size_t d = 0; d < dims; ++d) {
    constexpr int64_t kMost = 1 << 24;
    for (int64_t n : {image[d], block[d], strides[d], dilations[d], pads[d] + 1, pads[d + dims] + 1}) {
      if (n < 1 || n > kMost)
        return Err("image_shape, block_shape, strides, dilations or pads hold the impossible value ", n);
    }
    windows[d] = (image[d] + pads[d] + pads[d + dims] - dilations[d] * (block[d] - 1) - 1) / strides[d] + 1;
    if (windows[d] < 1) return Err("a block ", ShapeText(block), " does not fit the image ", ShapeText(image));
    pixels *= image[d], taps *= block[d], places *= windows[d];
    if (std::max({pixels, taps, places}) > int64_t{1} << 27)
      return Err("the image ", ShapeText(image), " is too large");
  }
  if (columns[2] != places || columns[1] % taps != 0 || columns[0] < 1 || columns[1] < 1)
    return Err("columns ", ShapeText(columns), " do not fit an image ", ShapeText(image));
  // For each pixel, the elements of the columns that are added to it, as indices tap * places + window.
  std::vector<std::vector<int64_t>> sources(pixels);
  TRY(c.Reserve({taps, places}));
  size_t most = 1;
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t place = 0; place < places; ++place) {
      int64_t pixel = 0, stride = 1, t = tap, p = place;
      bool inside = true;
      for (size_t d = dims; d-- > 0; t /= block[d], p /= windows[d]) {
        const int64_t at = p % windows[d] * strides[d] - pads[d] + t % block[d] * dilations[d];
        inside = inside && at >= 0 && at < image[d];
        pixel += at * stride;
        stride *= image[d];
      }
      if (!inside) continue;
      sources[pixel].push_back(tap * places + place);
      most = std::max(most, sources[pixel].size());
    }
  }
  const int64_t width = static_cast<int64_t>(most);
  TRY(c.Reserve({2, pixels, width}));
  std::vector<int32_t> at(pixels * width, 0);
  std::vector<double> weights(pixels * width, 0);
  for (int64_t i = 0; i < pixels; ++i) {
    for (size_t k = 0; k < sources[i].size(); ++k) {
      at[i * width + static_cast<int64_t>(k)] = static_cast<int32_t>(sources[i][k]);
      weights[i * width + static_cast<int64_t>(k)] = 1;
    }
  }
  const int64_t channels = columns[1] / taps, images = columns[0] * channels;
  x = TRY(c.Transpose(TRY(c.Reshape(x, {1, images, taps * places})), {0, 2, 1}));
  const Shape taken = {1, pixels, width};
  ValueId weight = c.builder.AddConstant("", TensorValue::FromNumbers(c.Type(x), taken, weights));
  ValueId place = c.builder.AddConstant("", TensorValue::Of<int32_t>(taken, at));
  ValueId y = TRY(c.Emit(Op::kGatherSum, {x, weight, place}));
  Shape out = {columns[0], channels};
  out.insert(out.end(), image.begin(), image.end());
  return c.Bind(TRY(c.Reshape(TRY(c.Transpose(y, {0, 2, 1})), out)));
}

// Imports MaxUnpool: puts the maxima of a pool back at their places, with zeros elsewhere.
Status ImportMaxUnpool(ImportContext& c) {
  ValueId x = TRY(c.Tensor(0)), places = TRY(c.Tensor(1));
  const Shape in = c.ShapeOfValue(x);
  if (in.size() < 3 || c.ShapeOfValue(places) != in)
    return Err("places ", c.builder.Spec(places).Text(), " do not fit ", c.builder.Spec(x).Text());
  const size_t dims = in.size() - 2;
  const std::vector<int64_t> kernel = TRY(c.IntList("kernel_shape", {})),
                             strides = TRY(c.IntList("strides", Shape(dims, 1))),
                             pads = TRY(c.IntList("pads", Shape(2 * dims, 0)));
  if (kernel.size() != dims || strides.size() != dims || pads.size() != 2 * dims)
    return Err("kernel_shape, strides or pads do not fit ", ShapeText(in));
  Shape shape = in;
  for (size_t d = 0; d < dims; ++d) {
    constexpr int64_t kMost = 1 << 24;
    for (int64_t n : {kernel[d], strides[d], pads[d] + 1, pads[d + dims] + 1}) {
      if (n < 1 || n > kMost) return Err("kernel_shape, strides or pads hold the impossible value ", n);
    }
    shape[d + 2] = (in[d + 2] - 1) * strides[d] - pads[d] - pads[d + dims] + kernel[d];
    if (shape[d + 2] < 1) return Err("its result would have no elements");
  }
  TRY(CheckSize({c.Type(x), shape}));
  const int64_t all = TensorSpec{c.Type(x), shape}.NumElements(), count = c.builder.Spec(x).NumElements();
  if (count == 0) return Err("the input has no elements");
  ValueId zeros = TRY(c.Emit(Op::kBroadcastTo, {c.Number(0, x)}, ReshapeAttrs{{all}}));
  x = TRY(c.Reshape(x, {count}));
  places = TRY(c.Reshape(places, {count}));
  ValueId y = TRY(c.Emit(Op::kScatter, {zeros, x, places}, ScatterAttrs{}));
  y = TRY(c.Reshape(y, shape));
  if (c.Has(2)) {  // cut or pad the result at its ends
    const Shape wanted = TRY(c.Ints(2, "output_shape"));
    if (wanted.size() != shape.size()) return Err("output_shape ", ShapeText(wanted), " does not fit ", ShapeText(in));
    PadAttrs a{Shape(shape.size(), 0), Shape(shape.size(), 0), Shape(shape.size(), 0), PadMode::kConstant, 0};
    SliceAttrs cut{Shape(shape.size(), 0), shape, Shape(shape.size(), 1)};
    for (size_t d = 0; d < shape.size(); ++d) {
      if (wanted[d] < 1) return Err("output_shape ", ShapeText(wanted), " has no elements");
      cut.extent[d] = std::min(shape[d], wanted[d]);
      a.after[d] = wanted[d] - cut.extent[d];
    }
    if (cut.extent != shape) y = TRY(c.Emit(Op::kSlice, {y}, cut));
    if (wanted != shape) y = TRY(c.Emit(Op::kPad, {y}, a));
  }
  return c.Bind(y);
}

}  // namespace

const std::vector<OperatorRow>& UnpoolOperators() {
  static const std::vector<OperatorRow> rows = {
      {"Col2Im", 18, 28, ImportCol2Im},
      {"MaxUnpool", 9, 28, ImportMaxUnpool},
  };
  return rows;
}

}  // namespace autotune::onnx_import
