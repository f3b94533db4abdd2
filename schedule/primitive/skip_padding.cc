#include <limits>
#include <vector>

#include "schedule/state.h"

namespace autotune::schedule {
namespace {

// Returns true if `e` is the identity of the maximum (sign -1) or of the minimum (sign 1): an infinity, or the least or
// greatest signed integer.
bool IsExtreme(const Expr& e, int sign) {
  if (const FloatImm* f = e.As<FloatImm>()) return f->value == sign * std::numeric_limits<double>::infinity();
  const int64_t* i = AsInt(e);
  if (!i || e.dtype().code != TypeCode::kInt) return false;
  const int64_t greatest = std::numeric_limits<int64_t>::max() >> (64 - e.dtype().bits);
  return *i == (sign > 0 ? greatest : -greatest - 1);
}

struct Guarded {
  Expr condition, value;  // stores `value` if the condition holds, else nothing
};

// If `term` is select(c, x, k) and `neutral` accepts k, sets `out` to the condition c and the value rebuild(x).
template <class Neutral, class Rebuild>
bool Match(const Expr& term, const Neutral& neutral, const Rebuild& rebuild, Guarded& out) {
  const Select* select = term.As<Select>();
  if (!select || !neutral(select->b)) return false;
  out = {select->condition, rebuild(select->a)};
  return true;
}

// If `factor` is select(c, x, 0), perhaps converted to another type, sets `out` to the condition c and the value
// rebuild(x), with x converted as the select was.
template <class Rebuild>
bool MatchFactor(Expr factor, const Rebuild& rebuild, Guarded& out) {
  std::vector<DType> types;  // of the conversions, outermost first
  while (const Cast* cast = factor.As<Cast>()) {
    types.push_back(factor.dtype());
    factor = Expr(cast->a);
  }
  const auto converted = [&](Expr x) {
    for (auto type = types.rbegin(); type != types.rend(); ++type) x = MakeCast(*type, x);
    return rebuild(x);
  };
  return Match(factor, IsZero, converted, out);
}

bool Guard(const Store& store, Guarded& out) {
  const Expr& value = store.value;
  if (const Call* call = value.As<Call>(); call && call->op == Op::kFma && IsLoadOf(call->args[2], store)) {
    const Expr &a = call->args[0], &b = call->args[1], &sum = call->args[2];
    const auto left = [&](const Expr& x) { return MakeCall(Op::kFma, {x, b, sum}); };
    const auto right = [&](const Expr& x) { return MakeCall(Op::kFma, {a, x, sum}); };
    return MatchFactor(a, left, out) || MatchFactor(b, right, out);
  }
  const Binary* update = value.As<Binary>();
  if (!update) return false;
  bool left = IsLoadOf(update->a, store);
  if (!left && !IsLoadOf(update->b, store)) return false;
  const Expr &sum = left ? update->a : update->b, &term = left ? update->b : update->a;
  auto again = [&](const Expr& x) { return MakeBinary(update->op, sum, x); };
  switch (update->op) {
    case BinaryOp::kMax:
      return Match(
          term, [](const Expr& k) { return IsExtreme(k, -1); }, again, out);
    case BinaryOp::kMin:
      return Match(
          term, [](const Expr& k) { return IsExtreme(k, 1); }, again, out);
    case BinaryOp::kAdd: {
      if (MatchFactor(term, again, out)) return true;
      const Binary* product = term.As<Binary>();
      if (!product || product->op != BinaryOp::kMul) return false;
      const auto left_factor = [&](const Expr& x) { return again(x * product->b); };
      const auto right_factor = [&](const Expr& x) { return again(product->a * x); };
      return MatchFactor(product->a, left_factor, out) || MatchFactor(product->b, right_factor, out);
    }
    default:
      return false;
  }
}

}  // namespace

// Legal for a sum of products if one factor is a select between a value and 0, also if it is converted. Also legal for
// a sum, maximum or minimum of a select between a value and the identity of the operation.
Status ApplyStep(State& state, SkipPadding& step) {
  Path path = TRY(FindBlock(state.func.body, step.block));
  Block block = path.block();
  const Store* store = SingleStore(block);
  if (!store || !IsReduction(block)) return Err("block '", block.name, "' is not a reduction by a single store");
  Guarded guarded;
  if (!Guard(*store, guarded)) {
    return Err("block '", block.name,
               "' does not update its buffer with a select between a value and the operation's identity");
  }
  block.body = MakeStmt(If{guarded.condition, MakeStmt(Store{store->buffer, store->indices, guarded.value}), Stmt()});
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(block)));
  return {};
}

}  // namespace autotune::schedule
