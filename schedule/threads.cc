// Checks the rules that every step must keep in a program of threads: the rules of ir/threads.h, independent iterations
// of bound loops, and that only one thread accesses each element of a local or register buffer.
#include <map>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

struct ThreadAccess {
  Name block;
  std::vector<const For*> loops;    // around the block, outermost first
  std::vector<LinearForm> indices;  // in terms of the loops' variables
};

std::vector<ThreadAccess> AccessesOf(const PrimFunc& func, const Buffer& buffer) {
  std::vector<ThreadAccess> accesses;
  ForEachBlock(func.body, [&](const Block& block, const std::vector<const For*>& loops) {
    VarMap bindings;
    VarMap zeros;  // loops of one iteration
    for (const For* loop : loops) {
      if (IsConst(loop->extent, 1)) zeros[loop->var] = Expr(0);
    }
    for (const Iter& iter : block.iters) bindings[iter.var] = Substitute(iter.binding, zeros);
    auto add = [&](const std::vector<Expr>& indices) {
      ThreadAccess access{block.name, loops, {}};
      for (const Expr& index : indices)
        access.indices.push_back(Normalize(Substitute(index, bindings), RangesOf(loops)));
      accesses.push_back(std::move(access));
    };
    ForEachStore(block, [&](const Store& s) {
      if (s.buffer->name == buffer->name) add(s.indices);
    });
    ForEachLoad(block, [&](const Load& l) {
      if (l.buffer->name == buffer->name) add(l.indices);
    });
  });
  return accesses;
}

// Describes an index as the sum  fixed + turns * (step * threads) + step * thread + rest,  where the rest is within
// [low, high] and `threads` is the number of threads along the axis. `fixed` depends only on loops that are around all
// accesses. `turns` is not stored, since the index modulo step * threads determines the thread.
struct ThreadDigit {
  LinearForm fixed;
  int64_t step = 0, low = 0, high = 0;
};

std::optional<ThreadDigit> ThreadDigitOf(const LinearForm& index, const LoopRange& loop, const Ranges& common,
                                         const Ranges& inner) {
  const Name& thread = loop.var;
  ThreadDigit digit;
  digit.fixed.constant = index.constant;
  const int64_t turn = index.Coefficient(thread) * loop.extent;
  LinearForm rest;
  for (const LinearForm::Term& t : index.terms) {
    const Var* var = t.atom.As<Var>();
    if (var && var->name == thread) {
      digit.step = t.coefficient;
    } else if (UsesVar(t.atom, thread)) {
      return std::nullopt;
    } else if (UsesAny(t.atom, inner)) {
      if (turn == 0 || t.coefficient % turn != 0) rest.terms.emplace_back(t);
    } else {
      digit.fixed.terms.emplace_back(t);
    }
  }
  std::optional<Bounds> spread = BoundsOf(rest, Concat(common, inner));
  if (digit.step == 0 || !spread) return std::nullopt;
  digit.low = spread->low, digit.high = spread->high;
  return digit;
}

const For* LoopOver(const std::vector<const For*>& loops, size_t from, LoopKind axis) {
  for (size_t i = from; i < loops.size(); ++i) {
    if (loops[i]->kind == axis) return loops[i];
  }
  return nullptr;
}

// Returns true if every element is accessed by only one thread along the axis: the index in some dimension determines
// the thread, in the same way for all accesses. The first `shared` loops are around all accesses.
bool TellsThreads(const std::vector<ThreadAccess>& accesses, size_t shared, LoopKind axis) {
  const std::vector<const For*>& loops = accesses[0].loops;
  Ranges common = RangesOf({loops.begin(), loops.begin() + static_cast<int64_t>(shared)});
  for (size_t d = 0; d < accesses[0].indices.size(); ++d) {
    std::optional<ThreadDigit> all;
    bool same = true;
    for (const ThreadAccess& access : accesses) {
      const For* loop = LoopOver(access.loops, shared, axis);
      if (!loop) return false;
      Ranges inner = RangesOf({access.loops.begin() + static_cast<int64_t>(shared), access.loops.end()});
      if (inner.size() != access.loops.size() - shared) return false;  // a symbolic extent
      std::optional<ThreadDigit> digit =
          ThreadDigitOf(access.indices[d], {loop->var, *AsInt(loop->extent)}, common, inner);
      if (!digit) {
        same = false;
        break;
      }
      if (!all) {
        all = digit;
        continue;
      }
      LinearForm distance = digit->fixed;
      distance.Add(all->fixed, -1);
      same = same && distance.IsConst() && digit->step == all->step;
      all->low = std::min(all->low, digit->low + distance.constant);
      all->high = std::max(all->high, digit->high + distance.constant);
    }
    if (same && all && all->high - all->low < std::abs(all->step)) return true;
  }
  return false;
}

// Checks that each element of a local or register buffer is accessed by one thread only.
Status CheckOneThread(const PrimFunc& func, const Buffer& buffer) {
  std::vector<ThreadAccess> accesses = AccessesOf(func, buffer);
  if (accesses.empty()) return {};
  size_t shared = accesses[0].loops.size();
  std::map<LoopKind, const For*> axes;  // axes whose loops are not around all accesses
  for (const ThreadAccess& access : accesses) {
    size_t n = 0;
    while (n < shared && n < access.loops.size() && access.loops[n] == accesses[0].loops[n]) ++n;
    shared = n;
  }
  for (const ThreadAccess& access : accesses) {
    for (size_t i = shared; i < access.loops.size(); ++i) {
      if (IsThreadAxis(access.loops[i]->kind)) axes.emplace(access.loops[i]->kind, access.loops[i]);
    }
  }
  for (const auto& [axis, loop] : axes) {
    if (IsConst(loop->extent, 1) || TellsThreads(accesses, shared, axis)) continue;
    return Err("buffer '", buffer->name, "' is ", ToText(buffer->scope), ", but threads of different ", ToText(axis),
               " may touch the same element of it");
  }
  return {};
}

}  // namespace

Status CheckProgramOfThreads(const State& state) {
  TRY(CheckThreads(state.func));
  Status independent;
  Walk(state.func.body, [&](const Stmt& s) {
    const For* loop = s.As<For>();
    if (loop && IsBound(loop->kind) && independent.ok()) independent = CheckIndependent(state, *loop, loop->kind);
    return independent.ok() && !s.As<Block>();
  });
  TRY(std::move(independent));
  for (const Buffer& buffer : state.func.allocs) {
    if (buffer->scope == Scope::kLocal || buffer->scope == Scope::kRegister) TRY(CheckOneThread(state.func, buffer));
  }
  return {};
}

}  // namespace autotune::schedule
