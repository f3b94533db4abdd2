// overlap_rows: software-pipelines the passes over a row. The last pass of a row waits for memory, while the expensive
// pass of the next row is arithmetic. So the last pass moves from its iteration into the next one, into a loop of the
// same length there, and the two overlap:
//
//   for r in R @{overlap=1}: { A(r); for j: E(r, j); S(r); for k: C(r, k) }
//     ->  A(0); for j: E(0, j); S(0)
//         for r in R - 1: { A(r + 1); for j: { E(r + 1, j); C(r, j) }; S(r + 1) }
//         for k: C(R - 1, k)
//
// A buffer of the row that C reads exists twice, and the rows use the two copies in turns.
#include <algorithm>

#include "ir/annotations.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// Returns the loop `s`, or the loop inside `s` if `s` is a nest of loops with one iteration; null if there is none.
const For* LoopIn(const Stmt& s) {
  const For* loop = s.As<For>();
  return loop && IsConst(loop->extent, 1) ? LoopIn(loop->body) : loop;
}

// Returns true if only one branch of some condition stores to the buffer.
bool StoresSometimes(const Stmt& s, const Name& buffer) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    const If* branch = x.As<If>();
    if (branch) {
      const bool then_stores = StoresTo(branch->then_body, buffer);
      found |= then_stores != (branch->else_body && StoresTo(branch->else_body, buffer));
    }
    return !found;
  });
  return found;
}

bool HasKind(const Stmt& s, const std::function<bool(const Stmt&)>& is_it) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= is_it(x);
    return !found;
  });
  return found;
}

Expr Shifted(const Expr& index, const Expr& by) {
  if (const Ramp* ramp = index.As<Ramp>()) return MakeRamp(ramp->base + by, ramp->stride, index.dtype().lanes);
  return index.dtype().lanes == 1 ? index + by : index + MakeBroadcast(by, index.dtype().lanes);
}

// Moves the accesses of the doubled buffers to half `half` (0 or 1).
Stmt InHalf(const Stmt& s, const BufferMap& doubled, const Expr& half) {
  auto moved = [&](const Buffer& from, const Expr& index) { return Shifted(index, half * Expr(ConstShape(from)[0])); };
  return RewriteStmt(
      s,
      [&](const Stmt& x) {
        const Store* store = x.As<Store>();
        auto it = store ? doubled.find(store->buffer->name) : doubled.end();
        if (it == doubled.end()) return x;
        return MakeStmt(Store{it->second, {moved(store->buffer, store->indices[0])}, store->value});
      },
      [&](const Expr& e) {
        const Load* load = e.As<Load>();
        auto it = load ? doubled.find(load->buffer->name) : doubled.end();
        return it == doubled.end() ? e : MakeLoad(it->second, {moved(load->buffer, load->indices[0])});
      });
}

class RowPasses {
 public:
  // `taken`: the names of all buffers.
  RowPasses(const For& loop, const std::set<Name>& taken) : loop_(loop), taken_(taken) {
    Stmt body = loop.body;
    while (const Alloc* alloc = body.As<Alloc>()) {
      allocs_.push_back(alloc->buffer);
      body = alloc->body;
    }
    if (const Seq* seq = body.As<Seq>()) stmts_ = seq->stmts;
  }

  // Returns the pipelined loop; nothing if the loop does not have the form that is described above.
  std::optional<Stmt> Pipelined() {
    const int64_t* rows = AsInt(loop_.extent);
    if (!rows || *rows < 2 || stmts_.size() < 2 || loop_.kind != LoopKind::kSerial) return std::nullopt;
    const For* last = LoopIn(stmts_.back());
    if (!last || !AsInt(last->extent) || last->kind != LoopKind::kSerial || !FindCrossing()) return std::nullopt;
    // Finds a loop of the same length that writes a buffer which the last pass reads.
    size_t host = stmts_.size();
    for (size_t i = 0; i + 1 < stmts_.size(); ++i) {
      const For* loop = LoopIn(stmts_[i]);
      if (!loop || !Equal(loop->extent, last->extent) || loop->kind != LoopKind::kSerial) continue;
      if (std::any_of(crossing_.begin(), crossing_.end(), [&](const auto& b) { return StoresTo(stmts_[i], b.first); }))
        host = i;
    }
    if (host == stmts_.size()) return std::nullopt;

    const Expr row = IndexVar(loop_.var), next = row + Expr(1);
    auto at = [&](const Stmt& s, const Expr& r) {
      return Substitute(InHalf(s, crossing_, FloorMod(row, Expr(2))), {{loop_.var, r}});
    };
    std::vector<Stmt> first, body;
    for (size_t i = 0; i + 1 < stmts_.size(); ++i) {
      first.push_back(at(stmts_[i], Expr(0)));
      if (i != host) {
        body.push_back(at(stmts_[i], next));
        continue;
      }
      const For& loop = *LoopIn(stmts_[i]);
      Stmt inside = Substitute(OnlyIterations(stmts_.back()), {{last->var, IndexVar(loop.var)}});
      body.push_back(MakeStmt(For{loop.var, loop.extent, loop.kind, loop.annotations,
                                  MakeSeq({OnlyIterations(at(stmts_[i], next)), at(inside, row)})}));
    }
    Stmt all = MakeSeq({InAllocs(MakeSeq(std::move(first))),
                        MakeStmt(For{loop_.var, Expr(*rows - 1), loop_.kind, {}, InAllocs(MakeSeq(std::move(body)))}),
                        at(stmts_.back(), Expr(*rows - 1))});
    for (const Buffer& buffer : allocs_) {
      if (auto it = crossing_.find(buffer->name); it != crossing_.end()) all = MakeStmt(Alloc{it->second, all});
    }
    return all;
  }

 private:
  // Returns the body of the loop that LoopIn finds. The variables of the loops of one iteration around it become 0.
  static Stmt OnlyIterations(const Stmt& s) {
    const For& loop = *s.As<For>();
    return IsConst(loop.extent, 1) ? OnlyIterations(Substitute(loop.body, {{loop.var, Expr(0)}})) : loop.body;
  }

  Stmt InAllocs(Stmt body) const {
    for (size_t i = allocs_.size(); i-- > 0;) {
      if (!crossing_.contains(allocs_[i]->name)) body = MakeStmt(Alloc{allocs_[i], std::move(body)});
    }
    return body;
  }

  // Finds the buffers of the row that the last pass reads; these double in size. Returns false if there are none, or if
  // the last pass must not be delayed:
  // - if it holds an Alloc, a Let or an Evaluate, or writes a buffer of the row;
  // - if another pass of the row accesses a buffer that it writes;
  // - if it reads a buffer from outside the row that a pass of the row writes;
  // - if it reads a buffer of the row that only some rows write, or that is in registers, aligned or not flat.
  bool FindCrossing() {
    const Stmt& last = stmts_.back();
    auto own = [&](const Name& name) {
      return std::find_if(allocs_.begin(), allocs_.end(), [&](const Buffer& b) { return b->name == name; });
    };
    bool may = !HasKind(last, [&](const Stmt& s) {
      const Store* store = s.As<Store>();
      if (!store) return s.As<Alloc>() || s.As<Let>() || s.As<Evaluate>();
      if (own(store->buffer->name) != allocs_.end()) return true;
      bool used = false;
      for (size_t i = 0; i + 1 < stmts_.size(); ++i) {
        used |= TouchesBuffer(stmts_[i], [&](const Buffer& b) { return b->name == store->buffer->name; });
      }
      return used;
    });
    ForEachLoad(last, [&](const Load& load) {
      auto it = own(load.buffer->name);
      if (it == allocs_.end()) {
        for (const Stmt& s : stmts_) may = may && !StoresTo(s, load.buffer->name);
      } else if ((*it)->scope != Scope::kGlobal || !(*it)->dim_align.empty() || (*it)->shape.size() != 1) {
        may = false;
      } else {
        // If only some rows write the buffer, other rows may read the values of an earlier row.
        for (const Stmt& s : stmts_) may = may && !StoresSometimes(s, load.buffer->name);
        crossing_[load.buffer->name] =
            Buffer::Make(Unused(load.buffer->name), (*it)->dtype, {Expr(2 * ConstShape(*it)[0])}, (*it)->scope);
      }
    });
    return may && !crossing_.empty();
  }

  Name Unused(const Name& buffer) const {
    std::string name = buffer.str() + "_turns";
    while (taken_.contains(Name(name))) name += "_";
    return Name(name);
  }

  const For& loop_;
  const std::set<Name>& taken_;
  std::vector<Buffer> allocs_;
  std::vector<Stmt> stmts_;
  BufferMap crossing_;
};

}  // namespace

Result<PrimFunc> OverlapRows(const PrimFunc& f, PassEnv&) {
  std::set<Name> taken;
  for (const Param& p : f.params) taken.insert(p.buffer->name);
  bool any = false;
  Walk(f.body, [&](const Stmt& s) {
    if (const Alloc* alloc = s.As<Alloc>()) taken.insert(alloc->buffer->name);
    const For* loop = s.As<For>();
    any |= loop && loop->annotations.contains(kOverlap);
    return true;
  });
  if (!any) return f;  // the usual case; a walk is cheaper than a rewrite
  return WithBody(f, WithUniqueNames(RewriteStmt(f.body, [&](const Stmt& s) {
                    const For* loop = s.As<For>();
                    if (!loop || !loop->annotations.contains(kOverlap)) return s;
                    if (std::optional<Stmt> pipelined = RowPasses(*loop, taken).Pipelined()) return *pipelined;
                    Annotations others = loop->annotations;
                    others.erase(kOverlap);
                    return MakeStmt(For{loop->var, loop->extent, loop->kind, std::move(others), loop->body});
                  })));
}

}  // namespace autotune
