// merge_threads: merges the thread loops of a kernel into one nest around everything that the threads do. Inserts a
// barrier before a stage that reads or overwrites what another thread wrote. Stages are compared by buffers, not by
// elements, since buffers shrink in a later pass, which decides which elements share memory. So a serial loop outside
// the thread loops that fills a buffer piece by piece gets too many barriers. Such a loop belongs inside the thread
// loops.
#include "ir/threads.h"

#include <algorithm>

#include "lower/passes.h"

namespace autotune {
namespace {

// The buffers in memory of several threads that a statement reads and writes.
struct Touched {
  std::set<Name> reads, writes;

  // Adds the buffers of `other`. Returns true if one of them is new.
  bool Add(const Touched& other) {
    const size_t before = reads.size() + writes.size();
    reads.insert(other.reads.begin(), other.reads.end());
    writes.insert(other.writes.begin(), other.writes.end());
    return reads.size() + writes.size() > before;
  }
  bool Conflicts(const Touched& other) const {
    auto meet = [](const std::set<Name>& a, const std::set<Name>& b) {
      return std::any_of(a.begin(), a.end(), [&](const Name& n) { return b.contains(n); });
    };
    return meet(writes, other.writes) || meet(writes, other.reads) || meet(reads, other.writes);
  }
};

bool IsSeen(const Buffer& buffer) { return buffer->scope == Scope::kShared || buffer->scope == Scope::kGlobal; }

Touched TouchedBy(const Stmt& s) {
  Touched touched;
  Walk(
      s,
      [&](const Stmt& x) {
        const Store* store = x.As<Store>();
        if (store && IsSeen(store->buffer)) touched.writes.insert(store->buffer->name);
        return true;
      },
      [&](const Expr& x) {
        const Load* load = x.As<Load>();
        if (load && IsSeen(load->buffer)) touched.reads.insert(load->buffer->name);
        return true;
      });
  return touched;
}

bool HasThreadLoops(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= x.As<For>() && IsThreadAxis(x.As<For>()->kind);
    return !found;
  });
  return found;
}

bool DeclaresShared(const Stmt& s) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= x.As<Alloc>() && x.As<Alloc>()->buffer->scope == Scope::kShared;
    return !found;
  });
  return found;
}

class Merger {
 public:
  std::optional<Error> error;

  Stmt Run(const Stmt& s) {
    const For* loop = s.As<For>();
    if (loop && IsBound(loop->kind)) return Kernel(s);
    return MapChildren(
        s, [&](const Stmt& child) { return Run(child); }, nullptr);
  }

 private:
  Stmt Kernel(const Stmt& s) {
    const For* loop = s.As<For>();
    if (loop && IsBlockAxis(loop->kind)) {
      return MakeStmt(For{loop->var, loop->extent, loop->kind, loop->annotations, Kernel(loop->body)});
    }
    axes_.clear();
    Walk(s, [&](const Stmt& x) {
      const For* inner = x.As<For>();
      if (inner && IsThreadAxis(inner->kind)) axes_.emplace(inner->kind, *inner);
      return true;
    });
    if (axes_.empty()) {  // each block is one thread
      return MakeStmt(For{Name("t"), Expr(1), LoopKind::kThreadX, {}, s});
    }
    pending_ = {};
    Stmt body = Emit(s, {});
    for (const auto& [axis, first] : axes_) body = MakeStmt(For{first.var, first.extent, axis, {}, body});
    return body;
  }

  bool DiffersBetweenThreads(const Expr& e) const {
    return std::any_of(axes_.begin(), axes_.end(), [&](const auto& a) { return UsesVar(e, a.second.var); });
  }
  void Fail(std::string_view message) {
    if (!error) error = Err(message);
  }

  // Returns the part of s that one thread runs. `inside`: the axes of the thread loops around s.
  Stmt Emit(const Stmt& s, const std::set<LoopKind>& inside) {
    if (inside.size() == axes_.size() || !HasThreadLoops(s)) return Stage(s, inside);
    if (const For* loop = s.As<For>()) {
      if (!IsThreadAxis(loop->kind)) return EmitLoop(*loop, inside);
      std::set<LoopKind> within = inside;
      within.insert(loop->kind);
      return Emit(Substitute(loop->body, {{loop->var, VarOf(axes_.at(loop->kind).var, loop->extent.dtype())}}), within);
    }
    if (const Seq* seq = s.As<Seq>()) {
      std::vector<Stmt> stmts;
      for (const Stmt& child : seq->stmts) stmts.push_back(Emit(child, inside));
      return MakeSeq(std::move(stmts));
    }
    if (const If* branch = s.As<If>()) {
      if (HasNode<Load>(branch->condition)) Fail("a value in memory decides whether a loop over threads runs");
      bool differs = DiffersBetweenThreads(branch->condition);
      Touched before = pending_;
      divergent_ += differs;
      Stmt then_body = Emit(branch->then_body, inside), else_body;
      Touched after = std::exchange(pending_, before);
      if (branch->else_body) else_body = Emit(branch->else_body, inside);
      divergent_ -= differs;
      pending_.Add(after);
      return MakeStmt(If{branch->condition, then_body, else_body});
    }
    Fail("a loop over threads is in the scope of a `local` or a `let`");
    return s;
  }

  // An iteration follows the statements before the loop or another iteration, so the pending accesses at its beginning
  // are the union of both.
  Stmt EmitLoop(const For& loop, const std::set<LoopKind>& inside) {
    if (HasNode<Load>(loop.extent)) Fail("a value in memory decides whether a loop over threads runs");
    bool differs = DiffersBetweenThreads(loop.extent);
    divergent_ += differs;
    const std::optional<Error> earlier = error;
    Touched before = pending_, start = pending_;
    Stmt body;
    do {
      error = earlier;
      pending_ = start;
      body = Emit(loop.body, inside);
    } while (start.Add(pending_));
    divergent_ -= differs;
    const int64_t* extent = AsInt(loop.extent);
    if (!extent || *extent < 1) pending_.Add(before);
    return MakeStmt(For{loop.var, loop.extent, loop.kind, loop.annotations, body});
  }

  // Emits a stage, within which no thread needs the results of another, with a barrier before it if necessary. If no
  // loop over an axis is around the stage, only the threads with index 0 on this axis run it.
  Stmt Stage(const Stmt& s, const std::set<LoopKind>& inside) {
    if (DeclaresShared(s)) Fail("a shared buffer is declared inside a kernel");
    Touched touched = TouchedBy(s);
    bool wait = pending_.Conflicts(touched);
    if (wait) pending_ = {};
    pending_.Add(touched);
    if (wait && divergent_ > 0) {
      Fail("threads would have to wait for each other under a condition that differs between them");
    }
    Stmt stage = s;
    for (const auto& [axis, first] : axes_) {
      if (inside.contains(axis)) continue;
      stage =
          MakeStmt(If{Eq(VarOf(first.var, first.extent.dtype()), IntConst(0, first.extent.dtype())), stage, Stmt()});
    }
    return wait ? MakeSeq({MakeBarrier(), stage}) : stage;
  }

  std::map<LoopKind, For> axes_;  // the first loop over each axis; its variable replaces the variables of later ones
  Touched pending_;               // accesses since the last barrier
  int divergent_ = 0;             // enclosing conditions and extents that differ between threads
};

}  // namespace

Result<PrimFunc> MergeThreads(const PrimFunc& f, PassEnv&) {
  if (HasBarrier(f.body)) return Err("the program has barriers already, so its stages cannot be found");
  Merger merger;
  Stmt body = merger.Run(f.body);
  if (merger.error) return std::move(*merger.error);
  return WithBody(f, WithUniqueNames(body));
}

}  // namespace autotune
