// Dot products of small integers, for which processors have instructions (x86: vpdpbusd of VNNI). Pure functions;
// thread-safe.
//
// In lowered programs, `dot(c, a, b)` adds to lane i of c the products of the lanes [g i, g (i + 1)) of a and of b,
// with g = kDotGroup. `c` has n lanes of i32, and b has g n lanes of i8 or u8. `a` has as many lanes as b, or g
// lanes that every lane of c uses. Products are exact, and sums wrap around. The types of a and b may differ.
//
// Schedulable programs have no node for it. They have ordinary loops, of which an annotation (kDot) says that lowering
// shall form a `dot` if the target has the instruction (lower/dots.cc). So steps move these loops like any others:
//
//     for j in N vectorized: for k in g dot: sum[j] = sum[j] + i32(a[.. + k]) * i32(b[.., j, k])
#pragma once
#include "ir/dtype.h"

namespace autotune {

inline constexpr int kDotGroup = 4;

// Returns whether `dot` takes operands of this element type.
inline bool IsDotOperand(DType type) { return type.IsInt() && !type.IsIndex() && type.bits == 8; }

// Returns the type of a sum of products: i32 for integers of 8 bits, f32 for these times f32 and for floats of 16 bits
// (also times f32), else the type of the operands. The factors are converted to it, which is exact.
inline DType SumType(DType a, DType b) {
  if (IsDotOperand(a)) return IsDotOperand(b) ? DType::Int(32) : b;
  return a.IsHalf() ? DType::Float(32) : a;
}

}  // namespace autotune
