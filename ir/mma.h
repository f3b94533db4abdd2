// Products of small matrices by tensor cores: c + a b, computed by the 32 lanes of a warp together. Each lane holds a
// part of every matrix in registers. This header defines these parts (PTX ISA, matrix fragments of mma.m16n8k8 and
// mma.m16n8k16), and recognizes the loops of a program of threads that compute such a product. Pure functions;
// thread-safe.
//
// In lowered programs a product is one store of vectors, which stands where a barrier may stand:
//     c[ramp(0, 1, 4)] = mma(c[ramp(0, 1, 4)], a[ramp(0, 1, A)], b[ramp(0, 1, B)])
// `c` has 16 rows and 8 columns of f32. `a` has 16 rows and `b` has 8 columns, each of K numbers. They are f16 or bf16
// (K = 16), or f32 that `tf32` has rounded (K = 8; hardware ignores the bits that `tf32` drops). The products of an
// element are added in an order that is not defined, with at least the precision of f32. The interpreter adds them one
// by one, each by an fma, which is one of these orders.
//
// Schedulable programs have no node for such a product. Each thread computes its own four elements of c by ordinary
// loops, and an annotation (kMma) says that warps shall compute them together. So steps move these loops like any
// others, and their meaning does not depend on warps. Lane l of a warp has threadIdx.x = l % 4 and threadIdx.y % 8 = l
// / 4.
//
//     for h in 2: for p in 2: for k in K:       (threads: x of 4, y of a multiple of 8)
//       sum[h, p] = fma(a(y, h, k), b(x, p, k), sum[h, p])
//
// The rows of the product are the values of (y % 8, h), its columns the values of (x, p), at any addresses. The
// instruction wgmma, whose operands lie in shared memory, is not supported.
#pragma once
#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

inline constexpr int kWarpLanes = 32;
inline constexpr int kMmaRows = 16, kMmaColumns = 8;
inline constexpr int kMmaQuad = 4;    // neighbouring lanes, which hold the same rows of c
inline constexpr int kMmaGroups = 8;  // groups of kMmaQuad lanes in a warp
inline constexpr int kMmaSums = 4;    // elements of c that a lane holds

// The type of the operands. A register of 32 bits holds `pack` elements.
struct MmaType {
  DType operand;
  int pack = 1;
  int k() const { return 8 * pack; }
  int a_elements() const { return 4 * pack; }  // in one lane
  int b_elements() const { return 2 * pack; }  // in one lane
};
// Returns null if tensor cores do not take this operand type.
const MmaType* MmaTypeOf(DType operand);

// The position of element `e` of the part of a matrix that lane l holds. With group = l / 4 and place = l % 4:
//   in a: row group + 8 * half, column k + type.pack * place
//   in b: row k + type.pack * place, column group
//   in c: row group + 8 * half, column 2 * place + pair
struct MmaPlace {
  int half = 0, pair = 0, k = 0;
};
MmaPlace PlaceInA(const MmaType& type, int e);
MmaPlace PlaceInB(const MmaType& type, int e);
MmaPlace PlaceInC(int e);

// Returns the operand type if the store adds a product of such operands to an f32 sum, else null.
const MmaType* MmaTypeOf(const Store& update);

// Loops that compute the four elements of c that a thread has.
struct MmaLoops {
  const MmaType* type = nullptr;
  Name half, pair, k;  // variables
  Store update;
  Expr a, b;  // the factors, before they are converted to f32 or rounded by tf32
};
// Recognizes the loops over h, p and k. `loop` is the loop over h; `x` and `y` are the variables of the loops over
// threadIdx.x and .y around it. An error says why the loops are no product of tensor cores.
Result<MmaLoops> MatchMma(const Stmt& loop, const Name& x, const Name& y);
// The variables of the loops over threads around a statement, if the kernel has warps of 4 by 8 threads.
struct MmaThreads {
  Name x, y;
};
Result<MmaThreads> FindMmaThreads(const std::vector<const For*>& around);

}  // namespace autotune
