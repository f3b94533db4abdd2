#include "schedule/state.h"

namespace autotune::schedule {

// Annotates the block called step.target. If there is none, annotates the loop of that name.
Status ApplyStep(State& state, Annotate& step) {
  int64_t value = TRY(state.Value(step.value));
  Result<Path> path = FindBlock(state.func.body, step.target);
  if (path.ok()) {
    Block block = path->block();
    block.annotations[step.key.str()] = value;
    state.func.body = ReplaceTarget(*path, MakeStmt(std::move(block)));
    return {};
  }
  path = FindLoop(state.func.body, step.target);
  if (!path.ok()) return Err("there is no block or loop '", step.target, "'");
  For loop = path->loop();
  loop.annotations[step.key.str()] = value;
  state.func.body = ReplaceTarget(*path, MakeStmt(std::move(loop)));
  return {};
}

}  // namespace autotune::schedule
