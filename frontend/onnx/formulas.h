// Formulas that operators of ONNX share with those of com.microsoft. Internal to frontend/onnx; not thread-safe.
#pragma once
#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

// x (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh (activation.cc).
Result<ValueId> GeluValue(ImportContext& context, ValueId x, bool by_tanh);
// x sigmoid(alpha x) (activation.cc)
Result<ValueId> SwishValue(ImportContext& context, ValueId x, double alpha);

// The current node as Conv: inputs 0, 1 and, if there is one, the bias 2 (conv.cc).
Result<ValueId> ConvValue(ImportContext& context);

// (x - mean) * inverse over the axes, inverse = 1 / sqrt(variance + epsilon) (norm_pool.cc).
struct Normalized {
  ValueId y = 0, mean = 0, variance = 0, inverse = 0;
};
Result<Normalized> Normalize(ImportContext& context, ValueId x, const std::vector<int64_t>& axes, double epsilon);
// x * inverse, inverse = 1 / sqrt(mean of x^2 + epsilon); neither `mean` nor `variance` (norm_pool.cc).
Result<Normalized> NormalizeByRoot(ImportContext& context, ValueId x, const std::vector<int64_t>& axes, double epsilon);

// LayerNormalization, and as it is without means and bias, from the axis in the attribute `axis` on (norm_pool.cc).
Status ImportLayerNormalization(ImportContext& context);
Status ImportSimplifiedLayerNormalization(ImportContext& context);

// Turns pairs among the first `rotated` elements of x [.., .., .., D]: (a, b) becomes (a cos - b sin, a sin + b cos). A
// pair is an even and the next odd element if `interleaved`, else one of the first and one of the second half. Angles
// broadcast to [.., .., .., rotated / 2] (rotary.cc).
struct Rotation {
  ValueId cos = 0, sin = 0;
  int64_t rotated = 0;
  bool interleaved = false;
};
Result<ValueId> RotateHeads(ImportContext& context, ValueId x, const Rotation& rotation);

}  // namespace autotune::onnx_import
