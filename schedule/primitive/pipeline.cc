// pipeline: makes copies into shared memory run some iterations ahead.
#include <optional>
#include <set>

#include "ir/annotations.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

constexpr int64_t kMostStages = 8;  // with more stages, no useful tile fits into the shared memory of known GPUs

bool IsShared(const State& state, const Name& buffer) {
  const Buffer* found = FindBuffer(state.func, buffer);
  return found && (*found)->scope == Scope::kShared;
}

// Returns the shared buffers that the statement fills. Returns nothing if it does anything else: if it contains a
// reduction or another store.
std::optional<std::set<Name>> FilledBy(const State& state, const Stmt& s) {
  std::set<Name> filled;
  bool only = true;
  ForEachBlock(s, [&](const Block& block, const auto&) {
    only = only && !IsReduction(block);
    ForEachStore(block, [&](const Store& store) {
      only = only && IsShared(state, store.buffer->name);
      filled.insert(store.buffer->name);
    });
  });
  return only && !filled.empty() ? std::optional(filled) : std::nullopt;
}

int CountUses(const Stmt& s, const Name& buffer) {
  int uses = 0;
  ForEachBlock(s, [&](const Block& block, const auto&) { uses += Reads(block, buffer) || Writes(block, buffer); });
  return uses;
}

}  // namespace

// Legal for a serial loop that begins with copies into shared memory and continues with their readers. The copies must
// not read the buffers that they fill, nothing else may write these buffers, and nothing outside the loop may use them.
// So no iteration reads the copies of another one. The kernel must not write the buffers that the copies read; lowering
// checks this (lower/pipeline_loops.cc).
Status ApplyStep(State& state, Pipeline& step) {
  const int64_t stages = TRY(state.Value(step.stages));
  const Path path = TRY(FindLoop(state.func.body, step.loop));
  For loop = path.loop();
  if (stages < 1 || stages > kMostStages) return Err("a loop has 1 to ", kMostStages, " stages, not ", stages);
  if (loop.kind != LoopKind::kSerial) return Err("loop '", loop.var, "' is ", ToText(loop.kind), ", not serial");
  const Seq* seq = loop.body.As<Seq>();
  std::set<Name> copied;
  size_t copies = 0;
  for (; seq && copies < seq->stmts.size(); ++copies) {
    std::optional<std::set<Name>> filled = FilledBy(state, seq->stmts[copies]);
    if (!filled) break;
    copied.merge(*filled);
  }
  if (copies == 0) return Err("loop '", loop.var, "' does not begin with a copy into shared memory");
  if (copies == seq->stmts.size()) return Err("nothing in loop '", loop.var, "' follows the copies");
  for (const Name& buffer : copied) {
    if (CountUses(loop.body, buffer) != CountUses(state.func.body, buffer))
      return Err("buffer '", buffer, "' is used outside of loop '", loop.var, "'");
  }
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    for (const Name& buffer : copied) {
      bool read = false, written = false;
      ForEachBlock(seq->stmts[i], [&](const Block& block, const auto&) {
        read |= Reads(block, buffer), written |= Writes(block, buffer);
      });
      if (i < copies && read) return Err("a copy reads buffer '", buffer, "', which the copies fill");
      if (i >= copies && written) return Err("buffer '", buffer, "' is written after the copies, too");
    }
  }
  loop.annotations[kPipeline] = stages;
  state.func.body = ReplaceTarget(path, MakeStmt(std::move(loop)));
  return {};
}

}  // namespace autotune::schedule
