#include "codegen/index_width.h"

#include <algorithm>
#include <unordered_map>

#include "ir/visit.h"

namespace autotune {
namespace {

constexpr double kTooLarge = 0x1p31;

// Computes upper bounds of the absolute values of indices. The bound of a sum is the sum of the bounds of its terms. So
// it also holds for every partial sum, and after products are multiplied out. Bounds are doubles, which do not wrap.
class Magnitudes {
 public:
  bool fits = true;

  void Visit(const Stmt& s) {
    if (const For* loop = s.As<For>()) {
      bounds_[loop->var] = Check(loop->extent);  // the counter reaches the extent when the loop ends
      return Visit(loop->body);
    }
    if (const Let* let = s.As<Let>()) {
      bounds_[let->var] = Check(let->value);
      return Visit(let->body);
    }
    MapChildren(
        s, [&](const Stmt& child) { return Visit(child), child; }, [&](const Expr& e) { return Check(e), e; });
  }

 private:
  // Returns the bound of an index. For an expression of another type, checks the indices in it and returns 0.
  double Check(const Expr& e) {
    if (!e.dtype().IsIndex()) {
      const Call* call = e.As<Call>();
      if (call && call->op == Op::kReinterpret && call->args[0].dtype().IsIndex()) fits = false;
      MapChildren(e, [&](const Expr& child) { return Check(child), child; });
      return 0;
    }
    const double bound = e.Visit(Overloaded{
        [&](const IntImm& n) { return std::abs(static_cast<double>(n.value)); },
        [&](const Var& n) {
          auto it = bounds_.find(n.name);
          return it == bounds_.end() ? kTooLarge : it->second;
        },
        [&](const Unary& n) { return Check(n.a); },
        [&](const Binary& n) { return OfBinary(n.op, Check(n.a), Check(n.b)); },
        [&](const Select& n) {
          Check(n.condition);
          return std::max(Check(n.a), Check(n.b));
        },
        [&](const Ramp& n) { return Check(n.base) + Check(n.stride) * e.dtype().lanes; },
        [&](const Broadcast& n) { return Check(n.a); },
        [&](const Cast& n) {
          Check(n.a);
          return n.a.dtype().IsBool() ? 1 : kTooLarge;
        },
        [&](const auto&) { return kTooLarge; },
    });
    fits &= bound < kTooLarge;
    return bound;
  }

  static double OfBinary(BinaryOp op, double a, double b) {
    switch (op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
        return a + b;
      case BinaryOp::kMul:
        return a * b;
      case BinaryOp::kFloorDiv:
        return a;
      case BinaryOp::kFloorMod:
        return b;
      case BinaryOp::kMin:
      case BinaryOp::kMax:
        return std::max(a, b);
      default:
        return kTooLarge;
    }
  }

  std::unordered_map<Name, double> bounds_;
};

}  // namespace

int IndexBitsOf(const Stmt& s) {
  Magnitudes magnitudes;
  magnitudes.Visit(s);
  return magnitudes.fits ? 32 : 64;
}

}  // namespace autotune
