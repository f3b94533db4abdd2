#include <algorithm>

#include "ir/arithmetic.h"
#include "ir/visit.h"
#include "support/integer.h"
#include "topi/select.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

bool Has(const BlockView& block, const char* annotation) {
  return block.node.As<Block>()->annotations.contains(annotation);
}

// Returns the largest number of statements that one instance of a program can run.
int64_t StatementsOf(const Stmt& s) {
  if (const For* loop = s.As<For>()) return (AsInt(loop->extent) ? *AsInt(loop->extent) : 1) * StatementsOf(loop->body);
  if (const Seq* seq = s.As<Seq>()) {
    int64_t n = 0;
    for (const Stmt& child : seq->stmts) n += StatementsOf(child);
    return n;
  }
  if (const If* n = s.As<If>()) return StatementsOf(n->then_body) + (n->else_body ? StatementsOf(n->else_body) : 0);
  return 1;
}

// Returns the outermost loops, as many as give every core several tasks.
std::vector<Loop> SharedLoops(const std::vector<Loop>& loops, const Target& target) {
  std::vector<Loop> outer;
  for (size_t i = 0; i < loops.size() && Iterations(outer) < kTasksPerCore * target.num_cores; ++i)
    outer.push_back(loops[i]);
  return outer;
}

// Returns true if the iterations of `loop` can become the lanes of a vector: in each load and store, the last subscript
// is the loop itself or does not depend on it, and the other subscripts do not depend on it.
bool IsContiguous(const BlockView& block, const Loop& loop) {
  bool contiguous = !loop.iter.empty();
  ForEachAccess(block.node.As<Block>()->body, [&](const Buffer&, const std::vector<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d) {
      const bool last = d + 1 == indices.size();
      if (UsesVar(indices[d], loop.iter) && !(last && IsVar(indices[d], loop.iter))) contiguous = false;
    }
  });
  return contiguous;
}

}  // namespace

// Places a block whose body is a whole program, such as sorting a row. The cores share its points.
Status ProgramsRule(SketchBuilder& s, const BlockView& block, int) {
  if (!Has(block, topi::kProgram)) return Err("the block is not a program");
  const int64_t statements = StatementsOf(block.node.As<Block>()->body), points = Iterations(block.spatial);
  const std::vector<Loop> outer = SharedLoops(block.spatial, s.target());
  const bool forks = points > 1 && statements * points >= kWorthForking;
  if (forks) TRY(s.Parallel(outer));
  s.Place(block.name);
  s.AddStage({.outer = forks ? Iterations(outer) : 1,
              .element_bytes = block.element_bytes,
              .operations = static_cast<double>(statements * points)});
  s.Call(block.name.str() + ":program");
  return {};
}

// Places serial updates at computed indices or along an axis. Updates that are independent of each other run on all
// cores. They are vectorized if neighbouring updates have neighbouring indices.
//
//   parallel over independent loops, n_0
//     updates
//       n_1 in vectors: change data
Status ScatterRule(SketchBuilder& s, const BlockView& block, int) {
  if (!Has(block, topi::kOrderedUpdate)) return Err("the block has no ordered updates");
  const int64_t lanes = LanesOf(block, s.target()), all = Instances(block), cores = s.target().num_cores;
  std::vector<Loop> outer = block.spatial;
  Loops columns;
  if (!outer.empty() && outer.back().extent >= lanes && IsContiguous(block, outer.back())) {
    const Loop last = outer.back();
    outer.pop_back();
    const int64_t tasks = CeilDiv(cores, Iterations(outer)), vectors = CeilDiv(last.extent, lanes * tasks);
    auto [task, inner, vector] = TRY(s.Split(last.var, {kAuto, vectors, lanes}));
    TRY(s.Order({outer, task, block.reduce, inner, vector}));
    TRY(s.Do(Vectorize{.loop = vector}));
    outer.push_back({task, CeilDiv(last.extent, lanes * vectors), Name()});
  } else {
    TRY(s.Order({outer, block.reduce}));
  }
  outer = SharedLoops(outer, s.target());
  const bool forks = all >= kWorthForking && Iterations(outer) > 1;
  if (forks) TRY(s.Parallel(outer));
  s.Place(block.name);
  s.AddPasses({.block = block.name, .element_bytes = block.element_bytes});
  s.Call(block.name.str() + ":scatter");
  return {};
}

}  // namespace autotune
