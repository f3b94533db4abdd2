#include "arith/sum.h"

#include <algorithm>
#include <bit>

namespace autotune::arith {
namespace {

template <class T>
int Order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}
int Order(const Name& a, const Name& b) { return a == b ? 0 : a.str().compare(b.str()); }
int Order(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (int order = Order(a.size(), b.size())) return order;
  for (size_t i = 0; i < a.size(); ++i) {
    if (int order = Compare(a[i], b[i])) return order;
  }
  return 0;
}

void Gather(const Expr& e, int64_t k, Sum& out) {
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

Expr Scaled(const Expr& atom, int64_t k) { return k == 1 ? atom : MakeBinary(BinaryOp::kMul, atom, IntConst(k)); }

}  // namespace

int Compare(const Expr& a, const Expr& b) {
  if (a.Same(b)) return 0;
  const ExprNode &x = a.get()->node, &y = b.get()->node;
  if (int order = Order(x.index(), y.index())) return order;
  DType s = a.dtype(), t = b.dtype();
  if (s != t) {
    auto key = [](DType d) { return std::tuple(d.code, d.bits, d.lanes); };
    return Order(key(s), key(t));
  }
  return std::visit(Overloaded{
                        [&](const IntImm& n) { return Order(n.value, std::get<IntImm>(y).value); },
                        [&](const FloatImm& n) {
                          return Order(std::bit_cast<uint64_t>(n.value),
                                       std::bit_cast<uint64_t>(std::get<FloatImm>(y).value));
                        },
                        [&](const Var& n) { return Order(n.name, std::get<Var>(y).name); },
                        [&](const Unary& n) {
                          const Unary& m = std::get<Unary>(y);
                          int order = Order(n.op, m.op);
                          return order ? order : Compare(n.a, m.a);
                        },
                        [&](const Binary& n) {
                          const Binary& m = std::get<Binary>(y);
                          int order = Order(n.op, m.op);
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
                          int order = Order(n.buffer->name, m.buffer->name);
                          return order ? order : Order(n.indices, m.indices);
                        },
                        [&](const Call& n) {
                          const Call& m = std::get<Call>(y);
                          int order = Order(n.op, m.op);
                          return order ? order : Order(n.args, m.args);
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

void Sum::Add(const Expr& atom, int64_t k) {
  if (k == 0) return;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!SameAtom(terms[i].atom, atom)) continue;
    terms[i].coefficient = WrapAdd(terms[i].coefficient, k);
    if (terms[i].coefficient == 0) terms.erase(i);
    return;
  }
  terms.emplace_back(atom, k);
}

void Sum::Add(const Sum& other, int64_t k) {
  for (const Term& term : other.terms) Add(term.atom, WrapMul(term.coefficient, k));
  constant = WrapAdd(constant, WrapMul(other.constant, k));
}

void Sum::Scale(int64_t k) {
  if (k == 0) terms.clear();
  for (Term& term : terms) term.coefficient = WrapMul(term.coefficient, k);
  constant = WrapMul(constant, k);
}

int64_t Sum::Coefficient(const Expr& atom) const {
  for (const Term& term : terms) {
    if (SameAtom(term.atom, atom)) return term.coefficient;
  }
  return 0;
}

bool Sum::Contains(const Sum& other, int64_t k) const {
  for (const Term& term : other.terms) {
    if (Coefficient(term.atom) != WrapMul(k, term.coefficient)) return false;
  }
  return true;
}

bool Sum::Huge() const {
  for (const Term& term : terms) {
    if (IsHuge(term.coefficient)) return true;
  }
  return IsHuge(constant);
}

Expr Sum::ToExpr() const {
  if (terms.empty()) return IntConst(constant);
  if (IsAtom()) return terms[0].atom;
  SmallVector<const Term*, 8> order;
  for (const Term& term : terms) {
    // Insertion sort: lists are short.
    size_t i = order.size();
    order.emplace_back(&term);
    auto before = [](const Term& a, const Term& b) {
      if ((a.coefficient > 0) != (b.coefficient > 0)) return a.coefficient > 0;
      uint64_t x = a.coefficient > 0 ? a.coefficient : 0 - static_cast<uint64_t>(a.coefficient);
      uint64_t y = b.coefficient > 0 ? b.coefficient : 0 - static_cast<uint64_t>(b.coefficient);
      return x != y ? x > y : Compare(a.atom, b.atom) < 0;
    };
    for (; i > 0 && before(term, *order[i - 1]); --i) order[i] = order[i - 1];
    order[i] = &term;
  }
  Expr sum;
  bool constant_first = order[0]->coefficient < 0 && constant > 0;
  if (constant_first) sum = IntConst(constant);
  for (const Term* term : order) {
    int64_t k = term->coefficient;
    if (!sum) {
      sum = k == -1 ? MakeUnary(UnaryOp::kNeg, term->atom) : Scaled(term->atom, k);
    } else if (k < 0 && k != INT64_MIN) {
      sum = MakeBinary(BinaryOp::kSub, std::move(sum), Scaled(term->atom, -k));
    } else {
      sum = MakeBinary(BinaryOp::kAdd, std::move(sum), Scaled(term->atom, k));
    }
  }
  if (constant_first || constant == 0) return sum;
  if (constant < 0 && constant != INT64_MIN) {
    return MakeBinary(BinaryOp::kSub, std::move(sum), IntConst(-constant));
  }
  return MakeBinary(BinaryOp::kAdd, std::move(sum), IntConst(constant));
}

Sum Sum::Of(const Expr& e) {
  Sum out;
  Gather(e, 1, out);
  return out;
}

}  // namespace autotune::arith
