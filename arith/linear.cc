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

}  // namespace autotune
