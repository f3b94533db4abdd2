// ONNX's numbers of element types.
#pragma once

namespace autotune {

inline constexpr int kFloat = 1, kUInt8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kString = 8, kBool = 9, kFloat16 = 10;
inline constexpr int kDouble = 11, kBFloat16 = 16, kFloat8 = 17;

}  // namespace autotune
