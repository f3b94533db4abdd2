#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "arith/analyzer.h"
#include "arith/sum.h"

namespace autotune {

int64_t LinearForm::Coefficient(const Name& var) const {
  for (const auto& [name, coefficient] : terms) {
    if (name == var) return coefficient;
  }
  return 0;
}

LinearForm ToLinear(const Expr& e) {
  LinearForm form;
  arith::Sum sum = arith::Sum::Of(e), rest;
  form.constant = sum.constant;
  for (const arith::Term& term : sum.terms) {
    if (const Var* var = term.atom.As<Var>()) {
      form.terms.emplace_back(var->name, term.coefficient);
    } else {
      rest.terms.emplace_back(term);
    }
  }
  if (!rest.terms.empty()) form.rest = rest.ToExpr();
  return form;
}

int64_t CommonFactor(const Expr& e) {
  constexpr int64_t kLarge = int64_t{1} << 31;  // products of smaller ones do not overflow
  if (const int64_t* value = AsInt(e)) return *value == INT64_MIN ? 1 : std::abs(*value);
  const Binary* b = e.As<Binary>();
  if (!b) return 1;
  switch (b->op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return std::gcd(CommonFactor(b->a), CommonFactor(b->b));
    case BinaryOp::kMul: {
      int64_t x = CommonFactor(b->a), y = CommonFactor(b->b);
      return x < kLarge && y < kLarge ? x * y : std::max(x, y);
    }
    default:
      return 1;
  }
}

}  // namespace autotune
