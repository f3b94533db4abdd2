#include "lower/passes.h"
#include "support/check.h"

namespace autotune {

bool Uses(const Expr& e, const Name& var) {
  return UsesVar(e, [&](const Name& name) { return name == var; });
}

bool HasLoad(const Expr& e) {
  bool found = false;
  Walk(e, [&](const Expr& x) {
    found |= x.As<Load>() != nullptr;
    return !found;
  });
  return found;
}

bool TouchesBuffer(const Stmt& s, const std::function<bool(const Buffer&)>& is_it) {
  bool found = false;
  Walk(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.As<Store>()) found |= is_it(store->buffer);
        return !found;
      },
      [&](const Expr& x) {
        if (const Load* load = x.As<Load>()) found |= is_it(load->buffer);
        return !found;
      });
  return found;
}

std::vector<Expr> Conjuncts(const Expr& condition) {
  const Binary* b = condition.As<Binary>();
  if (!b || b->op != BinaryOp::kAnd) return {condition};
  std::vector<Expr> all = Conjuncts(b->a);
  for (Expr& e : Conjuncts(b->b)) all.push_back(std::move(e));
  return all;
}

Expr Conjunction(const std::vector<Expr>& conditions) {
  CHECK(!conditions.empty());
  Expr all = conditions[0];
  for (size_t i = 1; i < conditions.size(); ++i) all = And(all, conditions[i]);
  return all;
}

PrimFunc WithBody(const PrimFunc& f, Stmt body) {
  PrimFunc g = f;
  g.body = std::move(body);
  return g;
}

int64_t Bytes(const Buffer& buffer) {
  int64_t elements = 1;
  for (int64_t extent : ConstShape(buffer)) elements *= extent;
  return elements * buffer->dtype.Bytes();
}

}  // namespace autotune
