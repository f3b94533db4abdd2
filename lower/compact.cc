#include <algorithm>
#include <optional>

#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

// Per dimension: the touched interval [min, min + extent) with min an expression over the loops outside.
struct Box {
  std::vector<Expr> min;
  std::vector<int64_t> extent;
};

// Adds the terms of a sum with coefficients: e = sum of coefficient * term.
void AddTerms(const Expr& e, int64_t coefficient, std::vector<std::pair<Expr, int64_t>>& terms) {
  if (const Binary* b = e.As<Binary>()) {
    if (b->op == BinaryOp::kAdd || b->op == BinaryOp::kSub) {
      AddTerms(b->a, coefficient, terms);
      AddTerms(b->b, b->op == BinaryOp::kAdd ? coefficient : -coefficient, terms);
      return;
    }
    if (b->op == BinaryOp::kMul && AsInt(b->b)) return AddTerms(b->a, coefficient * *AsInt(b->b), terms);
    if (b->op == BinaryOp::kMul && AsInt(b->a)) return AddTerms(b->b, coefficient * *AsInt(b->a), terms);
  }
  terms.emplace_back(e, coefficient);
}

// The loops around a point, outermost first.
struct LoopRange {
  Name var;
  int64_t extent;
};

class Region {
 public:
  Region(const Analyzer& outer, int rank) : outer_(outer), rank_(rank), written_(rank), all_(rank) {}

  // Adds an access under the given loops inside the region.
  void Add(const std::vector<Expr>& indices, const std::vector<LoopRange>& inner, bool write) {
    Analyzer analyzer = outer_;
    std::set<Name> vars;
    for (const LoopRange& loop : inner) {
      analyzer.Bind(loop.var, 0, loop.extent - 1);
      vars.insert(loop.var);
    }
    for (int d = 0; d < rank_; ++d) {
      std::optional<Part> part = Split(analyzer.Simplify(indices[d]), vars, analyzer);
      if (write) Merge(written_[d], part);
      Merge(all_[d], part);
    }
  }

  // The box of everything, for the given full shape; absent where reads may leave what is written here. `private_here`:
  // they cannot, since nobody else writes what this region reads, even where the indices do not show it.
  std::optional<Box> Get(const std::vector<int64_t>& shape, bool private_here) const {
    Box box;
    for (int d = 0; d < rank_; ++d) {
      const State& written = written_[d];
      const State& all = private_here && written.seen ? written : all_[d];
      if (!written.seen || all.full) {
        // Not a box, or not one that this region writes: keep the dimension whole.
        if (!written.seen || !written.full) return std::nullopt;
        box.min.push_back(Expr(0));
        box.extent.push_back(shape[d]);
        continue;
      }
      if (written.full || all.low < written.low || all.high > written.high) return std::nullopt;
      box.min.push_back(outer_.Simplify(all.base + Expr(all.low)));
      box.extent.push_back(all.high - all.low + 1);
    }
    return box;
  }

 private:
  // base (outer variables) + [low, high]
  struct Part {
    Expr base;
    int64_t low = 0, high = 0;
  };
  struct State {
    bool seen = false, full = false;
    Expr base;
    int64_t low = 0, high = 0;
  };

  static std::optional<Part> Split(const Expr& index, const std::set<Name>& inner, const Analyzer& analyzer) {
    std::vector<std::pair<Expr, int64_t>> terms;
    AddTerms(index, 1, terms);
    Part part{Expr(0), 0, 0};
    Expr inside = Expr(0);
    for (const auto& [term, coefficient] : terms) {
      bool uses_inner = UsesVar(term, [&](const Name& n) { return inner.contains(n); });
      bool uses_outer = HasNode<Load>(term) || UsesVar(term, [&](const Name& n) { return !inner.contains(n); });
      if (uses_inner && uses_outer) return std::nullopt;
      Expr& sum = uses_outer ? part.base : inside;
      sum = sum + term * Expr(coefficient);
    }
    Interval range = analyzer.Bounds(analyzer.Simplify(inside));
    if (!range.low || !range.high) return std::nullopt;
    part.low = *range.low;
    part.high = *range.high;
    return part;
  }

  void Merge(State& state, const std::optional<Part>& part) {
    if (!part) {
      state.seen = state.full = true;
      return;
    }
    if (!state.seen) {
      state = {true, false, part->base, part->low, part->high};
      return;
    }
    if (state.full) return;
    Expr difference = outer_.Simplify(part->base - state.base);
    const int64_t* offset = AsInt(difference);
    if (!offset) {
      state.full = true;
      return;
    }
    state.low = std::min(state.low, part->low + *offset);
    state.high = std::max(state.high, part->high + *offset);
  }

  Analyzer outer_;
  int rank_;
  std::vector<State> written_, all_;
};

class Compactor {
 public:
  explicit Compactor(const CarriedLoops& carried) : carried_(carried) {}

  Stmt Place(const Buffer& buffer, const Stmt& root) {
    buffer_ = buffer;
    private_here_ = false;
    return Descend(root, Analyzer());
  }

 private:
  bool Touches(const Stmt& s) const {
    return TouchesBuffer(s, [&](const Buffer& b) { return b->name == buffer_->name; });
  }

  // Goes into the one statement that touches the buffer while it is a loop that may own it.
  Stmt Descend(const Stmt& s, const Analyzer& outer) {
    if (const Seq* seq = s.As<Seq>()) {
      int touching = -1, count = 0;
      for (size_t i = 0; i < seq->stmts.size(); ++i) {
        if (Touches(seq->stmts[i])) touching = static_cast<int>(i), ++count;
      }
      if (count != 1) return PlaceHere(s, outer);
      std::vector<Stmt> stmts = seq->stmts;
      stmts[touching] = Descend(stmts[touching], outer);
      return MakeSeq(std::move(stmts));
    }
    if (const Alloc* other = s.As<Alloc>()) return MakeStmt(Alloc{other->buffer, Descend(other->body, outer)});
    if (const If* branch = s.As<If>(); branch && !branch->else_body && !HasNode<Load>(branch->condition)) {
      return MakeStmt(If{branch->condition, Descend(branch->then_body, outer), Stmt()});
    }
    const For* loop = s.As<For>();
    if (!loop || loop->kind == LoopKind::kVectorized || loop->kind == LoopKind::kUnrolled || !AsInt(loop->extent)) {
      return PlaceHere(s, outer);
    }
    if (auto it = carried_.find(buffer_->name); it != carried_.end() && it->second.contains(loop->var)) {
      return PlaceHere(s, outer);
    }
    Analyzer inside = outer;
    inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
    // What the iterations of a parallel loop write and read for themselves must be theirs alone.
    if (loop->kind == LoopKind::kParallel && StoresTo(loop->body, buffer_->name)) {
      private_here_ = true;
    } else if (!RegionOf(loop->body, inside, false)) {
      return PlaceHere(s, outer);
    }
    return MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, Descend(loop->body, inside)});
  }

  std::optional<Box> RegionOf(const Stmt& s, const Analyzer& outer, bool private_here) {
    Region region(outer, static_cast<int>(buffer_->shape.size()));
    std::vector<LoopRange> inner;
    bool known = Collect(s, inner, region);
    return known ? region.Get(ConstShape(buffer_), private_here) : std::nullopt;
  }

  bool Collect(const Stmt& s, std::vector<LoopRange>& inner, Region& region) {
    auto loads = [&](const Expr& e) {
      Walk(e, [&](const Expr& x) {
        const Load* load = x.As<Load>();
        if (load && load->buffer->name == buffer_->name) region.Add(load->indices, inner, false);
        return true;
      });
    };
    if (const Store* store = s.As<Store>()) {
      for (const Expr& i : store->indices) loads(i);
      loads(store->value);
      if (store->buffer->name == buffer_->name) region.Add(store->indices, inner, true);
      return true;
    }
    if (const For* loop = s.As<For>()) {
      if (!AsInt(loop->extent)) return false;
      inner.push_back({loop->var, *AsInt(loop->extent)});
      bool known = Collect(loop->body, inner, region);
      inner.pop_back();
      return known;
    }
    if (const Seq* seq = s.As<Seq>()) {
      return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                         [&](const Stmt& child) { return Collect(child, inner, region); });
    }
    if (const If* branch = s.As<If>()) {
      loads(branch->condition);
      return Collect(branch->then_body, inner, region) &&
             (!branch->else_body || Collect(branch->else_body, inner, region));
    }
    if (const Alloc* other = s.As<Alloc>()) return Collect(other->body, inner, region);
    if (const Evaluate* evaluate = s.As<Evaluate>()) {
      loads(evaluate->value);
      return true;
    }
    return false;
  }

  Stmt PlaceHere(const Stmt& s, const Analyzer& outer) {
    std::optional<Box> box = RegionOf(s, outer, private_here_);
    if (!box) return MakeStmt(Alloc{buffer_, s});
    std::vector<Expr> shape;
    for (int64_t extent : box->extent) shape.push_back(Expr(extent));
    Buffer small = WithShape(buffer_, std::move(shape));
    auto rebase = [&](const std::vector<Expr>& indices) {
      std::vector<Expr> moved;
      for (size_t d = 0; d < indices.size(); ++d) moved.push_back(outer.Simplify(indices[d] - box->min[d]));
      return moved;
    };
    Stmt body = RewriteStmt(
        s,
        [&](const Stmt& x) {
          const Store* store = x.As<Store>();
          if (!store || !(store->buffer->name == buffer_->name)) return x;
          return MakeStmt(Store{small, rebase(store->indices), store->value});
        },
        [&](const Expr& x) {
          const Load* load = x.As<Load>();
          if (!load || !(load->buffer->name == buffer_->name)) return x;
          return MakeLoad(small, rebase(load->indices));
        });
    return MakeStmt(Alloc{small, body});
  }

  const CarriedLoops& carried_;
  Buffer buffer_;
  bool private_here_ = false;  // inside a parallel loop all of whose iterations have a copy of their own
};

}  // namespace

Result<PrimFunc> CompactRegions(const PrimFunc& f, PassEnv& env) {
  PrimFunc g = f;
  Compactor compactor(env.carried);
  for (const Buffer& buffer : f.allocs) {
    if (!TouchesBuffer(g.body, [&](const Buffer& b) { return b->name == buffer->name; })) continue;
    g.body = compactor.Place(buffer, g.body);
  }
  g.allocs.clear();
  return g;
}

}  // namespace autotune
