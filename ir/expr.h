// Expressions of the tensor-program language. Values: a handle to an immutable cell; copying is cheap, and a rewrite
// that changes nothing returns the same handle. Thread-safe. Not here: statements (ir/stmt.h), simplification (arith/).
//
// Semantics
//  - Every expression has one dtype, fixed when it is made. Both operands of a Binary have the same dtype; comparisons
//    give bool (with the operands' lanes).
//  - `index` (loop variables, extents, subscripts) is a mathematical integer: programs whose index expressions leave
//    64 bits are invalid. int and uint wrap around. kFloorDiv and kFloorMod round towards minus infinity (index, int,
//    uint; the divisor is never 0); kDiv is IEEE division and for floats only.
//  - Floats follow IEEE 754, round to nearest, one rounding per operation; NaN, infinities and denormals are kept.
//    kMin(a, b) is `a < b ? a : b`, kMax(a, b) is `a > b ? a : b` (so b is the result when either is NaN).
//    kFma(a, b, c) in ir/op.h rounds once. Lowering contracts sums of products in reduction blocks (lower/blocks.cc);
//    no other pass contracts anything.
//  - kAnd and kOr are for bool and evaluate both sides. Select evaluates only the chosen side of each lane, so the
//    other side may index out of bounds. Shifts are by less than the width; kShr is arithmetic for int, logical for
//    uint.
//  - Order of evaluation cannot be observed: expressions have no side effects.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/name.h"
#include "ir/op.h"
#include "ir/ref.h"
#include "support/fields.h"

namespace autotune {

struct ExprCell;
struct BufferCell;

class Expr : public Ref<ExprCell> {
 public:
  using Ref::Ref;
  Expr(int value);      // index constant
  Expr(int64_t value);  // index constant

  DType dtype() const;
  template <class T>
  const T* As() const;  // the node if it is a T, else null
  template <class V>
  decltype(auto) Visit(V&& visitor) const;
};

enum class Scope : uint8_t { kGlobal, kRegister, kShared, kLocal };
AUTOTUNE_ENUM(Scope, "global", "register", "shared", "local")

// Increases the distance between rows. The stride of dimension `dim`, in elements, becomes the least one that is large
// enough for the inner dimensions and is `offset` more than a multiple of `factor`. Possible for all dimensions but the
// last, whose elements stay contiguous. 0 <= offset < factor <= kMaxFactor.
struct DimAlign {
  static constexpr int64_t kMaxFactor = 65536;
  int64_t dim = 0;
  int64_t factor = 1;
  int64_t offset = 0;
  bool operator==(const DimAlign&) const = default;
  AUTOTUNE_FIELDS(dim, factor, offset)
};

// Buffer: a typed, shaped piece of memory. Identified by name within a function. `strides` are in elements. A buffer
// without strides is row-major, and compact except for the gaps that `dim_align` adds; a buffer with strides has no
// `dim_align`. Scope kRegister is a contract: after unrolling, all indices are constants and the buffer lives in
// registers, or the build fails. In a kernel of threads (ir/threads.h), a kShared buffer belongs to one block of
// threads, and a kLocal or kRegister buffer to one thread. Other blocks or threads may not touch its elements.
class Buffer : public Ref<BufferCell> {
 public:
  using Ref::Ref;
  const BufferCell* operator->() const { return get(); }
  static Buffer Make(Name name, DType dtype, std::vector<Expr> shape, Scope scope = Scope::kGlobal);
};

enum class UnaryOp : uint8_t { kNeg, kNot };
AUTOTUNE_ENUM(UnaryOp, "-", "!")

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kFloorMod,
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kShl,
  kShr,
  kBitAnd,
  kBitOr,
  kBitXor,
};
AUTOTUNE_ENUM(BinaryOp, "+", "-", "*", "/", "//", "%", "min", "max", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "<<",
              ">>", "&", "|", "^")
inline bool IsComparison(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kGe; }
bool HasOperator(DType dtype, BinaryOp op);  // whether two operands of this dtype have it

struct IntImm {  // int, uint, index and bool (0 or 1)
  int64_t value = 0;
  AUTOTUNE_FIELDS(value)
};
struct FloatImm {  // already rounded to its dtype
  double value = 0;
  AUTOTUNE_FIELDS(value)
};
struct Var {
  Name name;
  AUTOTUNE_FIELDS(name)
};
struct Unary {
  UnaryOp op = UnaryOp::kNeg;
  Expr a;
  AUTOTUNE_FIELDS(op, a)
};
struct Binary {
  BinaryOp op = BinaryOp::kAdd;
  Expr a, b;
  AUTOTUNE_FIELDS(op, a, b)
};
struct Cast {  // numeric conversion to the cell's dtype; float to int truncates
  Expr a;
  AUTOTUNE_FIELDS(a)
};
struct Select {
  Expr condition, a, b;
  AUTOTUNE_FIELDS(condition, a, b)
};
// One index per dimension, or after flattening a single index in elements. A vector index, such as a Ramp, makes it a
// vector load or a gather.
struct Load {
  Buffer buffer;
  std::vector<Expr> indices;
  AUTOTUNE_FIELDS(buffer, indices)
};
struct Call {  // a row of ir/op.h
  Op op = Op::kExp;
  std::vector<Expr> args;
  AUTOTUNE_FIELDS(op, args)
};
struct Ramp {  // (base, base + stride, ...), after vectorize only
  Expr base, stride;
  AUTOTUNE_FIELDS(base, stride)
};
struct Broadcast {  // all lanes equal, after vectorize only
  Expr a;
  AUTOTUNE_FIELDS(a)
};

using ExprNode = std::variant<IntImm, FloatImm, Var, Unary, Binary, Cast, Select, Load, Call, Ramp, Broadcast>;

struct ExprCell : Counted {
  template <class Node>
  ExprCell(DType dtype, Node&& node) : dtype(dtype), node(std::forward<Node>(node)) {}
  DType dtype;
  ExprNode node;
};

struct BufferCell : Counted {
  Name name;
  DType dtype;
  std::vector<Expr> shape;
  std::vector<Expr> strides;
  Scope scope = Scope::kGlobal;
  int64_t alignment = 64;           // bytes, of the first element
  std::vector<DimAlign> dim_align;  // at most one per dimension
};

inline DType Expr::dtype() const { return get()->dtype; }
template <class T>
const T* Expr::As() const {
  return get() ? std::get_if<T>(&get()->node) : nullptr;
}
template <class V>
decltype(auto) Expr::Visit(V&& visitor) const {
  return std::visit(std::forward<V>(visitor), get()->node);
}

// Builders. They check dtypes (CHECK: a mismatch is our bug) and fold nothing except where stated.
template <class Node>  // Node: a struct of ExprNode
Expr MakeExpr(DType dtype, Node node) {
  return Expr(new ExprCell(dtype, std::move(node)));
}
Expr IntConst(int64_t value, DType dtype = DType::Index());
Expr FloatConst(double value, DType dtype = DType::Float(32));  // rounds to dtype
Expr BoolConst(bool value);
Expr ConstOf(double value, DType dtype);  // IntImm or FloatImm, broadcast to the dtype's lanes
Expr IndexVar(Name name);
Expr VarOf(Name name, DType dtype);
Expr MakeUnary(UnaryOp op, Expr a);  // folds the negation of an index constant
// With index operands, folds two constants, and x+0, x-0, x*1, x*0, x//1, x%1, 0//x, 0%x. Leaves all else as written.
Expr MakeBinary(BinaryOp op, Expr a, Expr b);
Expr MakeCast(DType dtype, Expr a);  // the same handle if nothing changes
Expr MakeSelect(Expr condition, Expr a, Expr b);
Expr MakeLoad(Buffer buffer, std::vector<Expr> indices);
Expr MakeCall(Op op, std::vector<Expr> args);  // dtype by the op table
Expr MakeRamp(Expr base, Expr stride, int lanes);
Expr MakeBroadcast(Expr a, int lanes);

inline Expr operator+(Expr a, Expr b) { return MakeBinary(BinaryOp::kAdd, std::move(a), std::move(b)); }
inline Expr operator-(Expr a, Expr b) { return MakeBinary(BinaryOp::kSub, std::move(a), std::move(b)); }
inline Expr operator*(Expr a, Expr b) { return MakeBinary(BinaryOp::kMul, std::move(a), std::move(b)); }
inline Expr operator/(Expr a, Expr b) { return MakeBinary(BinaryOp::kDiv, std::move(a), std::move(b)); }
inline Expr operator<(Expr a, Expr b) { return MakeBinary(BinaryOp::kLt, std::move(a), std::move(b)); }
inline Expr operator<=(Expr a, Expr b) { return MakeBinary(BinaryOp::kLe, std::move(a), std::move(b)); }
inline Expr operator>(Expr a, Expr b) { return MakeBinary(BinaryOp::kGt, std::move(a), std::move(b)); }
inline Expr operator>=(Expr a, Expr b) { return MakeBinary(BinaryOp::kGe, std::move(a), std::move(b)); }
inline Expr operator-(Expr a) { return MakeUnary(UnaryOp::kNeg, std::move(a)); }
// Functions, since the operators `!e` and `e && f` test whether handles are absent.
inline Expr And(Expr a, Expr b) { return MakeBinary(BinaryOp::kAnd, std::move(a), std::move(b)); }
inline Expr Or(Expr a, Expr b) { return MakeBinary(BinaryOp::kOr, std::move(a), std::move(b)); }
inline Expr Not(Expr a) { return MakeUnary(UnaryOp::kNot, std::move(a)); }
inline Expr Eq(Expr a, Expr b) { return MakeBinary(BinaryOp::kEq, std::move(a), std::move(b)); }
inline Expr FloorDiv(Expr a, Expr b) { return MakeBinary(BinaryOp::kFloorDiv, std::move(a), std::move(b)); }
inline Expr FloorMod(Expr a, Expr b) { return MakeBinary(BinaryOp::kFloorMod, std::move(a), std::move(b)); }
inline Expr Min(Expr a, Expr b) { return MakeBinary(BinaryOp::kMin, std::move(a), std::move(b)); }
inline Expr Max(Expr a, Expr b) { return MakeBinary(BinaryOp::kMax, std::move(a), std::move(b)); }

// The value of an integer constant (IntImm), else null.
const int64_t* AsInt(const Expr& e);
bool IsConst(const Expr& e, int64_t value);
bool IsZero(const Expr& e);  // a constant 0 of any type
// The operands of a conjunction, in order; none of an absent condition.
std::vector<Expr> Conjuncts(const Expr& condition);
Expr AndAll(const std::vector<Expr>& conjuncts);  // absent if there are none
// Shape of a buffer whose extents are all constants (CHECKs that).
std::vector<int64_t> ConstShape(const Buffer& buffer);
// Returns the strides, in elements, outermost first, of a buffer with this shape and no strides of its own.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape, const std::vector<DimAlign>& dim_align);
// Returns the size in memory, in elements, of a buffer with a constant shape and without strides of its own, including
// the gaps between rows.
int64_t ElementsOf(const Buffer& buffer);
// Return a copy of the buffer in which one property differs.
Buffer WithScope(const Buffer& buffer, Scope scope);
Buffer WithName(const Buffer& buffer, Name name);
Buffer WithShape(const Buffer& buffer, std::vector<Expr> shape);  // the copy has no strides of its own
Buffer WithDimAlign(const Buffer& buffer, std::vector<DimAlign> dim_align);

}  // namespace autotune
