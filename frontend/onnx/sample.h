// Reads images at computed positions, as weighted sums of a few pixels. A tap is one pixel with its weight.
// Element-wise operators compute the places (indices of pixels) and the weights; gather_sum adds up the taps. Internal
// to frontend/onnx.
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

// The taps along one dimension, or of the whole image. Places are i32; both values are [batch, points, taps].
struct PixelTaps {
  ValueId places = 0, weights = 0;
};

// Returns the taps along a dimension of n pixels for `position`, [batch, points, 1] in pixels.
Result<PixelTaps> TapsAlong(ImportContext& c, ValueId position, int64_t n, const Sampling& s);
// Returns all combinations of the taps of two dimensions. The second dimension has n pixels.
Result<PixelTaps> Combined(ImportContext& c, const PixelTaps& a, const PixelTaps& b, int64_t n);

// Returns an error unless the image holds floats and its number of pixels fits i32.
Status CheckPlaces(const ImportContext& c, ValueId x);
// Transposes an image [batch, channels, pixels...] to [batch, pixels, channels].
Result<ValueId> AsRows(ImportContext& c, ValueId x);
// Returns a constant of the numbers begin, begin + 1, ....
Result<ValueId> Counted(ImportContext& c, const Shape& shape, int64_t begin, DType type);

}  // namespace autotune::onnx_import
