#include "ir/expr.h"

#include <algorithm>

#include "ir/float_math.h"
#include "ir/int_math.h"
#include "support/check.h"

namespace autotune {
namespace {

// Folds trivial index arithmetic, such as x + 0. Returns null if no rule applies.
Expr FoldIndex(BinaryOp op, const Expr& a, const Expr& b) {
  const int64_t *x = AsInt(a), *y = AsInt(b);
  if (x && y) {
    std::optional<int64_t> value = FoldInt(op, *x, *y, DType::Index());
    if (!value) return Expr();
    return IsComparison(op) ? BoolConst(*value) : IntConst(*value);
  }
  switch (op) {
    case BinaryOp::kAdd:
      return IsConst(a, 0) ? b : IsConst(b, 0) ? a : Expr();
    case BinaryOp::kSub:
      return IsConst(b, 0) ? a : Expr();
    case BinaryOp::kMul:
      if (IsConst(a, 0) || IsConst(b, 1)) return a;
      if (IsConst(b, 0) || IsConst(a, 1)) return b;
      return Expr();
    case BinaryOp::kFloorDiv:
      return IsConst(b, 1) || IsConst(a, 0) ? a : Expr();
    case BinaryOp::kFloorMod:
      return IsConst(b, 1) ? IntConst(0) : IsConst(a, 0) ? a : Expr();
    default:
      return Expr();
  }
}

}  // namespace

namespace {

// Small index constants are frequent, so each has one shared cell. Each thread has its own cells, so that threads do
// not compete for the reference counts.
constexpr int64_t kFirstShared = -8, kLastShared = 128;
const Expr& SharedConst(int64_t value) {
  thread_local Expr cells[kLastShared - kFirstShared + 1];
  Expr& cell = cells[value - kFirstShared];
  if (!cell) cell = MakeExpr(DType::Index(), IntImm{value});
  return cell;
}

}  // namespace

Expr::Expr(int value) : Expr(IntConst(value)) {}
Expr::Expr(int64_t value) : Expr(IntConst(value)) {}

Expr IntConst(int64_t value, DType dtype) {
  CHECK(dtype.lanes == 1 && (dtype.IsInt() || dtype.IsBool())) << dtype.Text();
  if (dtype.IsIndex() && value >= kFirstShared && value <= kLastShared) return SharedConst(value);
  return MakeExpr(dtype, IntImm{value});
}
Expr FloatConst(double value, DType dtype) {
  CHECK(dtype.lanes == 1 && dtype.IsFloat()) << dtype.Text();
  return MakeExpr(dtype, FloatImm{RoundFloat(value, dtype)});
}
Expr BoolConst(bool value) { return MakeExpr(DType::Bool(), IntImm{value}); }
Expr ConstOf(double value, DType dtype) {
  DType element = dtype.Element();
  Expr e = element.IsFloat() ? FloatConst(value, element) : IntConst(static_cast<int64_t>(value), element);
  return MakeBroadcast(e, dtype.lanes);
}
Expr IndexVar(Name name) { return VarOf(name, DType::Index()); }
Expr VarOf(Name name, DType dtype) { return MakeExpr(dtype, Var{name}); }

Expr MakeUnary(UnaryOp op, Expr a) {
  DType dtype = a.dtype();
  CHECK(op == UnaryOp::kNot ? dtype.IsBool() : !dtype.IsBool());
  if (op == UnaryOp::kNeg && dtype.IsIndex() && AsInt(a))
    return IntConst(WrapTo(0 - static_cast<uint64_t>(*AsInt(a)), dtype));
  return MakeExpr(dtype, Unary{op, std::move(a)});
}

bool HasOperator(DType dtype, BinaryOp op) {
  switch (op) {
    case BinaryOp::kAnd:
    case BinaryOp::kOr:
      return dtype.IsBool();
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
      return !dtype.IsBool();
    case BinaryOp::kDiv:
      return dtype.IsFloat();
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return dtype.IsInt();
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      return dtype.IsInt() || dtype.IsBool();
    default:
      return true;
  }
}

Expr MakeBinary(BinaryOp op, Expr a, Expr b) {
  DType dtype = a.dtype();
  CHECK(dtype == b.dtype()) << ToText(op) << " of " << dtype.Text() << " and " << b.dtype().Text();
  CHECK(HasOperator(dtype, op)) << ToText(op) << " of " << dtype.Text();
  if (dtype == DType::Index()) {
    if (Expr folded = FoldIndex(op, a, b)) return folded;
  }
  if (IsComparison(op)) dtype = DType::Bool().WithLanes(dtype.lanes);
  return MakeExpr(dtype, Binary{op, std::move(a), std::move(b)});
}

Expr MakeCast(DType dtype, Expr a) {
  if (a.dtype() == dtype) return a;
  CHECK(a.dtype().lanes == dtype.lanes);
  return MakeExpr(dtype, Cast{std::move(a)});
}

Expr MakeSelect(Expr condition, Expr a, Expr b) {
  DType dtype = a.dtype();
  CHECK(dtype == b.dtype() && condition.dtype().IsBool()) << dtype.Text() << " and " << b.dtype().Text();
  CHECK(condition.dtype().lanes == dtype.lanes || condition.dtype().lanes == 1);
  return MakeExpr(dtype, Select{std::move(condition), std::move(a), std::move(b)});
}

Expr MakeLoad(Buffer buffer, std::vector<Expr> indices) {
  int lanes = 1;
  for (const Expr& i : indices) {
    if (i.dtype().lanes > 1) lanes = i.dtype().lanes;
  }
  DType dtype = buffer->dtype.WithLanes(lanes);
  return MakeExpr(dtype, Load{std::move(buffer), std::move(indices)});
}

Expr MakeCall(Op op, std::vector<Expr> args) {
  const OpRow& row = Row(op);
  CHECK(static_cast<int>(args.size()) == row.arity) << row.name;
  CHECK(row.type != OpType::kGiven) << row.name << ": use MakeExpr with the dtype";
  if (row.type == OpType::kNone) return MakeExpr(DType::Bool(), Call{op, std::move(args)});
  DType dtype = row.type == OpType::kBool ? DType::Bool().WithLanes(args[0].dtype().lanes) : args[0].dtype();
  return MakeExpr(dtype, Call{op, std::move(args)});
}

Expr MakeRamp(Expr base, Expr stride, int lanes) {
  CHECK(lanes > 1 && base.dtype().lanes == 1 && base.dtype() == stride.dtype());
  DType dtype = base.dtype().WithLanes(lanes);
  return MakeExpr(dtype, Ramp{std::move(base), std::move(stride)});
}

Expr MakeBroadcast(Expr a, int lanes) {
  if (lanes == 1) return a;
  CHECK(a.dtype().lanes == 1);
  DType dtype = a.dtype().WithLanes(lanes);
  return MakeExpr(dtype, Broadcast{std::move(a)});
}

const int64_t* AsInt(const Expr& e) {
  const IntImm* imm = e.As<IntImm>();
  return imm ? &imm->value : nullptr;
}
bool IsConst(const Expr& e, int64_t value) {
  const int64_t* v = AsInt(e);
  return v && *v == value;
}

bool IsZero(const Expr& e) {
  const FloatImm* imm = e.As<FloatImm>();
  return imm ? imm->value == 0 : IsConst(e, 0);
}

std::vector<Expr> Conjuncts(const Expr& condition) {
  if (!condition) return {};
  const Binary* b = condition.As<Binary>();
  if (!b || b->op != BinaryOp::kAnd) return {condition};
  std::vector<Expr> list = Conjuncts(b->a);
  for (Expr& e : Conjuncts(b->b)) list.push_back(std::move(e));
  return list;
}

Expr AndAll(const std::vector<Expr>& conjuncts) {
  Expr all;
  for (const Expr& e : conjuncts) all = all ? And(all, e) : e;
  return all;
}

Buffer Buffer::Make(Name name, DType dtype, std::vector<Expr> shape, Scope scope) {
  auto* cell = new BufferCell;
  cell->name = name;
  cell->dtype = dtype;
  cell->shape = std::move(shape);
  cell->scope = scope;
  return Buffer(cell);
}

namespace {

template <class F>
Buffer Changed(const Buffer& buffer, F change) {
  auto* cell = new BufferCell;
  cell->name = buffer->name;
  cell->dtype = buffer->dtype;
  cell->shape = buffer->shape;
  cell->strides = buffer->strides;
  cell->scope = buffer->scope;
  cell->alignment = buffer->alignment;
  cell->dim_align = buffer->dim_align;
  change(*cell);
  return Buffer(cell);
}

}  // namespace

Buffer WithScope(const Buffer& buffer, Scope scope) {
  if (buffer->scope == scope) return buffer;
  return Changed(buffer, [&](BufferCell& cell) { cell.scope = scope; });
}
Buffer WithName(const Buffer& buffer, Name name) {
  return Changed(buffer, [&](BufferCell& cell) { cell.name = name; });
}
Buffer WithShape(const Buffer& buffer, std::vector<Expr> shape) {
  return Changed(buffer, [&](BufferCell& cell) {
    cell.shape = std::move(shape);
    cell.strides.clear();
  });
}
Buffer WithDimAlign(const Buffer& buffer, std::vector<DimAlign> dim_align) {
  return Changed(buffer, [&](BufferCell& cell) { cell.dim_align = std::move(dim_align); });
}

std::vector<int64_t> ConstShape(const Buffer& buffer) {
  std::vector<int64_t> shape;
  for (const Expr& extent : buffer->shape) {
    const int64_t* value = AsInt(extent);
    CHECK(value) << "buffer " << buffer->name << " has a symbolic extent";
    shape.push_back(*value);
  }
  return shape;
}

std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape, const std::vector<DimAlign>& dim_align) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    for (const DimAlign& align : dim_align) {
      if (align.dim != static_cast<int64_t>(d)) continue;
      int64_t beyond = (stride - align.offset) % align.factor;
      if (beyond < 0) beyond += align.factor;
      if (beyond > 0) stride += align.factor - beyond;
    }
    strides[d] = stride;
    stride *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

int64_t ElementsOf(const Buffer& buffer) {
  std::vector<int64_t> shape = ConstShape(buffer);
  return shape.empty() ? 1 : shape[0] * StridesOf(shape, buffer->dim_align)[0];
}

}  // namespace autotune
