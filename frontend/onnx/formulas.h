// Formulas that operators of ONNX share with those of com.microsoft. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <optional>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

// Returns x (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh (activation.cc).
Result<ValueId> GeluValue(ImportContext& context, ValueId x, bool by_tanh);
// Returns x sigmoid(alpha x) (activation.cc).
Result<ValueId> SwishValue(ImportContext& context, ValueId x, double alpha);

// Returns log(1 + y) for y >= 0, and minus infinity for y = -1 (activation.cc).
Result<ValueId> LogOnePlus(ImportContext& context, ValueId y);
// Returns the logarithm of the sum of exp(x) over some axes, which stay with extent 1. The caller has subtracted the
// largest x along these axes, so that it is 0 (reduce.cc).
Result<ValueId> LogOfExponentials(ImportContext& context, ValueId x, const std::vector<int64_t>& axes);

// Returns the second operand of an element-wise operator, in a shape that broadcasts by trailing dimensions (math.cc).
Result<ValueId> SecondOperand(ImportContext& context, ValueId a);

// Returns round(x / scale) + zero, clamped to the range of the type (quantize.cc). NaN becomes the least number of the
// type, as in ONNX Runtime: max returns its second operand if the first one is NaN. ONNX leaves this case open.
Result<ValueId> QuantizedValue(ImportContext& context, ValueId x, ValueId scale, ValueId zero, DType type);
// Returns (x - zero) * scale in the type of the scale, as operators that graph passes recognize, also if they are
// constants of few elements (quantize.cc). Scale and zero point broadcast to x.
Result<ValueId> DequantizedValue(ImportContext& context, ValueId x, ValueId scale, std::optional<ValueId> zero);

// Returns the averages of x over windows, as AveragePool defines them by the attributes of the current node
// (norm_pool.cc).
Result<ValueId> AveragePoolValue(ImportContext& context, ValueId x);

Status ImportPow(ImportContext& context);          // power.cc
Status ImportMatMulNBits(ImportContext& context);  // block_weights.cc

// Imports the current node as a Conv of inputs 0 and 1, with the bias of input 2 if there is one (conv.cc).
Result<ValueId> ConvValue(ImportContext& context);

// The result of normalizing over some axes: y = (x - mean) * inverse with inverse = 1 / sqrt(variance + epsilon)
// (norm_pool.cc).
struct Normalized {
  ValueId y = 0, mean = 0, variance = 0, inverse = 0;
};
Result<Normalized> Normalize(ImportContext& context, ValueId x, const std::vector<int64_t>& axes, double epsilon);
// Returns y = x * inverse with inverse = 1 / sqrt(mean of x^2 + epsilon). Leaves `mean` and `variance` unset
// (norm_pool.cc).
Result<Normalized> NormalizeByRoot(ImportContext& context, ValueId x, const std::vector<int64_t>& axes, double epsilon);

// Import LayerNormalization, over the dimensions that begin with the attribute `axis`. The simplified form does not
// subtract the mean and has no bias (norm_pool.cc).
Status ImportLayerNormalization(ImportContext& context);
Status ImportSimplifiedLayerNormalization(ImportContext& context);

// Rotates pairs among the first `rotated` elements of x [.., .., .., D]: (a, b) becomes (a cos - b sin, a sin + b cos).
// If `interleaved`, a pair is an even element and the next odd one; otherwise it is element i of the first half and
// element i of the second half. Cosines and sines broadcast to [.., .., .., rotated / 2] (rotary.cc).
struct Rotation {
  ValueId cos = 0, sin = 0;
  int64_t rotated = 0;
  bool interleaved = false;
};
Result<ValueId> RotateHeads(ImportContext& context, ValueId x, const Rotation& rotation);

}  // namespace autotune::onnx_import
