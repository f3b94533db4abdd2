#include <algorithm>

#include "arith/affine.h"
#include "ir/annotations.h"
#include "lower/passes.h"
#include "lower/tails.h"

namespace autotune {
namespace {

constexpr int64_t kMaxPeeled = 2;  // iterations peeled off a loop; more would enlarge the code for little use
constexpr int64_t kMaxCopies = 3;  // loops of at most this many iterations are peeled completely

bool IsExpanded(const For& loop) { return loop.kind == LoopKind::kVectorized || loop.kind == LoopKind::kUnrolled; }

// Returns the least value of e over the inner loops, as an expression of the other variables; absent if e is not linear
// in the inner loops.
Expr Smallest(const Expr& e, const Ranges& inner) {
  LinearForm form = ToLinear(e);
  const Expr rest = form.Rest();
  Expr smallest = Expr(form.constant);
  if (rest) {
    if (UsesAny(rest, inner)) return Expr();
    smallest = rest + smallest;
  }
  for (const auto& [var, coefficient] : form.Variables()) {
    const int64_t* extent = ExtentOf(inner, var);
    if (!extent) {
      smallest = IndexVar(var) * Expr(coefficient) + smallest;
    } else if (coefficient < 0) {
      smallest = smallest + Expr(coefficient * (*extent - 1));
    }
  }
  return smallest;
}

// Returns a condition over variables from outside s that implies `condition` for all values of the loops `inner` in s.
// Returns nothing if none is known.
Expr HoldsForAll(const Expr& condition, const Ranges& inner, const Stmt& s) {
  Expr slack = Slack(condition);
  Expr smallest = slack ? Smallest(slack, inner) : Expr();
  if (!smallest) return Expr();
  bool bound = false;  // a loop of s with a symbolic extent, or a let of s, binds a variable of `smallest`
  Walk(s, [&](const Stmt& x) {
    if (const For* loop = x.As<For>()) bound |= UsesVar(smallest, loop->var);
    if (const Let* let = x.As<Let>()) bound |= UsesVar(smallest, let->var);
    return !bound;
  });
  return bound ? Expr() : smallest >= Expr(0);
}

Stmt WithoutGuards(const Stmt& s, const std::vector<Expr>& dropped) {
  return MapGuards(s, [&](const Expr& c) { return Contains(dropped, c) ? BoolConst(true) : c; });
}

class Partitioner {
 public:
  Stmt Run(const Stmt& s, const Analyzer& outer) {
    const For* loop = s.As<For>();
    if (loop && AsInt(loop->extent)) {
      if (IsExpanded(*loop)) return Split(s, outer);
      if (loop->kind == LoopKind::kSerial && loop->annotations.contains(kPeel)) return Peel(*loop, outer);
      Analyzer inside = outer;
      inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child, inside); }, nullptr);
    }
    const Alloc* alloc = s.As<Alloc>();
    if (alloc && alloc->buffer->scope == Scope::kRegister) {
      Stmt tile = MakeStmt(Alloc{alloc->buffer, UnguardInit(alloc->body, alloc->buffer, outer)});
      if (std::optional<Stmt> split = SplitTile(tile, outer)) return *split;
      return MapChildren(
          tile, [&](const Stmt& child) { return Run(child, outer); }, nullptr);
    }
    return MapChildren(
        s, [&](const Stmt& child) { return Run(child, outer); }, nullptr);
  }

 private:
  // Removes the guards around the initialisation of a register tile by a constant. With guards, the skipped elements
  // would keep values of the previous tile, which occupy registers although nothing reads them. `body` is the scope of
  // the buffer, whose contents are undefined before it.
  static Stmt UnguardInit(const Stmt& body, const Buffer& buffer, const Analyzer& outer) {
    const Seq* seq = body.As<Seq>();
    if (!seq || seq->stmts.empty()) return body;
    const Stmt& first = seq->stmts[0];
    Analyzer inside = outer;
    std::function<Stmt(const Stmt&)> unguarded = [&](const Stmt& s) -> Stmt {  // null: no such initialisation
      if (const If* branch = s.As<If>()) {
        return branch->else_body || HasNode<Load>(branch->condition) ? Stmt() : unguarded(branch->then_body);
      }
      if (const For* loop = s.As<For>()) {
        if (!AsInt(loop->extent)) return Stmt();
        inside.Bind(loop->var, 0, *AsInt(loop->extent) - 1);
        Stmt inner = unguarded(loop->body);
        return inner ? MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, inner}) : inner;
      }
      const Store* store = s.As<Store>();
      if (!store || store->buffer->name != buffer->name || !store->value.As<FloatImm>()) return Stmt();
      for (size_t d = 0; d < store->indices.size(); ++d) {
        Interval range = inside.Bounds(store->indices[d]);
        const int64_t* extent = AsInt(buffer->shape[d]);
        if (!extent || !range.low || !range.high || *range.low < 0 || *range.high >= *extent) return Stmt();
      }
      return s;
    };
    Stmt all = unguarded(first);
    if (!all) return body;
    std::vector<Stmt> stmts = seq->stmts;
    stmts[0] = all;
    return MakeSeq(std::move(stmts));
  }

  // Returns true if a guard is around a store to a register buffer whose value reads memory.
  static bool GuardsUpdates(const Stmt& s) {
    bool found = false;
    Walk(s, [&](const Stmt& x) {
      const If* branch = x.As<If>();
      if (!branch || branch->else_body) return !found;
      Walk(branch->then_body, [&](const Stmt& y) {
        const Store* store = y.As<Store>();
        found |= store && store->buffer->scope == Scope::kRegister && HasNode<Load>(store->value);
        return !found;
      });
      return !found;
    });
    return found;
  }

  // Makes two versions of the scope of a register tile. The version without guards runs if all guards hold, else the
  // version with guards. With a single version, control flow would merge at every guarded update of the accumulators,
  // and these would not stay in registers. Returns nothing if no guard is around an update, or if a guard differs
  // between lanes.
  std::optional<Stmt> SplitTile(const Stmt& s, const Analyzer& outer) {
    if (!GuardsUpdates(s)) return std::nullopt;
    Guards guards = GuardsIn(s);
    std::set<Name> lanes = LanesIn(s);
    std::vector<Expr> dropped, whole;
    for (const Expr& guard : guards.conditions) {
      if (UsesVar(guard, [&](const Name& n) { return lanes.contains(n); })) return std::nullopt;
      Expr all = HoldsForAll(guard, guards.inner, s);
      if (all) all = outer.Simplify(all);
      if (!all) return std::nullopt;
      if (IsConst(all, 0)) continue;  // it never holds for the whole tile; unrolling decides it for each element
      dropped.push_back(guard);
      if (!IsConst(all, 1) && !Contains(whole, all)) whole.push_back(all);
    }
    if (dropped.empty()) return std::nullopt;
    Stmt fast = WithoutGuards(s, dropped);
    if (whole.empty()) return fast;
    return MakeStmt(If{AndAll(whole), fast, s});
  }

  static std::set<Name> LanesIn(const Stmt& s) {
    std::set<Name> lanes;
    Walk(s, [&](const Stmt& x) {
      if (const For* loop = x.As<For>(); loop && loop->kind == LoopKind::kVectorized) lanes.insert(loop->var);
      return true;
    });
    return lanes;
  }

  // for i in E: S(i)  ->  S(0); for i in E - 2: S(i + 1); S(E - 1), where some guard of S holds in the middle only.
  Stmt Peel(const For& loop, const Analyzer& outer) {
    int64_t extent = *AsInt(loop.extent);
    Guards guards = GuardsIn(loop.body);
    auto holds = [&](const Expr& all, int64_t i) {
      return IsConst(outer.Simplify(Substitute(all, {{loop.var, Expr(i)}})), 1);
    };
    std::vector<Expr> dropped;
    int64_t low = 0, high = extent;
    for (const Expr& guard : guards.conditions) {
      Expr all = HoldsForAll(guard, guards.inner, loop.body);
      if (!all || !UsesVar(all, loop.var)) continue;
      // A comparison that is linear in the loop's variable holds in the middle if it holds at both ends.
      const Binary* compare = all.As<Binary>();
      Expr rest = compare ? ToLinear(compare->a - compare->b).Rest() : all;
      if (rest && UsesVar(rest, loop.var)) continue;
      int64_t from = low, to = high;
      while (from < to && from <= kMaxPeeled && !holds(all, from)) ++from;
      while (to > from && extent - to <= kMaxPeeled && !holds(all, to - 1)) --to;
      if (from < to && from + extent - to > kMaxPeeled) continue;
      low = from, high = to;
      dropped.push_back(guard);
    }
    if (low == high && extent > kMaxCopies) low = 0, high = extent, dropped.clear();
    std::vector<Stmt> parts;
    auto copy = [&](int64_t i) { parts.push_back(Run(Substitute(loop.body, {{loop.var, Expr(i)}}), outer)); };
    for (int64_t i = 0; i < low; ++i) copy(i);
    if (low < high) {
      Analyzer inside = outer;
      inside.Bind(loop.var, 0, high - low - 1);
      Stmt body = WithoutGuards(loop.body, dropped);
      if (low > 0) body = Substitute(body, {{loop.var, IndexVar(loop.var) + Expr(low)}});
      parts.push_back(MakeStmt(For{loop.var, Expr(high - low), loop.kind, {}, Run(body, inside)}));
    }
    for (int64_t i = high; i < extent; ++i) copy(i);
    return MakeSeq(std::move(parts));
  }

  // Splits `s` into a fast version without guards and a version for the rest.
  Stmt Split(const Stmt& s, const Analyzer& outer) {
    std::optional<Tails> tails = SplitTails(s, outer);
    if (!tails) return SplitGuards(s, outer);
    // Code that runs once, at an end of the loop, should be small rather than fast, so its other guards stay.
    Stmt tail = tails->whole ? tails->tail : SplitGuards(tails->tail, outer);
    if (tails->some) tail = MakeStmt(If{tails->some, tail, Stmt()});
    return tails->whole ? MakeStmt(If{tails->whole, SplitGuards(tails->fast, outer), tail}) : tail;
  }

  // Returns `if (all guards in s hold) s without guards; else s with guards`.
  Stmt SplitGuards(const Stmt& s, const Analyzer& outer) {
    Guards guards = GuardsIn(s);
    std::vector<Expr> dropped, whole;
    for (const Expr& guard : guards.conditions) {
      Expr all = HoldsForAll(guard, guards.inner, s);
      if (!all) continue;
      all = outer.Simplify(all);
      if (IsConst(all, 0)) continue;  // it cannot hold in all iterations, so it stays in the fast version
      dropped.push_back(guard);
      if (!IsConst(all, 1) && !Contains(whole, all)) whole.push_back(all);
    }
    if (dropped.empty()) return SplitPaddedGather(s, guards.inner, outer);
    Stmt fast = WithoutGuards(s, dropped);
    if (whole.empty()) return fast;
    return MakeStmt(If{AndAll(whole), fast, Slow(s, guards.conditions)});
  }

  // Splits a padded copy b[..] = select(c, a[..], 0) whose lanes are not neighbours in `a`. If c holds for all lanes,
  // it becomes b[..] = a[..], else it stays. The reason is that code generators transpose squares of elements in
  // registers only if no element is masked. Copies of neighbouring elements stay as they are, since there a mask costs
  // nothing.
  static Stmt SplitPaddedGather(const Stmt& s, const Ranges& inner, const Analyzer& outer) {
    Stmt body = s;
    const std::set<Name> lanes = LanesIn(s);
    while (const For* loop = body.As<For>()) body = Stmt(loop->body);
    const Store* store = body.As<Store>();
    const Select* padded = store ? store->value.As<Select>() : nullptr;
    const Load* load = padded ? padded->a.As<Load>() : nullptr;
    auto is_lane = [&](const Name& n) { return lanes.contains(n); };
    if (!load || !padded->b.As<FloatImm>() || lanes.empty() || UsesVar(load->indices.back(), is_lane)) return s;
    if (HasNode<Load>(padded->condition)) return s;
    std::vector<Expr> whole;
    for (const Expr& guard : Conjuncts(padded->condition)) {
      Expr all = HoldsForAll(guard, inner, s);
      if (all) all = outer.Simplify(all);
      if (!all || IsConst(all, 0)) return s;
      if (!IsConst(all, 1) && !Contains(whole, all)) whole.push_back(all);
    }
    const Expr value = padded->a;
    Stmt fast = RewriteStmt(s, [&](const Stmt& x) {
      const Store* copy = x.As<Store>();
      return copy ? MakeStmt(Store{copy->buffer, copy->indices, value}) : x;
    });
    return whole.empty() ? fast : MakeStmt(If{AndAll(whole), fast, s});
  }

  // Makes the guarded version, which is small rather than fast. If the guards are the same for all lanes, loops stay
  // vectors. Otherwise they become serial loops over scalars. Such loops cannot index register buffers, so the register
  // buffers that they read are copied to scratch buffers first.
  Stmt Slow(const Stmt& s, const std::vector<Expr>& guards) {
    const std::set<Name> lanes = LanesIn(s);
    bool writes_registers = false;
    std::map<Name, Buffer> read;
    Walk(
        s,
        [&](const Stmt& x) {
          const Store* store = x.As<Store>();
          writes_registers |= store && store->buffer->scope == Scope::kRegister;
          return true;
        },
        [&](const Expr& x) {
          const Load* load = x.As<Load>();
          if (load && load->buffer->scope == Scope::kRegister) read.emplace(load->buffer->name, load->buffer);
          return true;
        });
    bool lane_dependent = std::any_of(guards.begin(), guards.end(), [&](const Expr& g) {
      return UsesVar(g, [&](const Name& n) { return lanes.contains(n); });
    });
    if (!lane_dependent) return s;
    if (writes_registers) return Scalar(s);
    BufferMap scratch;
    for (const auto& [name, buffer] : read) {
      scratch[name] = Buffer::Make(name.str() + "_tail", buffer->dtype, buffer->shape);
    }
    Stmt result = ReplaceBuffers(WithKind(s, LoopKind::kSerial), scratch);
    for (const auto& [name, buffer] : read) {
      Stmt copy = CopyNest(s, buffer, scratch[name]);
      result = MakeStmt(Alloc{scratch[name], MakeSeq({copy, result})});
    }
    return result;
  }

  // Returns the loops of s around `to[i] = from[i]`, which copy all elements of `from` that s reads.
  static Stmt CopyNest(const Stmt& s, const Buffer& from, const Buffer& to) {
    return RewriteStmt(s, [&](const Stmt& x) -> Stmt {
      if (const If* branch = x.As<If>()) return branch->then_body;
      if (const For* loop = x.As<For>()) return IsEmpty(loop->body) ? MakeSeq({}) : x;
      const Store* store = x.As<Store>();
      if (!store) return x;
      std::vector<Stmt> copies;
      Walk(store->value, [&](const Expr& e) {
        const Load* load = e.As<Load>();
        if (load && load->buffer->name == from->name) copies.push_back(MakeStmt(Store{to, load->indices, e}));
        return true;
      });
      return MakeSeq(std::move(copies));
    });
  }

  static Stmt WithKind(const Stmt& s, LoopKind kind) {
    return RewriteStmt(s, [&](const Stmt& x) {
      const For* loop = x.As<For>();
      if (!loop || !IsExpanded(*loop)) return x;
      return MakeStmt(For{loop->var, loop->extent, kind, loop->annotations, loop->body});
    });
  }

  // Replaces vectorized and unrolled loops: by serial loops, or by unrolled loops if they index register buffers.
  static Stmt Scalar(const Stmt& s) {
    return RewriteStmt(s, [](const Stmt& x) {
      const For* loop = x.As<For>();
      if (!loop || !IsExpanded(*loop)) return x;
      bool indexes_registers = false;
      ForEachAccess(loop->body, [&](const Buffer& b, const std::vector<Expr>& indices) {
        for (const Expr& i : indices) indexes_registers |= b->scope == Scope::kRegister && UsesVar(i, loop->var);
      });
      LoopKind kind = indexes_registers ? LoopKind::kUnrolled : LoopKind::kSerial;
      return kind == loop->kind ? x : MakeStmt(For{loop->var, loop->extent, kind, loop->annotations, loop->body});
    });
  }
};

}  // namespace

Result<PrimFunc> PartitionLoops(const PrimFunc& f, PassEnv&) {
  return WithBody(f, WithUniqueNames(Partitioner().Run(f.body, Analyzer())));
}

}  // namespace autotune
