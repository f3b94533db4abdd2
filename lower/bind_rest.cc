// bind_rest: binds the loop nests that no schedule has bound to threads, so that every program runs on a GPU. The
// result is right for all programs, but fast only for element-wise ones. Each element of a block's result belongs to
// one thread. Neighbouring threads take neighbouring iterations of the innermost loop, so that they access neighbouring
// memory. The scratch memory of a block becomes private to each thread.
#include "lower/bind_rest.h"

#include <algorithm>

#include "ir/linear_form.h"
#include "ir/threads.h"
#include "lower/passes.h"
#include "support/integer.h"

namespace autotune {
namespace {

// The loops around one block, outermost first, and the block. `block` is null if other statements stand between the
// loops.
struct Nest {
  std::vector<const For*> loops;
  const Block* block = nullptr;
};
Nest NestOf(const Stmt& s) {
  Nest nest;
  const Stmt* at = &s;
  while (const For* loop = at->As<For>()) {
    nest.loops.push_back(loop);
    at = &loop->body;
  }
  nest.block = at->As<Block>();
  return nest;
}

// Returns true if `binding`, a sum over loops, has a different value in each iteration of these loops, like i * 4 + j
// with four values of j.
bool IsMixedRadix(const Expr& binding, const std::map<Name, int64_t>& extents) {
  const LinearForm form = ToLinear(binding);
  if (form.Rest() || form.Huge()) return false;
  std::vector<std::pair<int64_t, int64_t>> digits;  // coefficient, extent
  for (const auto& [var, coefficient] : form.Variables()) {
    auto extent = extents.find(var);
    if (extent == extents.end() || coefficient < 0) return false;
    digits.emplace_back(coefficient, extent->second);
  }
  std::sort(digits.begin(), digits.end());
  int64_t reach = 0;  // largest sum of the digits with smaller coefficients
  for (const auto& [coefficient, extent] : digits) {
    if (coefficient <= reach) return false;
    reach += coefficient * (extent - 1);
  }
  return true;
}

// Returns true only if iterations with different values of `loop` write different elements. The test is that no
// reduction iterator uses the loop, and that a spatial iterator which uses it is a mixed-radix number. So the result
// may be false although the elements differ.
bool IsIndependent(const For& loop, const Block& block, const std::map<Name, int64_t>& extents) {
  bool apart = false;
  for (const Iter& iter : block.iters) {
    if (!UsesVar(iter.binding, loop.var)) continue;
    if (iter.kind == IterKind::kReduce) return false;
    apart |= IsMixedRadix(iter.binding, extents);
  }
  return apart;
}

// Makes parallel loops serial: in a kernel, only the loops over blocks and threads are parallel.
Stmt WithoutParallelLoops(const Stmt& s) {
  return RewriteStmt(s, [](const Stmt& x) {
    const For* loop = x.As<For>();
    if (!loop || loop->kind != LoopKind::kParallel) return x;
    return MakeStmt(For{loop->var, loop->extent, LoopKind::kSerial, loop->annotations, loop->body});
  });
}

class Binder {
 public:
  Binder(const Stmt& root, int64_t max_threads) : max_threads_(max_threads) {
    Walk(root, [&](const Stmt& s) {
      if (const For* loop = s.As<For>()) taken_.insert(loop->var);
      if (const Block* block = s.As<Block>()) {
        for (const Iter& iter : block->iters) taken_.insert(iter.var);
      }
      return true;
    });
  }

  Stmt Run(const Stmt& s) {
    if (const Seq* seq = s.As<Seq>()) {
      std::vector<Stmt> bound;
      for (const Stmt& child : seq->stmts) bound.push_back(Run(child));
      return MakeSeq(std::move(bound));
    }
    if (!HasThreads(s)) return Bind(s);
    const For* loop = s.As<For>();
    if ((!loop || !IsBound(loop->kind)) && !error)
      error = Err(loop ? "loop " + loop->var.str() : std::string("a statement"),
                  " is around a kernel of threads, but not bound to an axis itself");
    return s;
  }

  std::optional<Error> error;

 private:
  Stmt Bind(const Stmt& s) {
    const Nest nest = NestOf(s);
    std::vector<const For*> independent;
    std::map<Name, int64_t> extents;
    for (const For* loop : nest.loops) {
      if (const int64_t* extent = AsInt(loop->extent)) extents[loop->var] = *extent;
    }
    for (const For* loop : nest.loops) {
      if (nest.block && extents.contains(loop->var) && IsIndependent(*loop, *nest.block, extents))
        independent.push_back(loop);
    }
    int64_t count = 1;
    for (const For* loop : independent) count *= *AsInt(loop->extent);
    const Name block_var = Fresh("b"), thread_var = Fresh("t");
    auto launched = [&](const Stmt& body, int64_t blocks, int64_t threads) {
      const Stmt inside = MakeStmt(For{thread_var, Expr(threads), LoopKind::kThreadX, {}, WithoutParallelLoops(body)});
      return MakeStmt(For{block_var, Expr(blocks), LoopKind::kBlockX, {}, inside});
    };
    if (count <= 1) return launched(s, 1, 1);
    const int64_t threads = std::min({count, kUnboundThreads, max_threads_});
    const int64_t blocks = CeilDiv(count, threads);

    const Expr index = IndexVar(block_var) * Expr(threads) + IndexVar(thread_var);
    VarMap places;
    Expr left = index;  // quotient of the index by the extents of the loops further inside
    for (size_t i = independent.size(); i-- > 0;) {
      const int64_t extent = *AsInt(independent[i]->extent);
      places[independent[i]->var] = i == 0 ? left : FloorMod(left, Expr(extent));
      left = FloorDiv(left, Expr(extent));
    }
    Block block = *nest.block;
    for (Iter& iter : block.iters) iter.binding = Substitute(iter.binding, places);
    if (block.predicate) block.predicate = Substitute(block.predicate, places);
    if (count % threads != 0) {
      const Expr exists = index < Expr(count);
      block.predicate = block.predicate ? And(exists, block.predicate) : exists;
    }
    Stmt body = MakeStmt(std::move(block));
    for (size_t i = nest.loops.size(); i-- > 0;) {
      const For& loop = *nest.loops[i];
      if (std::find(independent.begin(), independent.end(), &loop) != independent.end()) continue;
      body = MakeStmt(For{loop.var, Substitute(loop.extent, places), loop.kind, loop.annotations, body});
    }
    return launched(body, blocks, threads);
  }

  Name Fresh(const std::string& stem) {
    std::string text = stem;
    for (int i = 2; !taken_.insert(Name(text)).second; ++i) text = stem + std::to_string(i);
    return Name(text);
  }

  const int64_t max_threads_;
  std::set<Name> taken_;
};

// How the blocks of a function use a temporary buffer.
struct Uses {
  std::set<Name> blocks;
  bool apart = false;  // a subscript uses an iterator of the block, or the block has reduction iterators
};

// Returns true if the expressions use an iterator of the block.
bool UsesIterator(const Block& block, const std::vector<Expr>& indices) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& e) {
    return std::any_of(block.iters.begin(), block.iters.end(), [&](const Iter& i) { return UsesVar(e, i.var); });
  });
}

std::map<Name, Uses> UsesOfBuffers(const Stmt& body) {
  std::map<Name, Uses> uses;
  Walk(body, [&](const Stmt& s) {
    const Block* block = s.As<Block>();
    if (!block) return true;
    const bool independent = std::all_of(block->iters.begin(), block->iters.end(),
                                         [](const Iter& i) { return i.kind == IterKind::kSpatial; });
    ForEachAccess(s, [&](const Buffer& buffer, const std::vector<Expr>& indices) {
      Uses& of = uses[buffer->name];
      of.blocks.insert(block->name);
      of.apart |= !independent || UsesIterator(*block, indices);
    });
    return false;
  });
  return uses;
}

// Gives each thread its own copy of scratch memory. Scratch memory is a temporary that only one block uses, with the
// same elements in all its instances. The instances are independent, so no instance needs values that another one has
// left there.
PrimFunc WithLocalScratch(PrimFunc f) {
  const std::map<Name, Uses> uses = UsesOfBuffers(f.body);
  BufferMap local;
  for (Buffer& buffer : f.allocs) {
    auto of = uses.find(buffer->name);
    if (buffer->scope != Scope::kGlobal || of == uses.end() || of->second.blocks.size() != 1 || of->second.apart)
      continue;
    buffer = WithScope(buffer, Scope::kLocal);
    local.emplace(buffer->name, buffer);
  }
  f.body = ReplaceBuffers(f.body, local);
  return f;
}

}  // namespace

Result<PrimFunc> BindRest(const PrimFunc& given, PassEnv& env) {
  const PrimFunc f = WithLocalScratch(given);
  Binder binder(f.body, env.target.max_threads);
  PrimFunc bound = WithBody(f, binder.Run(f.body));
  if (binder.error) return *std::move(binder.error);
  TRY(CheckThreads(bound));  // kernels share global memory only
  return bound;
}

}  // namespace autotune
