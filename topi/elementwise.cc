#include "topi/elementwise.h"

#include <cmath>

#include "ir/byte_table.h"
#include "ir/int_math.h"
#include "support/check.h"

namespace autotune::topi {

namespace {

// As Map. The function also reads elements of `tables`, at subscripts of its own choice.
Tensor MapWith(const std::string& name, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tables,
               const std::function<Expr(const std::vector<Expr>&)>& fn) {
  Shape shape;
  for (const Tensor& t : inputs) CHECK(te::BroadcastShapes(shape, t.shape(), &shape)) << name << ": shapes differ";
  std::vector<te::Axis> axes = te::NaturalAxes(shape);
  for (const Tensor& t : inputs) {
    if (t.shape() == shape && t->StoredShape() != shape) {
      axes = t->axes;
      break;
    }
  }
  Shape domain;
  for (const te::Axis& axis : axes) domain.push_back(axis.extent);
  std::vector<Tensor> loaded = tables;
  for (const Tensor& t : inputs) {
    if (!t->splat) loaded.push_back(t);
  }
  return te::Compute(
      name, axes, loaded,
      [&](const std::vector<Expr>& vars) {
        std::vector<Expr> logical = te::ReshapeIndices(vars, domain, shape);
        std::vector<Expr> elements;
        for (const Tensor& t : inputs) {
          bool same = t.shape() == shape && t->StoredShape() == domain;
          elements.push_back(same ? t.AtAxes(vars) : t(te::BroadcastIndices(logical, shape, t.shape())));
        }
        return fn(elements);
      },
      shape);
}

Tensor Map1(const std::string& name, const Tensor& x, const std::function<Expr(const Expr&)>& fn) {
  return Map(name, {x}, [&](const std::vector<Expr>& e) { return fn(e[0]); });
}
Tensor Map2(const std::string& name, const Tensor& a, const Tensor& b, BinaryOp op) {
  return Map(name, {a, b}, [&](const std::vector<Expr>& e) { return MakeBinary(op, e[0], e[1]); });
}

}  // namespace

Tensor Map(const std::string& name, const std::vector<Tensor>& inputs,
           const std::function<Expr(const std::vector<Expr>&)>& fn) {
  return MapWith(name, inputs, {}, fn);
}

// The constant is the first operand, since max returns its second operand if either is NaN. So a NaN stays.
Tensor Relu(const std::string& name, const Tensor& x) {
  return Map1(name, x, [](const Expr& e) { return Max(ConstOf(0, e.dtype()), e); });
}
Tensor LeakyRelu(const std::string& name, const Tensor& x, double alpha) {
  return Map1(name, x,
              [&](const Expr& e) { return MakeSelect(e < ConstOf(0, e.dtype()), e * ConstOf(alpha, e.dtype()), e); });
}
Tensor Clip(const std::string& name, const Tensor& x, double low, double high) {
  return Map1(name, x, [&](const Expr& e) {
    Expr y = std::isinf(low) && low < 0 ? e : Max(ConstOf(low, e.dtype()), e);
    return std::isinf(high) && high > 0 ? y : Min(ConstOf(high, e.dtype()), y);
  });
}
Tensor ApplyOp(const std::string& name, Op op, const Tensor& x) {
  CHECK(Row(op).arity == 1 && Row(op).type != OpType::kGiven) << Row(op).name;
  return Map1(name, x, [&](const Expr& e) { return MakeCall(op, {e}); });
}
Tensor Neg(const std::string& name, const Tensor& x) {
  return Map1(name, x, [](const Expr& e) { return -e; });
}
Tensor Abs(const std::string& name, const Tensor& x) {
  if (x.dtype().IsFloat()) return ApplyOp(name, Op::kAbs, x);
  return Map1(name, x, [](const Expr& e) { return e.dtype().code == TypeCode::kUInt ? e : Max(e, -e); });
}
Tensor Not(const std::string& name, const Tensor& x) {
  return Map1(name, x, [](const Expr& e) {
    if (e.dtype().IsBool()) return autotune::Not(e);
    // The complement is -1 - e in two's complement. Signed integers do not overflow, and unsigned ones wrap as
    // intended.
    return IntConst(WrapTo(~uint64_t{0}, e.dtype()), e.dtype()) - e;
  });
}
Tensor And(const std::string& name, const Tensor& a, const Tensor& b) {
  return Map2(name, a, b, a.dtype().IsBool() ? BinaryOp::kAnd : BinaryOp::kBitAnd);
}
Tensor Or(const std::string& name, const Tensor& a, const Tensor& b) {
  return Map2(name, a, b, a.dtype().IsBool() ? BinaryOp::kOr : BinaryOp::kBitOr);
}
Tensor Xor(const std::string& name, const Tensor& a, const Tensor& b) {
  if (a.dtype().IsBool()) return Map2(name, a, b, BinaryOp::kNe);
  return Map(name, {a, b}, [](const std::vector<Expr>& e) {  // a ^ b = (a | b) - (a & b)
    return MakeBinary(BinaryOp::kBitOr, e[0], e[1]) - MakeBinary(BinaryOp::kBitAnd, e[0], e[1]);
  });
}

namespace {

Tensor Shift(const std::string& name, const Tensor& a, const Tensor& b, BinaryOp op) {
  return Map(name, {a, b}, [&](const std::vector<Expr>& e) {
    const DType dtype = e[0].dtype();
    Expr last = IntConst(dtype.bits - 1, dtype), zero = IntConst(0, dtype);
    return MakeSelect(e[1] <= last, MakeBinary(op, e[0], Min(e[1], last)), zero);
  });
}

}  // namespace

Tensor ShiftLeft(const std::string& name, const Tensor& a, const Tensor& b) {
  return Shift(name, a, b, BinaryOp::kShl);
}
Tensor ShiftRight(const std::string& name, const Tensor& a, const Tensor& b) {
  return Shift(name, a, b, BinaryOp::kShr);
}
Tensor CastTo(const std::string& name, const Tensor& x, DType dtype) {
  return Map1(name, x, [&](const Expr& e) { return MakeCast(dtype, e); });
}
Tensor BitCast(const std::string& name, const Tensor& x, DType dtype) {
  CHECK(x.dtype().bits == dtype.bits) << name;
  return Map1(name, x, [&](const Expr& e) {
    // Between integers a cast keeps the bits.
    return e.dtype().IsFloat() || dtype.IsFloat() ? MakeExpr(dtype, Call{autotune::Op::kReinterpret, {e}})
                                                  : MakeCast(dtype, e);
  });
}
Tensor Identity(const std::string& name, const Tensor& x) {
  return Map1(name, x, [](const Expr& e) { return e; });
}

Tensor Add(const std::string& name, const Tensor& a, const Tensor& b) { return Map2(name, a, b, BinaryOp::kAdd); }
Tensor Sub(const std::string& name, const Tensor& a, const Tensor& b) { return Map2(name, a, b, BinaryOp::kSub); }
Tensor Mul(const std::string& name, const Tensor& a, const Tensor& b) { return Map2(name, a, b, BinaryOp::kMul); }
Tensor Div(const std::string& name, const Tensor& a, const Tensor& b) {
  if (a.dtype().IsFloat()) return Map2(name, a, b, BinaryOp::kDiv);
  return Map(name, {a, b}, [](const std::vector<Expr>& e) {
    Expr zero = ConstOf(0, e[0].dtype()), one = ConstOf(1, e[0].dtype());
    Expr divisor = MakeSelect(Eq(e[1], zero), one, e[1]);
    Expr floor = FloorDiv(e[0], divisor);
    if (e[0].dtype().code == TypeCode::kUInt) return floor;
    // Rounds towards zero: adds 1 to the floor of a negative quotient that is not an integer.
    Expr inexact = MakeBinary(BinaryOp::kNe, floor * divisor, e[0]);
    return MakeSelect(And(inexact, floor < zero), floor + one, floor);
  });
}
Tensor Mod(const std::string& name, const Tensor& a, const Tensor& b) {
  return Map(name, {a, b}, [](const std::vector<Expr>& e) {
    Expr zero = ConstOf(0, e[0].dtype()), one = ConstOf(1, e[0].dtype());
    return FloorMod(e[0], MakeSelect(Eq(e[1], zero), one, e[1]));
  });
}
Tensor Maximum(const std::string& name, const Tensor& a, const Tensor& b) { return Map2(name, a, b, BinaryOp::kMax); }
Tensor Minimum(const std::string& name, const Tensor& a, const Tensor& b) { return Map2(name, a, b, BinaryOp::kMin); }
Tensor Pow(const std::string& name, const Tensor& a, const Tensor& b) {
  return Map(name, {a, b}, [](const std::vector<Expr>& e) { return MakeCall(Op::kPow, {e[0], e[1]}); });
}
Tensor Compare(const std::string& name, const Tensor& a, const Tensor& b, BinaryOp op) { return Map2(name, a, b, op); }
Tensor Where(const std::string& name, const Tensor& condition, const Tensor& a, const Tensor& b) {
  return Map(name, {condition, a, b}, [](const std::vector<Expr>& e) { return MakeSelect(e[0], e[1], e[2]); });
}
Tensor Fma(const std::string& name, const Tensor& a, const Tensor& b, const Tensor& c) {
  return Map(name, {a, b, c}, [](const std::vector<Expr>& e) {
    return MakeCall(autotune::Op::kFma, {e[0], e[1], e[2]});
  });
}
Tensor LookUp(const std::string& name, const Tensor& x, const Tensor& table) {
  return MapWith(name, {x}, {table}, [&](const std::vector<Expr>& e) { return table({ByteIndex(e[0])}); });
}
Tensor Sum(const std::string& name, const std::vector<Tensor>& inputs) {
  CHECK(!inputs.empty());
  return Map(name, inputs, [](const std::vector<Expr>& e) {
    Expr sum = e[0];
    for (size_t i = 1; i < e.size(); ++i) sum = sum + e[i];
    return sum;
  });
}

}  // namespace autotune::topi
