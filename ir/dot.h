// Dot products of small numbers, for which processors have instructions: of bytes (x86: vpdpbusd of VNNI), of words,
// which are i16 (vpmaddwd, since SSE2), and of bf16 (vdpbf16ps of AVX512_BF16). Pure functions; thread-safe.
//
// In lowered programs, `dot(c, a, b)` adds to lane i of c the products of the lanes [g i, g (i + 1)) of a and of b. The
// group g has as many elements as 32 bits hold. `c` has n lanes, and b has g n lanes. `a` has as many lanes as b, or g
// lanes that every lane of c uses.
//
//   bytes: a and b are i8 or u8, also one of each, and c is i32. Products are exact, and sums wrap around.
//   words: a and b are i16, and c is i32. Products are exact, and sums wrap around.
//   bf16: a and b are bf16, and c is f32. Products and sums are rounded to f32, in an order that is not defined.
//     Denormal operands and sums may count as 0.
//
// Schedulable programs have no node for it. They have ordinary loops, of which an annotation (kDot) says that lowering
// shall form a `dot` if the target has the instruction (lower/dots.cc). So steps move these loops like any others:
//
//     for j in N vectorized: for k in g dot: sum[j] = sum[j] + i32(a[.. + k]) * i32(b[.., j, k])
#pragma once
#include "ir/dtype.h"

namespace autotune {

inline constexpr int kByteGroup = 4;  // the group of bytes
inline constexpr int kWordGroup = 2;  // the group of words

inline bool IsByte(DType type) { return type.IsInt() && !type.IsIndex() && type.bits == 8; }
inline bool IsWord(DType type) { return type == DType::Int(16); }

// Returns the group of operands of this element type; 0: `dot` does not take them.
inline int DotGroup(DType type) {
  if (IsByte(type)) return kByteGroup;
  if (IsWord(type)) return kWordGroup;
  return type == DType::BFloat16() ? 2 : 0;
}

// Returns the type of a sum of products: i32 for bytes and words, f32 for bytes times f32 and for floats of 16 bits
// (also times f32), else the type of the operands. The factors are converted to it, which is exact.
inline DType SumType(DType a, DType b) {
  if (IsByte(a)) return IsByte(b) ? DType::Int(32) : b;
  if (IsWord(a)) return DType::Int(32);
  return a.IsHalf() ? DType::Float(32) : a;
}

// Returns whether `dot` multiplies these element types by each other. Its sums have their SumType.
inline bool AreDotOperands(DType a, DType b) {
  return DotGroup(a) > 0 && DotGroup(a) == DotGroup(b) && a.IsFloat() == b.IsFloat();
}

}  // namespace autotune
