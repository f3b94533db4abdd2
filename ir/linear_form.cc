#include "ir/linear_form.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>

namespace autotune {
namespace {

template <class T>
int ThreeWay(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}
int ThreeWay(const Name& a, const Name& b) { return a == b ? 0 : a.str().compare(b.str()); }
int ThreeWay(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (int order = ThreeWay(a.size(), b.size())) return order;
  for (size_t i = 0; i < a.size(); ++i) {
    if (int order = Compare(a[i], b[i])) return order;
  }
  return 0;
}

void Gather(const Expr& e, int64_t k, LinearForm& out) {
  if (const int64_t* value = AsInt(e)) {
    out.constant = WrapAdd(out.constant, WrapMul(k, *value));
    return;
  }
  if (const Binary* n = e.As<Binary>()) {
    if (n->op == BinaryOp::kAdd || n->op == BinaryOp::kSub) {
      Gather(n->a, k, out);
      Gather(n->b, n->op == BinaryOp::kAdd ? k : WrapMul(k, -1), out);
      return;
    }
    if (n->op == BinaryOp::kMul) {
      if (const int64_t* value = AsInt(n->b)) return Gather(n->a, WrapMul(k, *value), out);
      if (const int64_t* value = AsInt(n->a)) return Gather(n->b, WrapMul(k, *value), out);
    }
  } else if (const Unary* n = e.As<Unary>()) {
    return Gather(n->a, WrapMul(k, -1), out);
  }
  out.Add(e, k);
}

// The order of the terms in an expression: positive terms first, then by descending magnitude of the coefficient.
class Order {
 public:
  explicit Order(const LinearForm& sum) {
    for (const LinearForm::Term& term : sum.terms) {  // insertion sort: lists are short
      size_t i = list_.size();
      list_.emplace_back(&term);
      for (; i > 0 && Before(term, *list_[i - 1]); --i) list_[i] = list_[i - 1];
      list_[i] = &term;
    }
  }
  const LinearForm::Term& operator[](size_t i) const { return *list_[i]; }

 private:
  static bool Before(const LinearForm::Term& a, const LinearForm::Term& b) {
    if ((a.coefficient > 0) != (b.coefficient > 0)) return a.coefficient > 0;
    uint64_t x = Magnitude(a.coefficient), y = Magnitude(b.coefficient);
    return x != y ? x > y : Compare(a.atom, b.atom) < 0;
  }
  static uint64_t Magnitude(int64_t v) { return v > 0 ? v : 0 - static_cast<uint64_t>(v); }
  SmallVector<const LinearForm::Term*, 8> list_;
};

Expr Scaled(const Expr& atom, int64_t k) { return k == 1 ? atom : MakeBinary(BinaryOp::kMul, atom, IntConst(k)); }

}  // namespace

int Compare(const Expr& a, const Expr& b) {
  if (a.Same(b)) return 0;
  const ExprNode &x = a.get()->node, &y = b.get()->node;
  if (int order = ThreeWay(x.index(), y.index())) return order;
  DType s = a.dtype(), t = b.dtype();
  if (s != t) {
    auto key = [](DType d) { return std::tuple(d.code, d.bits, d.lanes); };
    return ThreeWay(key(s), key(t));
  }
  return std::visit(Overloaded{
                        [&](const IntImm& n) { return ThreeWay(n.value, std::get<IntImm>(y).value); },
                        [&](const FloatImm& n) {
                          return ThreeWay(std::bit_cast<uint64_t>(n.value),
                                          std::bit_cast<uint64_t>(std::get<FloatImm>(y).value));
                        },
                        [&](const Var& n) { return ThreeWay(n.name, std::get<Var>(y).name); },
                        [&](const Unary& n) {
                          const Unary& m = std::get<Unary>(y);
                          int order = ThreeWay(n.op, m.op);
                          return order ? order : Compare(n.a, m.a);
                        },
                        [&](const Binary& n) {
                          const Binary& m = std::get<Binary>(y);
                          int order = ThreeWay(n.op, m.op);
                          if (!order) order = Compare(n.a, m.a);
                          return order ? order : Compare(n.b, m.b);
                        },
                        [&](const Cast& n) { return Compare(n.a, std::get<Cast>(y).a); },
                        [&](const Select& n) {
                          const Select& m = std::get<Select>(y);
                          int order = Compare(n.condition, m.condition);
                          if (!order) order = Compare(n.a, m.a);
                          return order ? order : Compare(n.b, m.b);
                        },
                        [&](const Load& n) {
                          const Load& m = std::get<Load>(y);
                          int order = ThreeWay(n.buffer->name, m.buffer->name);
                          return order ? order : ThreeWay(n.indices, m.indices);
                        },
                        [&](const Call& n) {
                          const Call& m = std::get<Call>(y);
                          int order = ThreeWay(n.op, m.op);
                          return order ? order : ThreeWay(n.args, m.args);
                        },
                        [&](const Ramp& n) {
                          const Ramp& m = std::get<Ramp>(y);
                          int order = Compare(n.base, m.base);
                          return order ? order : Compare(n.stride, m.stride);
                        },
                        [&](const Broadcast& n) { return Compare(n.a, std::get<Broadcast>(y).a); },
                    },
                    x);
}

bool SameAtom(const Expr& a, const Expr& b) {
  if (a.Same(b)) return true;
  if (const Var* x = a.As<Var>()) {
    const Var* y = b.As<Var>();
    return y && x->name == y->name;
  }
  return a.get()->node.index() == b.get()->node.index() && Compare(a, b) == 0;
}

void LinearForm::Add(const Expr& atom, int64_t k) {
  if (k == 0) return;
  if (const int64_t* value = AsInt(atom)) {
    constant = WrapAdd(constant, WrapMul(*value, k));
    return;
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!SameAtom(terms[i].atom, atom)) continue;
    terms[i].coefficient = WrapAdd(terms[i].coefficient, k);
    if (terms[i].coefficient == 0) terms.erase(i);
    return;
  }
  terms.emplace_back(atom, k);
}

void LinearForm::Add(const LinearForm& other, int64_t k) {
  for (const LinearForm::Term& term : other.terms) Add(term.atom, WrapMul(term.coefficient, k));
  constant = WrapAdd(constant, WrapMul(other.constant, k));
}

void LinearForm::Scale(int64_t k) {
  if (k == 0) terms.clear();
  for (Term& term : terms) term.coefficient = WrapMul(term.coefficient, k);
  constant = WrapMul(constant, k);
}

int64_t LinearForm::Coefficient(const Expr& atom) const {
  for (const LinearForm::Term& term : terms) {
    if (SameAtom(term.atom, atom)) return term.coefficient;
  }
  return 0;
}

int64_t LinearForm::Coefficient(const Name& var) const {
  for (const Term& term : terms) {
    const Var* its = term.atom.As<Var>();
    if (its && its->name == var) return term.coefficient;
  }
  return 0;
}

SmallVector<LinearForm::VariableTerm, 4> LinearForm::Variables() const {
  SmallVector<VariableTerm, 4> variables;
  for (const Term& term : terms) {
    if (const Var* var = term.atom.As<Var>()) variables.emplace_back(var->name, term.coefficient);
  }
  return variables;
}

Expr LinearForm::Rest() const {
  LinearForm rest;
  for (const Term& term : terms) {
    if (!term.atom.As<Var>()) rest.terms.emplace_back(term);
  }
  return rest.IsConst() ? Expr() : rest.ToExpr();
}

bool LinearForm::Contains(const LinearForm& other, int64_t k) const {
  for (const LinearForm::Term& term : other.terms) {
    if (Coefficient(term.atom) != WrapMul(k, term.coefficient)) return false;
  }
  return true;
}

bool LinearForm::SameTerms(const LinearForm& other) const {
  return terms.size() == other.terms.size() && Contains(other, 1);
}

bool LinearForm::Huge() const {
  for (const LinearForm::Term& term : terms) {
    if (IsHuge(term.coefficient)) return true;
  }
  return IsHuge(constant);
}

Expr LinearForm::ToExpr() const {
  if (terms.empty()) return IntConst(constant);
  if (IsAtom()) return terms[0].atom;
  Order order(*this);
  Expr sum;
  bool constant_first = order[0].coefficient < 0 && constant > 0;
  if (constant_first) sum = IntConst(constant);
  for (size_t i = 0; i < terms.size(); ++i) {
    const LinearForm::Term& term = order[i];
    int64_t k = term.coefficient;
    if (!sum) {
      sum = k == -1 ? MakeUnary(UnaryOp::kNeg, term.atom) : Scaled(term.atom, k);
    } else if (k < 0 && k != INT64_MIN) {
      sum = MakeBinary(BinaryOp::kSub, std::move(sum), Scaled(term.atom, -k));
    } else {
      sum = MakeBinary(BinaryOp::kAdd, std::move(sum), Scaled(term.atom, k));
    }
  }
  if (constant_first || constant == 0) return sum;
  if (constant < 0 && constant != INT64_MIN) {
    return MakeBinary(BinaryOp::kSub, std::move(sum), IntConst(-constant));
  }
  return MakeBinary(BinaryOp::kAdd, std::move(sum), IntConst(constant));
}

Expr LinearForm::InOrder() const {
  Expr e;
  for (const Term& t : terms) {
    if (!e) {
      e = t.atom * Expr(t.coefficient);
    } else if (t.coefficient > 0) {
      e = e + t.atom * Expr(t.coefficient);
    } else {
      e = e - t.atom * Expr(-t.coefficient);
    }
  }
  if (!e) return Expr(constant);
  return constant < 0 ? e - Expr(-constant) : e + Expr(constant);
}

bool LinearForm::Is(const Expr& e) const {
  if (terms.empty()) return autotune::IsConst(e, constant) && e.dtype().IsIndex();
  if (IsAtom()) return SameAtom(e, terms[0].atom);
  if (Huge()) return Compare(e, ToExpr()) == 0;
  Order order(*this);
  bool constant_first = order[0].coefficient < 0 && constant > 0;
  // Removes the operands of the left-deep chain one by one, from the right.
  const Expr* rest = &e;
  auto peel = [&](int64_t sign) -> const Expr* {
    const Binary* n = rest->As<Binary>();
    if (!n || n->op != (sign < 0 ? BinaryOp::kSub : BinaryOp::kAdd)) return nullptr;
    rest = &n->a;
    return &n->b;
  };
  auto is_scaled = [](const Expr& x, const Expr& atom, int64_t k) {
    if (k == 1) return SameAtom(x, atom);
    const Binary* n = x.As<Binary>();
    return n && n->op == BinaryOp::kMul && autotune::IsConst(n->b, k) && SameAtom(n->a, atom);
  };
  if (constant != 0 && !constant_first) {
    const Expr* c = peel(constant);
    if (!c || !autotune::IsConst(*c, std::abs(constant))) return false;
  }
  for (size_t i = terms.size(); i-- > 0;) {
    const LinearForm::Term& term = order[i];
    if (i == 0 && !constant_first) {
      if (term.coefficient != -1) return is_scaled(*rest, term.atom, term.coefficient);
      const Unary* n = rest->As<Unary>();
      return n && SameAtom(n->a, term.atom);
    }
    const Expr* x = peel(term.coefficient);
    if (!x || !is_scaled(*x, term.atom, std::abs(term.coefficient))) return false;
  }
  return autotune::IsConst(*rest, constant);
}

LinearForm ToLinear(const Expr& e) {
  LinearForm out;
  Gather(e, 1, out);
  return out;
}

int64_t CommonFactor(const Expr& e) {
  constexpr int64_t kLarge = int64_t{1} << 31;  // products of two smaller factors do not overflow
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
