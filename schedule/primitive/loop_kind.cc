// parallel, vectorize, unroll, bind: these steps set the kind of a loop.
#include "ir/annotations.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

Status SetKind(State& state, const Path& path, LoopKind kind) {
  const For& loop = path.loop();
  if (loop.kind != LoopKind::kSerial && loop.kind != kind) {
    return Err("loop '", loop.var, "' is ", ToText(loop.kind), " already");
  }
  state.func.body = ReplaceTarget(path, MakeStmt(For{loop.var, loop.extent, kind, loop.annotations, loop.body}));
  return {};
}

}  // namespace

Status ApplyStep(State& state, Parallel& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  TRY(CheckIndependent(state, path.loop(), LoopKind::kParallel));
  for (const For* outer : path.Loops()) {
    if (outer->kind == LoopKind::kParallel) return {};
  }
  bool inner = false;
  Walk(path.loop().body, [&](const Stmt& s) {
    inner |= s.As<For>() && s.As<For>()->kind == LoopKind::kParallel;
    return true;
  });
  if (inner) return Err("there is a parallel loop inside loop '", step.loop, "'");
  return SetKind(state, path, LoopKind::kParallel);
}

Status ApplyStep(State& state, Vectorize& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  TRY(ConstExtent(path.loop()));
  bool innermost = true;
  Walk(path.loop().body, [&](const Stmt& s) {
    // The steps of a dot product belong to one instruction (ir/dot.h).
    innermost &= !s.As<For>() || s.As<For>()->annotations.contains(kDot);
    return innermost;
  });
  if (!innermost) return Err("loop '", step.loop, "' is not innermost; reorder it inwards to vectorize it");
  TRY(CheckIndependent(state, path.loop(), LoopKind::kVectorized));
  return SetKind(state, path, LoopKind::kVectorized);
}

Status ApplyStep(State& state, Unroll& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  TRY(ConstExtent(path.loop()));
  return SetKind(state, path, LoopKind::kUnrolled);
}

// Legal for a serial loop of constant extent, if the program then keeps the rules for programs of threads. The rules
// are checked after this and every later step (schedule/threads.cc).
Status ApplyStep(State& state, Bind& step) {
  Path path = TRY(FindLoop(state.func.body, step.loop));
  TRY(ConstExtent(path.loop()));
  TRY(SetKind(state, path, step.axis));
  state.has_threads = true;
  return {};
}

}  // namespace autotune::schedule
