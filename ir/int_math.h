// Integer arithmetic as the language defines it (ir/expr.h), on values as IntImm holds them: sign-extended for int and
// index, zero-extended for uint (u64 as the same bits), 0 or 1 for bool. Pure functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/expr.h"

namespace autotune {

// Round towards minus infinity; b is not 0. (Wraps for INT64_MIN / -1.)
inline int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
inline int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Returns the value that the low bits of `bits` have in an integer dtype. For bool, returns whether `bits` is not 0.
inline int64_t WrapTo(uint64_t bits, DType dtype) {
  if (dtype.IsBool()) return bits != 0;
  if (dtype.bits >= 64) return static_cast<int64_t>(bits);
  uint64_t low = bits & ((uint64_t{1} << dtype.bits) - 1);
  if (dtype.code == TypeCode::kUInt) return static_cast<int64_t>(low);
  uint64_t sign = uint64_t{1} << (dtype.bits - 1);
  return static_cast<int64_t>((low ^ sign) - sign);
}

// Applies op to two values of an integer or bool dtype; comparisons give 0 or 1. Returns nothing if the result is
// undefined: division by 0, shifts by the width or more, and kDiv, which is for floats only.
std::optional<int64_t> FoldInt(BinaryOp op, int64_t a, int64_t b, DType dtype);

}  // namespace autotune
