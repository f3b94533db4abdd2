#include <algorithm>
#include <optional>

#include "arith/region.h"
#include "lower/passes.h"
#include "support/check.h"

namespace autotune {
namespace {

// The accessed interval [min, min + extent) of each dimension. `min` is an expression over the loops outside.
struct Box {
  std::vector<Expr> min;
  std::vector<int64_t> extent;
};

// The elements of a buffer that one execution of a statement accesses, over all iterations of the loops inside it.
class Touched {
 public:
  Touched(const Analyzer& outer, int rank, bool unclamps)
      : outer_(outer), unclamps_(unclamps), written_(rank), all_(rank) {}

  // Adds an access under the given loops inside the statement.
  void Add(const std::vector<Expr>& indices, const Ranges& inner, bool write) {
    Analyzer analyzer = outer_;
    for (const LoopRange& loop : inner) analyzer.Bind(loop.var, 0, loop.extent - 1);
    for (size_t d = 0; d < all_.size(); ++d) {
      const Expr index = analyzer.Simplify(indices[d]);
      const std::optional<Region> region =
          !write && unclamps_ ? RegionOfClamped(index, inner, analyzer) : RegionOfIndex(index, inner, analyzer);
      if (write) Merge(written_[d], region);
      Merge(all_[d], region);
    }
  }

  // Returns the box of all accessed elements of a buffer with this full shape. Returns nothing if a read may access
  // elements that this statement does not write. If `private_here`, no other statement writes the elements that this
  // one reads, so it must write them itself, even if the indices do not prove it.
  std::optional<Box> Get(const std::vector<int64_t>& shape, bool private_here) const {
    Box box;
    for (size_t d = 0; d < all_.size(); ++d) {
      const State& written = written_[d];
      const State& all = private_here && written.seen ? written : all_[d];
      if (!written.seen || !all.region) {
        // If the writes form no interval, keep the whole dimension. If only the reads form none, give up.
        if (!written.seen || written.region) return std::nullopt;
        box.min.push_back(Expr(0));
        box.extent.push_back(shape[d]);
        continue;
      }
      if (!written.region || !IsWithin(*all.region, *written.region)) return std::nullopt;
      box.min.push_back(outer_.Simplify(all.region->min.ToExpr()));
      box.extent.push_back(all.region->span + 1);
    }
    return box;
  }

 private:
  struct State {
    bool seen = false;
    std::optional<Region> region;  // absent: the whole dimension
  };

  static std::optional<Region> RegionOfIndex(const Expr& index, const Ranges& inner, const Analyzer& analyzer) {
    std::optional<Parts> parts = PartsOf(ToLinear(index), inner);
    if (!parts) return std::nullopt;
    Interval range = analyzer.Bounds(analyzer.Simplify(parts->running.ToExpr()));
    if (!range.low || !range.high) return std::nullopt;
    parts->fixed.constant += *range.low;
    return Region{std::move(parts->fixed), *range.high - *range.low};
  }

  // As RegionOfIndex, but also takes an index min(e, limit), if the least value of e never exceeds the limit. Each
  // value of the index then lies between the least and the greatest value of e.
  std::optional<Region> RegionOfClamped(const Expr& index, const Ranges& inner, const Analyzer& analyzer) const {
    const Binary* clamp = index.As<Binary>();
    const int64_t* limit = clamp && clamp->op == BinaryOp::kMin ? AsInt(clamp->b) : nullptr;
    std::optional<Region> region = RegionOfIndex(limit ? clamp->a : index, inner, analyzer);
    if (!limit || !region) return region;
    const Interval least = outer_.Bounds(outer_.Simplify(region->min.ToExpr()));
    if (!least.high || *least.high > *limit) return std::nullopt;
    if (least.low == least.high) region->span = std::min(region->span, *limit - *least.high);
    return region;
  }

  // Returns b.min - a.min if the difference is constant, given the ranges of the outer loops.
  std::optional<int64_t> Distance(const Region& a, const Region& b) const {
    LinearForm distance = b.min;
    distance.Add(a.min, -1);
    if (distance.IsConst()) return distance.constant;
    const Expr simple = outer_.Simplify(distance.ToExpr());
    return AsInt(simple) ? std::optional(*AsInt(simple)) : std::nullopt;
  }

  bool IsWithin(const Region& part, const Region& whole) const {
    std::optional<int64_t> ahead = Distance(whole, part);
    return ahead && *ahead >= 0 && *ahead + part.span <= whole.span;
  }

  void Merge(State& state, const std::optional<Region>& region) {
    if (!state.seen) {
      state = {true, region};
      return;
    }
    if (!state.region) return;
    std::optional<int64_t> distance = region ? Distance(*state.region, *region) : std::nullopt;
    state.region = distance ? std::optional(Union(*state.region, *region, *distance)) : std::nullopt;
  }

  Analyzer outer_;
  bool unclamps_;
  std::vector<State> written_, all_;
};

class Compactor {
 public:
  explicit Compactor(const CarriedLoops& carried) : carried_(carried) {}

  Stmt Place(const Buffer& buffer, const Stmt& root) {
    buffer_ = buffer;
    private_here_ = false;
    threads_.clear();
    return Descend(root, Analyzer());
  }

 private:
  bool Touches(const Stmt& s) const {
    return TouchesBuffer(s, [&](const Buffer& b) { return b->name == buffer_->name; });
  }

  // Searches for the innermost loop that contains all accesses to the buffer and may own it, and allocates it there.
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
    if (IsBound(loop->kind) && buffer_->scope == Scope::kGlobal) return PlaceHere(s, outer);  // visible to all blocks
    if (IsThreadAxis(loop->kind) && buffer_->scope == Scope::kShared) return DescendShared(*loop, outer);
    if (auto it = carried_.find(buffer_->name); it != carried_.end() && it->second.contains(loop->var)) {
      return PlaceHere(s, outer);
    }
    Analyzer inside = outer;
    inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
    // A buffer that the iterations of a parallel loop write must be private to each iteration.
    const bool each_alone = loop->kind == LoopKind::kParallel || IsBound(loop->kind);
    if (each_alone && StoresTo(loop->body, buffer_->name)) {
      private_here_ = true;
    } else if (!BoxOf(loop->body, inside, false)) {
      return PlaceHere(s, outer);
    }
    return MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, Descend(loop->body, inside)});
  }

  // Shrinks a shared buffer to the elements that all threads of a block access in one iteration of the loops inside the
  // loops over threads. The buffer is still allocated outside the loops over threads.
  Stmt DescendShared(const For& loop, const Analyzer& outer) {
    const bool outermost = threads_.empty();
    threads_.push_back({loop.var, *AsInt(loop.extent)});
    Stmt body = Descend(loop.body, outer);
    Stmt inside = MakeStmt(For{loop.var, loop.extent, loop.kind, loop.annotations, std::move(body)});
    return outermost ? MakeStmt(Alloc{shared_, std::move(inside)}) : inside;
  }

  std::optional<Box> BoxOf(const Stmt& s, const Analyzer& outer, bool private_here) {
    // Rows of a tile beyond the end of a product are read from its last row. Without them, the copies of operands in
    // shared memory would hold the whole sum, not one piece.
    Touched touched(outer, static_cast<int>(buffer_->shape.size()), buffer_->scope == Scope::kShared);
    Ranges inner = threads_;
    bool known = Collect(s, inner, touched);
    return known ? touched.Get(ConstShape(buffer_), private_here) : std::nullopt;
  }

  bool Collect(const Stmt& s, Ranges& inner, Touched& touched) {
    auto loads = [&](const Expr& e) {
      Walk(e, [&](const Expr& x) {
        const Load* load = x.As<Load>();
        if (load && load->buffer->name == buffer_->name) touched.Add(load->indices, inner, false);
        return true;
      });
    };
    if (const Store* store = s.As<Store>()) {
      for (const Expr& i : store->indices) loads(i);
      loads(store->value);
      if (store->buffer->name == buffer_->name) touched.Add(store->indices, inner, true);
      return true;
    }
    if (const For* loop = s.As<For>()) {
      if (!AsInt(loop->extent)) return false;
      inner.push_back({loop->var, *AsInt(loop->extent)});
      bool known = Collect(loop->body, inner, touched);
      inner.pop_back();
      return known;
    }
    if (const Seq* seq = s.As<Seq>()) {
      return std::all_of(seq->stmts.begin(), seq->stmts.end(),
                         [&](const Stmt& child) { return Collect(child, inner, touched); });
    }
    if (const If* branch = s.As<If>()) {
      loads(branch->condition);
      return Collect(branch->then_body, inner, touched) &&
             (!branch->else_body || Collect(branch->else_body, inner, touched));
    }
    if (const Alloc* other = s.As<Alloc>()) return Collect(other->body, inner, touched);
    if (const Evaluate* evaluate = s.As<Evaluate>()) {
      loads(evaluate->value);
      return true;
    }
    return false;
  }

  Stmt PlaceHere(const Stmt& s, const Analyzer& outer) {
    std::optional<Box> box = BoxOf(s, outer, private_here_);
    if (!box) return Allocated(buffer_, s);
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
    return Allocated(small, body);
  }

  Stmt Allocated(const Buffer& buffer, const Stmt& s) {
    if (threads_.empty()) return MakeStmt(Alloc{buffer, s});
    shared_ = buffer;  // DescendShared places the Alloc around the loops over threads
    return s;
  }

  const CarriedLoops& carried_;
  Buffer buffer_, shared_;
  Ranges threads_;             // enclosing loops over threads, while a shared buffer is placed
  bool private_here_ = false;  // true inside a parallel loop, each iteration of which has its own copy
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
