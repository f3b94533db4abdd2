#include "arith/analyzer.h"
#include "arith/simplifier.h"

namespace autotune {
namespace {

using arith::Range;
using arith::Simplifier;

class StmtSimplifier {
 public:
  explicit StmtSimplifier(const arith::Context& base) : simplifier_(base) {}

  Stmt Run(const Stmt& s) {
    if (!s) return s;
    if (const For* n = s.As<For>()) return RunFor(s, *n);
    if (const Block* n = s.As<Block>()) return RunBlock(s, *n);
    if (const If* n = s.As<If>()) return RunIf(s, *n);
    if (const Let* n = s.As<Let>()) return RunLet(s, *n);
    Stmt mapped = MapChildren(
        s, [this](const Stmt& child) { return Run(child); }, [this](const Expr& e) { return simplifier_.Run(e); });
    if (const Alloc* n = mapped.As<Alloc>(); n && IsEmpty(n->body)) return n->body;
    return mapped;
  }

 private:
  Range BoundsOf(const Expr& e) {
    return e.dtype() == DType::Index() ? simplifier_.BoundsOf(simplifier_.ToForm(e)) : simplifier_.PlainBounds(e);
  }
  // Binds `var` to the values of `within` that lie in [0, extent).
  void BindBelow(Name var, const Expr& extent, Range within) {
    Range r = BoundsOf(extent);
    if (r.high != Range::kPosInf) within.high = std::min(within.high, r.high - 1);
    within.low = std::max<int64_t>(within.low, 0);
    simplifier_.Bind(var, within);
    if (!AsInt(extent) && extent.dtype().IsIndex()) simplifier_.Assume(IndexVar(var) < extent, true);
  }

  Stmt RunFor(const Stmt& s, const For& n) {
    Expr extent = simplifier_.Run(n.extent);
    if (BoundsOf(extent).high <= 0) return MakeSeq({});
    auto mark = simplifier_.GetMark();
    BindBelow(n.var, extent, {});
    Stmt body = Run(n.body);
    simplifier_.Release(mark);
    if (IsEmpty(body)) return body;
    if (extent.Same(n.extent) && body.Same(n.body)) return s;
    return MakeStmt(For{n.var, std::move(extent), n.kind, n.annotations, std::move(body)});
  }

  Stmt RunBlock(const Stmt& s, const Block& n) {
    bool changed = false;
    std::vector<Iter> iters;
    std::vector<Range> ranges;
    iters.reserve(n.iters.size());
    ranges.reserve(n.iters.size());
    for (const Iter& iter : n.iters) {
      Expr extent = simplifier_.Run(iter.extent), binding = simplifier_.Run(iter.binding);
      changed |= !extent.Same(iter.extent) || !binding.Same(iter.binding);
      ranges.push_back(BoundsOf(binding));
      iters.push_back({iter.var, iter.kind, std::move(extent), std::move(binding)});
    }
    auto mark = simplifier_.GetMark();
    Expr predicate = n.predicate;
    if (predicate) {
      // An iterator lies below its extent only where the predicate holds, so the extents must not simplify it.
      for (size_t i = 0; i < iters.size(); ++i) simplifier_.Bind(iters[i].var, ranges[i]);
      predicate = simplifier_.Run(predicate);
      simplifier_.Release(mark);
      if (IsConst(predicate, 0)) return MakeSeq({});
      if (IsConst(predicate, 1)) predicate = Expr();
      changed |= !predicate.Same(n.predicate);
    }
    for (size_t i = 0; i < iters.size(); ++i) BindBelow(iters[i].var, iters[i].extent, ranges[i]);
    if (predicate) simplifier_.Assume(predicate, true);
    Stmt init = Run(n.init), body = Run(n.body);
    simplifier_.Release(mark);
    changed |= !init.Same(n.init) || !body.Same(n.body);
    if (init && IsEmpty(init)) init = Stmt();
    if (!changed) return s;
    return MakeStmt(
        Block{n.name, std::move(iters), std::move(predicate), n.annotations, std::move(init), std::move(body)});
  }

  Stmt RunIf(const Stmt& s, const If& n) {
    Expr condition = simplifier_.Run(n.condition);
    if (const int64_t* value = AsInt(condition)) {
      if (*value) return Run(n.then_body);
      return n.else_body ? Run(n.else_body) : MakeSeq({});
    }
    auto mark = simplifier_.GetMark();
    simplifier_.Assume(condition, true);
    Stmt then_body = Run(n.then_body);
    simplifier_.Release(mark);
    simplifier_.Assume(condition, false);
    Stmt else_body = Run(n.else_body);
    simplifier_.Release(mark);
    if (else_body && IsEmpty(else_body)) else_body = Stmt();
    if (IsEmpty(then_body)) {
      if (!else_body) return then_body;
      condition = simplifier_.Run(Not(condition));
      std::swap(then_body, else_body);
      else_body = Stmt();
    }
    if (condition.Same(n.condition) && then_body.Same(n.then_body) && else_body.Same(n.else_body)) return s;
    return MakeStmt(If{std::move(condition), std::move(then_body), std::move(else_body)});
  }

  Stmt RunLet(const Stmt& s, const Let& n) {
    Expr value = simplifier_.Run(n.value);
    auto mark = simplifier_.GetMark();
    if (value.dtype().IsInt() && value.dtype().lanes == 1) simplifier_.Bind(n.var, BoundsOf(value));
    Stmt body = Run(n.body);
    simplifier_.Release(mark);
    if (IsEmpty(body)) return body;
    if (value.Same(n.value) && body.Same(n.body)) return s;
    return MakeStmt(Let{n.var, std::move(value), std::move(body)});
  }

  Simplifier simplifier_;
};

}  // namespace

Stmt SimplifyStmt(const Stmt& s, const Analyzer& context) { return StmtSimplifier(context.context_).Run(s); }

}  // namespace autotune
