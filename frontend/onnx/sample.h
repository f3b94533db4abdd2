// Reads images at computed positions, as weighted sums of a few pixels. A tap is one pixel with its weight; places and
// weights are computed element-wise, and gather_sum adds up the taps. Internal to frontend/onnx.
#pragma once
#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

inline const DType kPlaceType = DType::Int(32);

enum class Interpolation { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

struct Sampling {
  Interpolation mode = Interpolation::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = false;
};

// The taps along one dimension, or of the whole image: places as i32 and weights, both [batch, points, taps].
struct PixelTaps {
  ValueId places = 0, weights = 0;
};

// The taps of positions [batch, points, 1], in pixels, along a dimension of n pixels.
Result<PixelTaps> TapsAlong(ImportContext& c, ValueId position, int64_t n, const Sampling& s);
// All combinations of the taps of two dimensions, the second of which has n pixels.
Result<PixelTaps> Combined(ImportContext& c, const PixelTaps& a, const PixelTaps& b, int64_t n);

// Whether the image is of floats, and its pixels can be counted in i32.
Status CheckPlaces(const ImportContext& c, ValueId x);
// An image [batch, channels, pixels...] as rows of channels: [batch, pixels, channels].
Result<ValueId> AsRows(ImportContext& c, ValueId x);
// Numbers from `begin` on, as a constant.
Result<ValueId> Counted(ImportContext& c, const Shape& shape, int64_t begin, DType type);

}  // namespace autotune::onnx_import
