// pipeline_loops: software-pipelines loops that copy tiles to shared memory and compute with them. The copies run
// stages - 1 iterations ahead, into versions of the buffers that take turns, so that copies and computation overlap.
// One barrier per iteration is enough. It separates earlier copies from their readers, and the readers of a version in
// the previous iteration from the copies that overwrite this version.
//
//   for k in K {                       for k in S - 1 { s[k, ..] = async(x[k, ..]); commit }
//     barrier                          for k in K {
//     s[..] = x[k, ..]         ->        wait for all groups but S - 2
//     barrier                            barrier
//     .. s[..] ..                        if k + S - 1 < K { s[(k + S - 1) % S, ..] = async(x[k + S - 1, ..]) }
//   }                                    commit
//                                        .. s[k % S, ..] ..
//                                      }
//
// Each iteration commits one group of copies, an empty group at the end. So the number of groups that may be unfinished
// at the wait is constant. Targets without asynchronous copies copy synchronously, without groups.
#include <algorithm>

#include "ir/annotations.h"
#include "ir/threads.h"
#include "lower/passes.h"

namespace autotune {
namespace {

// Returns the buffers with an additional first dimension of extent `stages`.
BufferMap WithVersions(const std::set<Name>& names, const Stmt& users, int64_t stages) {
  BufferMap versions;
  auto add = [&](const Buffer& b) {
    if (!names.contains(b->name) || versions.contains(b->name)) return;
    std::vector<Expr> shape = {Expr(stages)};
    shape.insert(shape.end(), b->shape.begin(), b->shape.end());
    std::vector<DimAlign> aligned = b->dim_align;
    for (DimAlign& align : aligned) ++align.dim;
    versions.emplace(b->name, WithDimAlign(WithShape(b, std::move(shape)), std::move(aligned)));
  };
  ForEachStore(users, [&](const Store& store) { add(store.buffer); });
  return versions;
}

// Redirects the accesses to the buffers to the version `version`.
Stmt InVersion(const Stmt& s, const BufferMap& versions, const Expr& version) {
  auto indices = [&](const std::vector<Expr>& old) {
    std::vector<Expr> all = {version};
    all.insert(all.end(), old.begin(), old.end());
    return all;
  };
  return RewriteStmt(
      s,
      [&](const Stmt& x) {
        const Store* store = x.As<Store>();
        auto it = store ? versions.find(store->buffer->name) : versions.end();
        return it == versions.end() ? x : MakeStmt(Store{it->second, indices(store->indices), store->value});
      },
      [&](const Expr& x) {
        const Load* load = x.As<Load>();
        auto it = load ? versions.find(load->buffer->name) : versions.end();
        return it == versions.end() ? x : MakeLoad(it->second, indices(load->indices));
      });
}

// The parts of a loop's body.
struct Parts {
  std::vector<Buffer> allocs;  // Allocs around the other parts, outermost first
  Stmt copies, rest;
  std::set<Name> filled;  // buffers that the copies write
  bool exchange = true;   // threads read elements that others copy, so barriers separate copies and reads
};

class LoopPipeliner {
 public:
  LoopPipeliner(const Stmt& kernel, bool async) : kernel_(kernel), async_(async) {}
  std::optional<Error> error;
  BufferMap versions;  // by old name; Run does not replace the Allocs, its caller does

  Stmt Run(const Stmt& s) {
    const For* loop = s.As<For>();
    if (!loop)
      return MapChildren(
          s, [&](const Stmt& child) { return Run(child); }, nullptr);
    const bool repeats = !IsBound(loop->kind) && !IsConst(loop->extent, 1);
    repeated_ += repeats;
    Annotations others = loop->annotations;
    auto stages = others.find(kPipeline);
    const int64_t asked = stages == others.end() ? 1 : stages->second;
    others.erase(kPipeline);
    Stmt body = Run(loop->body);
    repeated_ -= repeats;
    For plain{loop->var, loop->extent, loop->kind, std::move(others), std::move(body)};
    const int64_t* extent = AsInt(loop->extent);
    // More versions than iterations have no use.
    if (asked < 2 || (extent && *extent < 2)) return MakeStmt(std::move(plain));
    return Pipelined(plain, extent ? std::min(asked, *extent) : asked);
  }

 private:
  Stmt Fail(const For& loop, const std::string& why) {
    if (!error) error = Err("loop ", loop.var, " cannot be pipelined: ", why);
    return MakeStmt(loop);
  }

  // Splits the loop's body at the barrier between the copies and the computation. Returns an empty text, or the reason
  // why the body cannot be split.
  std::string Split(const For& loop, Parts& parts) const {
    Stmt body = loop.body;
    for (; body.As<Alloc>(); body = body.As<Alloc>()->body) parts.allocs.push_back(body.As<Alloc>()->buffer);
    const Seq* seq = body.As<Seq>();
    if (!seq) return "its body is one statement";
    const std::vector<Stmt>& stmts = seq->stmts;
    const auto first = stmts.begin() + IsBarrier(stmts[0]);
    auto middle = std::find_if(first, stmts.end(), IsBarrier);
    // Without barriers each thread reads only its own copies. A barrier inside a loop after the copies stays there.
    parts.exchange = HasBarrier(body);
    const bool between = middle != stmts.end();
    if (!between) middle = std::find_if_not(first, stmts.end(), FillsShared);
    if (middle == first || middle == stmts.end()) return "it does not begin with copies into shared memory";
    parts.copies = MakeSeq({first, middle});
    parts.rest = MakeSeq({middle + between, stmts.end()});
    return HasBarrier(parts.copies) ? "a barrier is nested inside the copies at the beginning of its body"
                                    : CheckParts(parts);
  }

  static bool FillsShared(const Stmt& s) {
    bool any = false, only = true;
    ForEachStore(s, [&](const Store& store) {
      any = true;
      only = only && store.buffer->scope == Scope::kShared;
    });
    return any && only;
  }

  std::string CheckParts(Parts& parts) const {
    std::string wrong;
    ForEachStore(parts.copies, [&](const Store& store) {
      if (store.buffer->scope != Scope::kShared)
        wrong = "a copy writes " + store.buffer->name.str() + ", which is not shared";
      parts.filled.insert(store.buffer->name);
    });
    ForEachLoad(parts.copies, [&](const Load& load) {
      if (StoresTo(kernel_, load.buffer->name))
        wrong = "a copy reads " + load.buffer->name.str() + ", which the kernel writes";
    });
    for (const Name& name : parts.filled) {
      if (StoresTo(parts.rest, name)) wrong = name.str() + " is written after the copies, too";
      auto touches = [&](const Stmt& s) { return CountAccesses(s, name); };
      if (touches(kernel_) != touches(parts.copies) + touches(parts.rest))
        wrong = name.str() + " is used outside of it";
    }
    return parts.filled.empty() ? "there are no copies" : wrong;
  }

  static int CountAccesses(const Stmt& s, const Name& buffer) {
    int count = 0;
    ForEachStore(s, [&](const Store& store) { count += store.buffer->name == buffer; });
    ForEachLoad(s, [&](const Load& load) { count += load.buffer->name == buffer; });
    return count;
  }

  // Returns the copies of iteration `iteration`, asynchronous if the target can do so.
  Stmt Copies(const Parts& parts, const For& loop, const Expr& iteration, const Expr& version) {
    Stmt copies = InVersion(Substitute(parts.copies, {{loop.var, iteration}}), versions, version);
    if (!async_) return copies;
    return RewriteStmt(copies, [&](const Stmt& s) {
      const Store* store = s.As<Store>();
      if (!store || !CopiedLoad(store->value)) return s;
      return MakeStmt(Store{store->buffer, store->indices, MakeCall(Op::kAsync, {store->value})});
    });
  }

  Stmt Pipelined(const For& loop, int64_t stages) {
    Parts parts;
    if (loop.kind != LoopKind::kSerial) return Fail(loop, "it is " + std::string(ToText(loop.kind)));
    if (!AsInt(loop.extent)) return Fail(loop, "its extent is not a constant");
    if (const std::string wrong = Split(loop, parts); !wrong.empty()) return Fail(loop, wrong);
    const BufferMap made = WithVersions(parts.filled, parts.copies, stages);
    versions.insert(made.begin(), made.end());

    const Expr k = IndexVar(loop.var), ahead = k + Expr(stages - 1), version = IndexVar(loop.var.str() + "_version"),
               next = IndexVar(loop.var.str() + "_next");
    std::vector<Stmt> first = {Copies(parts, loop, k, k)};
    Stmt copy = MakeStmt(Let{next.As<Var>()->name, FloorMod(ahead, Expr(stages)), Copies(parts, loop, ahead, next)});
    std::vector<Stmt> body = {MakeStmt(If{ahead < loop.extent, std::move(copy), Stmt()})};
    if (parts.exchange) body.insert(body.begin(), MakeBarrier());
    bool any = false;
    Walk(first[0], [&](const Stmt& s) { return any |= IsAsyncStore(s), !any; });
    if (any) {
      first.push_back(MakeAsyncCommit());
      body.insert(body.begin(), MakeAsyncWait(stages - 2));
      body.push_back(MakeAsyncCommit());
    }
    Stmt rest = InVersion(parts.rest, versions, version);
    for (size_t i = parts.allocs.size(); i-- > 0;) rest = MakeStmt(Alloc{parts.allocs[i], std::move(rest)});
    body.push_back(MakeStmt(Let{version.As<Var>()->name, FloorMod(k, Expr(stages)), std::move(rest)}));

    std::vector<Stmt> all;
    // Adds a barrier before a loop that runs several times, unless its length is a multiple of the stages. Without it,
    // the first copies could overwrite the last version while other threads still read it in the previous run. All
    // other versions were read before the last barrier.
    if (parts.exchange && repeated_ > 0 && *AsInt(loop.extent) % stages != 0) all.push_back(MakeBarrier());
    all.push_back(MakeStmt(For{loop.var, Expr(stages - 1), LoopKind::kSerial, {}, MakeSeq(std::move(first))}));
    all.push_back(MakeStmt(For{loop.var, loop.extent, loop.kind, loop.annotations, MakeSeq(std::move(body))}));
    return MakeSeq(std::move(all));
  }

  const Stmt kernel_;
  const bool async_;
  int repeated_ = 0;  // number of enclosing loops of the kernel that have several iterations
};

}  // namespace

Result<PrimFunc> PipelineLoops(const PrimFunc& f, PassEnv& env) {
  bool any = false;
  Walk(f.body, [&](const Stmt& s) { return any |= s.As<For>() && s.As<For>()->annotations.contains(kPipeline), !any; });
  if (!any) return f;  // the usual case; a walk is cheaper than a rewrite
  std::optional<Error> error;
  const std::function<Stmt(const Stmt&)> run = [&](const Stmt& s) -> Stmt {
    const For* loop = s.As<For>();
    if (!loop || !IsBound(loop->kind)) return MapChildren(s, run, nullptr);
    LoopPipeliner pipeliner(s, env.target.has_async_copies);
    Stmt kernel = pipeliner.Run(s);
    if (pipeliner.error && !error) error = std::move(pipeliner.error);
    return RewriteStmt(kernel, [&](const Stmt& x) {
      const Alloc* alloc = x.As<Alloc>();
      auto it = alloc ? pipeliner.versions.find(alloc->buffer->name) : pipeliner.versions.end();
      return it == pipeliner.versions.end() ? x : MakeStmt(Alloc{it->second, alloc->body});
    });
  };
  const Stmt body = run(f.body);
  if (error) return std::move(*error);
  return WithBody(f, WithUniqueNames(body));
}

}  // namespace autotune
