// tensor_core: marks the loops of a matrix product that the threads of a warp compute together.
#include "ir/annotations.h"
#include "ir/mma.h"
#include "schedule/region.h"

namespace autotune::schedule {

// Legal if step.loop and the loops inside it have the form that ir/mma.h describes, around one block. Only adds an
// annotation to step.loop.
Status ApplyStep(State& state, TensorCore& step) {
  const Path path = TRY(FindLoop(state.func.body, step.loop));
  const std::string what = "loop '" + step.loop.str() + "' cannot run on tensor cores: ";
  std::vector<const For*> nest = {&path.loop()};
  while (const For* inner = nest.back()->body.As<For>()) nest.push_back(inner);
  const Block* block = nest.back()->body.As<Block>();
  if (!block || block->init || block->predicate)
    return Err(what, "it is not around exactly one block without guard and initialisation");
  VarMap bindings;
  for (const Iter& iter : block->iters) bindings[iter.var] = iter.binding;
  Stmt plain = Substitute(block->body, bindings);
  for (size_t i = nest.size(); i-- > 0;) plain = WithBody(*nest[i], std::move(plain));
  const Result<MmaThreads> threads = FindMmaThreads(path.Loops());
  if (!threads.ok()) return Err(what, threads.error().message);
  if (const Result<MmaLoops> loops = MatchMma(plain, threads->x, threads->y); !loops.ok())
    return Err(what, loops.error().message);
  For loop = path.loop();
  loop.annotations[kMma] = 1;
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(loop)));
  return {};
}

}  // namespace autotune::schedule
