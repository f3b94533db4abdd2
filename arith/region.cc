// Regions: boxes of what a statement touches, as sums of symbols plus a constant spread per dimension.
#include <algorithm>

#include "arith/analyzer.h"
#include "arith/simplifier.h"

namespace autotune {
namespace {

using arith::Range;
using arith::Simplifier;
using arith::Sum;
using arith::Term;

struct Box {  // of one dimension: [min, min + spread]
  Sum min;
  int64_t spread = 0;
};

class RegionFinder {
 public:
  explicit RegionFinder(const std::vector<VarRange>& free) : simplifier_(empty_) {
    for (const VarRange& var : free) BindLoop(var.var, Expr(var.extent));
  }

  void Run(const Stmt& s) {
    if (!s) return;
    s.Visit(Overloaded{
        [&](const Store& n) {
          for (const Expr& i : n.indices) RunExpr(i);
          RunExpr(n.value);
          Access(n.buffer, n.indices, true);
        },
        [&](const Evaluate&) {},  // a prefetch is a hint, not an access
        [&](const Seq& n) {
          for (const Stmt& child : n.stmts) Run(child);
        },
        [&](const If& n) {
          RunExpr(n.condition);
          Expr condition = Simplified(n.condition);
          auto mark = simplifier_.GetMark();
          if (!IsConst(condition, 0)) {
            simplifier_.Assume(condition, true);
            Run(n.then_body);
            simplifier_.Release(mark);
          }
          if (!IsConst(condition, 1)) {
            simplifier_.Assume(condition, false);
            Run(n.else_body);
            simplifier_.Release(mark);
          }
        },
        [&](const For& n) {
          auto mark = simplifier_.GetMark();
          BindLoop(n.var, Simplified(n.extent));
          Run(n.body);
          ranging_.pop_back();
          simplifier_.Release(mark);
        },
        [&](const Block& n) {
          auto mark = simplifier_.GetMark();
          for (const Iter& iter : n.iters) RunExpr(iter.binding);
          for (const Iter& iter : n.iters) bound_[iter.var] = Substitute(iter.binding, bound_);
          if (n.predicate) {
            RunExpr(n.predicate);
            simplifier_.Assume(Simplified(n.predicate), true);
          }
          Run(n.init);
          Run(n.body);
          simplifier_.Release(mark);
        },
        [&](const Alloc& n) { Run(n.body); },
        [&](const Let& n) {
          RunExpr(n.value);
          bound_[n.var] = Substitute(n.value, bound_);
          Run(n.body);
        },
    });
  }

  std::vector<BufferRegion> Take() {
    std::vector<BufferRegion> regions;
    for (Entry& entry : entries_) {
      BufferRegion region{entry.buffer, entry.write, {}, {}};
      for (size_t d = 0; d < entry.boxes.size(); ++d) {
        const auto& box = entry.boxes[d];
        region.min.push_back(box ? box->min.ToExpr() : Expr(0));
        region.extent.push_back(box ? Expr(box->spread + 1) : entry.buffer->shape[d]);
      }
      regions.push_back(std::move(region));
    }
    return regions;
  }

 private:
  struct Entry {
    Buffer buffer;
    bool write;
    std::vector<std::optional<Box>> boxes;  // absent: the whole dimension
  };

  void BindLoop(Name var, const Expr& extent) {
    Range r = simplifier_.BoundsOf(simplifier_.ToSum(extent));
    simplifier_.Bind(var, {0, r.high == Range::kPosInf ? r.high : r.high - 1});
    if (!AsInt(extent)) simplifier_.Assume(IndexVar(var) < extent, true);
    ranging_.push_back(var);
  }

  Expr Simplified(const Expr& e) { return simplifier_.Run(Substitute(e, bound_)); }

  void RunExpr(const Expr& e) {
    Walk(e, [&](const Expr& x) {
      if (const Select* n = x.As<Select>(); n && n->condition.dtype().lanes == 1) {
        RunExpr(n->condition);
        Expr condition = Simplified(n->condition);
        auto mark = simplifier_.GetMark();
        if (!IsConst(condition, 0)) {
          simplifier_.Assume(condition, true);
          RunExpr(n->a);
          simplifier_.Release(mark);
        }
        if (!IsConst(condition, 1)) {
          simplifier_.Assume(condition, false);
          RunExpr(n->b);
          simplifier_.Release(mark);
        }
        return false;
      }
      if (const Load* n = x.As<Load>()) {
        for (const Expr& i : n->indices) RunExpr(i);
        Access(n->buffer, n->indices, false);
        return false;
      }
      return true;
    });
  }

  bool Ranges(const Expr& e) {
    return UsesVar(
        e, [&](const Name& name) { return std::find(ranging_.begin(), ranging_.end(), name) != ranging_.end(); });
  }

  std::optional<Box> BoxOfRange(Range r) {
    if (!r.IsFinite() || arith::IsHuge(r.low) || arith::IsHuge(r.high) || r.low > r.high) return std::nullopt;
    return Box{Sum(r.low), r.high - r.low};
  }

  // Of an atom that ranges.
  std::optional<Box> BoxOfAtom(const Expr& e) {
    if (e.As<Var>()) return BoxOfRange(simplifier_.PlainBounds(e));
    const Binary* n = e.As<Binary>();
    if (n && n->op == BinaryOp::kFloorDiv && AsInt(n->b) && *AsInt(n->b) > 0) {
      int64_t c = *AsInt(n->b);
      if (auto a = BoxOf(Sum::Of(n->a))) {
        Sum last = a->min;
        last.constant += a->spread;
        Box box{simplifier_.Div(a->min, c), 0};
        Sum difference = simplifier_.Div(std::move(last), c);
        difference.Add(box.min, -1);
        box.spread = difference.IsConst() ? difference.constant : (a->spread + c - 1) / c;
        return box;
      }
    }
    if (n && (n->op == BinaryOp::kMin || n->op == BinaryOp::kMax)) {
      // min(a, b) with a fixed b grows no faster than a.
      bool a_ranges = Ranges(n->a), b_ranges = Ranges(n->b);
      if (a_ranges != b_ranges) {
        auto box = BoxOf(Sum::Of(a_ranges ? n->a : n->b));
        if (box) {
          Expr fixed = a_ranges ? n->b : n->a;
          Expr clamped = simplifier_.Run(MakeBinary(n->op, box->min.ToExpr(), fixed));
          box->min = Sum::Of(clamped);
          return box;
        }
      }
    }
    return BoxOfRange(simplifier_.PlainBounds(e));
  }

  std::optional<Box> BoxOf(const Sum& index) {
    if (index.Huge()) return std::nullopt;
    Box box{Sum(index.constant), 0};
    for (const Term& term : index.terms) {
      int64_t k = term.coefficient;
      if (!Ranges(term.atom)) {
        box.min.Add(term.atom, k);
        continue;
      }
      auto atom = BoxOfAtom(term.atom);
      int64_t spread;
      if (!atom || __builtin_mul_overflow(atom->spread, k < 0 ? -k : k, &spread) || arith::IsHuge(spread)) {
        return std::nullopt;
      }
      box.min.Add(atom->min, k);
      box.spread += spread;
      if (k < 0) box.min.constant -= spread;
      if (box.min.Huge()) return std::nullopt;
    }
    return box;
  }

  void Access(const Buffer& buffer, const std::vector<Expr>& indices, bool write) {
    std::vector<std::optional<Box>> boxes(buffer->shape.size());
    for (size_t d = 0; d < indices.size() && d < boxes.size(); ++d) {
      if (indices[d].dtype() != DType::Index()) continue;
      Sum index = simplifier_.ToSum(Substitute(indices[d], bound_));
      std::optional<Box> box = BoxOf(index);
      const int64_t* size = AsInt(buffer->shape[d]);
      if (box && box->min.IsConst() && size) {  // accesses lie within the buffer
        int64_t high = std::min(box->min.constant + box->spread, *size - 1);
        box->min.constant = std::max<int64_t>(box->min.constant, 0);
        box->spread = high - box->min.constant;
        if (box->spread < 0) box.reset();
      }
      if (box && !(size && box->spread + 1 >= *size)) boxes[d] = std::move(box);
    }
    for (Entry& entry : entries_) {
      if (!(entry.buffer->name == buffer->name) || entry.write != write) continue;
      for (size_t d = 0; d < boxes.size(); ++d) {
        entry.boxes[d] = Union(entry.boxes[d], boxes[d]);
        const int64_t* size = AsInt(buffer->shape[d]);
        if (entry.boxes[d] && size && entry.boxes[d]->spread + 1 >= *size) entry.boxes[d].reset();
      }
      return;
    }
    entries_.push_back({buffer, write, std::move(boxes)});
  }

  std::optional<Box> Union(const std::optional<Box>& a, const std::optional<Box>& b) {
    if (!a || !b) return std::nullopt;
    Sum difference = b->min;
    difference.Add(a->min, -1);
    // Not under the assumptions of this access: the other one was made under others.
    Range r = Simplifier(empty_).BoundsOf(difference);
    if (!r.IsFinite()) return std::nullopt;
    Box box = *a;
    int64_t low = std::min<int64_t>(r.low, 0), high = std::max(a->spread, r.high + b->spread);
    box.min.constant += low;
    box.spread = high - low;
    return arith::IsHuge(box.spread) ? std::nullopt : std::optional(box);
  }

  arith::Context empty_;
  Simplifier simplifier_;
  std::vector<Name> ranging_;
  VarMap bound_;  // iterators and Lets, in terms of what is outside
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<BufferRegion> AccessedRegions(const Stmt& s, const std::vector<VarRange>& free) {
  RegionFinder finder(free);
  finder.Run(s);
  return finder.Take();
}

}  // namespace autotune
