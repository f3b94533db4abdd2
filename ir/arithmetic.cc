#include "ir/arithmetic.h"

#include "ir/visit.h"

namespace autotune {
namespace {

// The weight of one operation of each class.
struct Weights {
  double fma, add, multiply, divide, compare, transcendental, bits;
};
constexpr Weights kFlops = {
    .fma = 2, .add = 1, .multiply = 1, .divide = 1, .compare = 1, .transcendental = 1, .bits = 0};
constexpr Weights kCost = {
    .fma = 2, .add = 1, .multiply = 1, .divide = 1, .compare = 1, .transcendental = 20, .bits = 1};

double Weighted(const Arithmetic& a, const Weights& w) {
  return a.fma * w.fma + a.add * w.add + a.multiply * w.multiply + a.divide * w.divide + a.compare * w.compare +
         a.transcendental * w.transcendental + a.bits * w.bits;
}

double& ClassOf(BinaryOp op, Arithmetic& a) {
  switch (op) {
    case BinaryOp::kMul:
      return a.multiply;
    case BinaryOp::kDiv:
      return a.divide;
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return a.compare;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      return a.bits;
    default:
      return a.add;
  }
}

double Extent(const Expr& extent) { return AsInt(extent) ? static_cast<double>(*AsInt(extent)) : 1; }

// Counts the operations of statements without blocks; a loop body counts as often as it runs.
Arithmetic OfLoops(const Stmt& s) {
  if (const Store* store = s.As<Store>()) return ArithmeticOf(store->value);
  const For* loop = s.As<For>();
  Arithmetic a;
  auto child = [&](const Stmt& x) {
    a.Add(OfLoops(x), loop ? Extent(loop->extent) : 1);
    return x;
  };
  MapChildren(s, child, nullptr);
  return a;
}

}  // namespace

void Arithmetic::Add(const Arithmetic& other, double times) {
  fma += times * other.fma;
  add += times * other.add;
  multiply += times * other.multiply;
  divide += times * other.divide;
  compare += times * other.compare;
  transcendental += times * other.transcendental;
  bits += times * other.bits;
  select += times * other.select;
}

double Arithmetic::Flops() const { return Weighted(*this, kFlops); }
double Arithmetic::Cost() const { return Weighted(*this, kCost); }

Arithmetic ArithmeticOf(const Expr& e) {
  Arithmetic a;
  Walk(e, [&](const Expr& x) {
    if (x.dtype().IsIndex()) return false;
    if (!x.dtype().IsFloat() && !x.dtype().IsInt()) return true;  // conditions
    if (const Binary* binary = x.As<Binary>()) ClassOf(binary->op, a) += 1;
    if (x.As<Unary>()) a.add += 1;
    if (x.As<Select>()) a.select += 1;
    if (const Call* call = x.As<Call>()) {
      (call->op == Op::kFma ? a.fma : Row(call->op).expanded ? a.transcendental : a.add) += 1;
    }
    return true;
  });
  return a;
}

Arithmetic ArithmeticOf(const Stmt& s) {
  Arithmetic a;
  bool has_blocks = false;
  Walk(s, [&](const Stmt& x) {
    const Block* block = x.As<Block>();
    if (!block) return true;
    has_blocks = true;
    double instances = 1;
    for (const Iter& iter : block->iters) instances *= Extent(iter.extent);
    a.Add(OfLoops(block->body), instances);
    return false;
  });
  return has_blocks ? a : OfLoops(s);
}

int64_t BytesOfParams(const PrimFunc& func) {
  int64_t bytes = 0;
  for (const Param& param : func.params) {
    int64_t of_param = param.buffer->dtype.Bytes();
    for (int64_t extent : ConstShape(param.buffer)) of_param *= extent;
    bytes += of_param;
  }
  return bytes;
}

}  // namespace autotune
