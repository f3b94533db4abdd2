#include "codegen/index_width.h"

#include <algorithm>
#include <unordered_map>

#include "ir/visit.h"

namespace autotune {
namespace {

constexpr double kTooLarge = 0x1p31;

// Bounds of absolute values. The bound of a sum is the sum of its terms' bounds, so it also holds for any part of the
// terms, and if products are multiplied out. Bounds are doubles, because doubles do not wrap.
class Magnitudes {
 public:
  bool fits = true;

  void Visit(const Stmt& s) {
    if (const For* loop = s.As<For>()) {
      bounds_[loop->var] = Check(loop->extent);  // one more than its last value: loops count to it
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
  // The bound of an index; expressions of other types are looked through.
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
