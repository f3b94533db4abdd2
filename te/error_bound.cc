#include "te/error_bound.h"

#include <unordered_map>
#include <unordered_set>

#include "ir/visit.h"
#include "te/reference.h"

namespace autotune::te {
namespace {

bool IsBounded(DType type) { return type == DType::Float(32) || type == DType::Float(64); }

Expr Abs(const Expr& e) { return MakeCall(Op::kAbs, {e}); }
Expr Zero(DType type) { return FloatConst(0, type); }
bool IsZeroFloat(const Expr& e) {
  const FloatImm* imm = e.As<FloatImm>();
  return imm && imm->value == 0;
}
// Sums and products of bounds, most of which are zero.
Expr Plus(const Expr& a, const Expr& b) { return IsZeroFloat(a) ? b : IsZeroFloat(b) ? a : a + b; }
Expr Times(const Expr& a, const Expr& bound) { return IsZeroFloat(bound) ? bound : a * bound; }

// Half a unit in the last place of `e`, times kRoundings.
Expr Rounding(const Expr& e) {
  const double unit = e.dtype() == DType::Float(64) ? 0x1p-53 : 0x1p-24;
  return FloatConst(kRoundings * unit, e.dtype()) * Abs(e);
}

// Makes the bounds of expressions. Where one has no rule, `known` becomes false.
class Bounds {
 public:
  // `errors` has the buffer of errors of each buffer that the function writes.
  explicit Bounds(const BufferMap& errors) : errors_(errors) {}

  // Returns a bound of the error of a float.
  Expr Error(const Expr& e) {
    return e.Visit([&](const auto& node) -> Expr { return Node(e, node); });
  }

  // Returns a bound of the error of `store` after it. A sum adds a term to what it has.
  Expr ErrorOf(const Store& store) {
    const Expr own = MakeLoad(store.buffer, store.indices);
    const Binary* sum = store.value.As<Binary>();
    const Call* fma = store.value.As<Call>();
    if (sum && sum->op == BinaryOp::kAdd) {
      if (Equal(sum->a, own)) return Term(own, sum->b);
      if (Equal(sum->b, own)) return Term(own, sum->a);
    }
    if (fma && fma->op == Op::kFma && Equal(fma->args[2], own)) {
      const Expr &a = fma->args[0], &b = fma->args[1];
      return Plus(Error(own), Plus(FactorErrors(a, b), Rounding(a * b)));
    }
    return Error(store.value);
  }

  bool known = true;

 private:
  Expr Unknown(const Expr& e) {
    known = false;
    return Zero(e.dtype());
  }
  Expr Term(const Expr& sum, const Expr& term) { return Plus(Error(sum), Plus(Error(term), Rounding(term))); }
  Expr FactorErrors(const Expr& a, const Expr& b) { return Plus(Times(Abs(a), Error(b)), Times(Abs(b), Error(a))); }

  Expr Node(const Expr& e, const FloatImm&) { return Zero(e.dtype()); }
  Expr Node(const Expr& e, const Unary& node) { return node.op == UnaryOp::kNeg ? Error(node.a) : Unknown(e); }
  Expr Node(const Expr& e, const Binary& node) {
    switch (node.op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
        return Plus(Plus(Error(node.a), Error(node.b)), Rounding(e));
      case BinaryOp::kMul:
        return Plus(FactorErrors(node.a, node.b), Rounding(e));
      case BinaryOp::kDiv: {
        const Expr passed = Plus(Error(node.a), Times(Abs(e), Error(node.b)));
        return Plus(IsZeroFloat(passed) ? passed : passed / Abs(node.b), Rounding(e));
      }
      case BinaryOp::kMin:
      case BinaryOp::kMax: {
        const Expr a = Error(node.a), b = Error(node.b);
        return IsZeroFloat(a) ? b : IsZeroFloat(b) ? a : Max(a, b);
      }
      default:
        return Unknown(e);
    }
  }
  Expr Node(const Expr& e, const Select& node) {
    const Expr a = Error(node.a), b = Error(node.b);
    return IsZeroFloat(a) && IsZeroFloat(b) ? Zero(e.dtype()) : MakeSelect(node.condition, a, b);
  }
  Expr Node(const Expr& e, const Cast& node) {
    if (node.a.dtype().IsBool()) return Zero(e.dtype());
    if (!node.a.dtype().IsFloat()) return Rounding(e);
    return Plus(MakeCast(e.dtype(), Error(node.a)), Rounding(e));
  }
  Expr Node(const Expr& e, const Load& node) {
    auto it = errors_.find(node.buffer->name);
    return it == errors_.end() ? Zero(e.dtype()) : MakeLoad(it->second, node.indices);
  }
  Expr Node(const Expr& e, const Call& node) {
    switch (node.op) {
      case Op::kAbs:
        return Error(node.args[0]);
      case Op::kFma:
        return Plus(Plus(FactorErrors(node.args[0], node.args[1]), Error(node.args[2])), Rounding(e));
      // Their slope changes little between x - error and x + error, or both are monotone there.
      case Op::kExp:
      case Op::kExpOfNegative:
      case Op::kTanh:
      case Op::kSigmoid:
      case Op::kErf:
      case Op::kAtan:
      case Op::kSinh:
      case Op::kAsinh:
        return Moved(e, node, 0);
      case Op::kSqrt:
      case Op::kLog:
        return MovedAboveZero(e, node);
      case Op::kPow:
        return Plus(Moved(e, node, 0), Moved(e, node, 1));
      case Op::kSin:
      case Op::kCos:  // their slope is at most 1
        return Plus(Error(node.args[0]), Rounding(e));
      default:
        return Unknown(e);
    }
  }
  Expr Node(const Expr& e, const IntImm&) { return Unknown(e); }
  Expr Node(const Expr& e, const Var&) { return Unknown(e); }
  Expr Node(const Expr& e, const Ramp&) { return Unknown(e); }
  Expr Node(const Expr& e, const Broadcast&) { return Unknown(e); }

  // Returns how far the function moves when its argument `which` moves by its error, up or down.
  Expr Moved(const Expr& e, const Call& node, size_t which) {
    const Expr error = Error(node.args[which]), x = node.args[which];
    if (IsZeroFloat(error)) return Rounding(e);
    return Plus(Max(Abs(At(node, which, x + error) - e), Abs(At(node, which, x - error) - e)), Rounding(e));
  }
  // The same for functions of numbers above 0, whose slope grows towards 0.
  Expr MovedAboveZero(const Expr& e, const Call& node) {
    const Expr error = Error(node.args[0]), x = node.args[0];
    if (IsZeroFloat(error)) return Rounding(e);
    const Expr least = node.op == Op::kSqrt ? Zero(e.dtype()) : x * FloatConst(0.5, e.dtype());
    return Plus(Max(Abs(At(node, 0, x + error) - e), Abs(At(node, 0, Max(x - error, least)) - e)), Rounding(e));
  }
  static Expr At(const Call& node, size_t which, const Expr& x) {
    std::vector<Expr> args = node.args;
    args[which] = x;
    return MakeCall(node.op, std::move(args));
  }

  const BufferMap& errors_;
};

// Makes buffers of errors for the buffers of a function.
class Twins {
 public:
  explicit Twins(const PrimFunc& f) {
    for (const Param& p : f.params) used_.insert(p.buffer->name);
    for (const Buffer& b : f.allocs) used_.insert(b->name);
  }
  Buffer Make(const Buffer& of) {
    const std::string base = of->name.str() + "_error";
    Name name = base;
    for (int i = 1; !used_.insert(name).second; ++i) name = base + "_" + std::to_string(i);
    return made_.emplace(of->name, Buffer::Make(name, of->dtype, of->shape)).first->second;
  }
  const BufferMap& made() const { return made_; }

 private:
  BufferMap made_;  // by the name of the other buffer
  std::unordered_set<Name> used_;
};

}  // namespace

std::optional<PrimFunc> ToBoundedReference(const PrimFunc& f) {
  if (TakesSteps(f)) return std::nullopt;
  Twins twins(f);
  PrimFunc out = f;
  for (const Buffer& buffer : f.allocs) {
    if (!buffer->dtype.IsFloat()) continue;
    if (!IsBounded(buffer->dtype)) return std::nullopt;
    out.allocs.push_back(twins.Make(buffer));
  }
  for (const Param& p : f.params) {
    if (p.buffer->dtype.IsFloat() && !IsBounded(p.buffer->dtype)) return std::nullopt;
    if (p.role != ParamRole::kOutput) continue;
    if (!p.buffer->dtype.IsFloat()) return std::nullopt;
    out.params.push_back({twins.Make(p.buffer), ParamRole::kOutput});
  }
  Bounds bounds(twins.made());
  // The error of a sum reads the old value, so it is stored first.
  out.body = RewriteStmt(f.body, [&](const Stmt& s) -> Stmt {
    const Store* store = s.As<Store>();
    if (!store || !store->buffer->dtype.IsFloat()) return s;
    return MakeSeq({MakeStmt(Store{twins.made().at(store->buffer->name), store->indices, bounds.ErrorOf(*store)}), s});
  });
  if (!bounds.known) return std::nullopt;
  return ToReference(out);
}

}  // namespace autotune::te
