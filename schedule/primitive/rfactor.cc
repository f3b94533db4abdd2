#include <algorithm>

#include "ir/combiner.h"
#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Returns the only block in which `loop` feeds a reduction iterator. An error if there is none, or more than one.
Result<Name> ReducedBlock(const For& loop) {
  std::vector<Name> names;
  ForEachBlock(loop.body, [&](const Block& block, const auto&) {
    if (FeedsOf(block, loop.var).reduce) names.push_back(block.name);
  });
  if (names.empty()) return Err("loop '", loop.var, "' feeds no reduction iterator");
  if (names.size() > 1) {
    return Err("loop '", loop.var, "' reduces several blocks: '", names[0], "' and '", names[1], "'");
  }
  return names[0];
}

// The reduction that the step moves, and the loops around it.
struct Reduction {
  Block block;
  Path path, root;  // the paths to the block, and to the outermost reduction loop around it
  const For* factored = nullptr;
  const Store* store = nullptr;
  Update update;
  std::vector<const For*> loops;      // from the outermost reduction loop inward
  std::vector<const For*> reduce;     // members of `loops` that feed reduction iterators
  std::vector<const For*> combining;  // the factored loop and the members of `loops` that feed spatial iterators
  std::vector<Expr> spatial_guards, reduce_guards;
  bool Reduces(const Name& var) const {
    return std::any_of(reduce.begin(), reduce.end(), [&](const For* loop) { return loop->var == var; });
  }
};

Status CheckUpdate(Reduction& r) {
  const Name& name = r.block.name;
  r.store = SingleStore(r.block);
  std::optional<Update> update = r.store ? AsUpdate(*r.store) : std::nullopt;
  if (!update) return Err("block '", name, "' is not a sum, product, maximum or minimum by a single store");
  r.update = *update;
  for (const Iter& iter : r.block.iters) {
    bool used = std::any_of(r.store->indices.begin(), r.store->indices.end(),
                            [&](const Expr& index) { return UsesVar(index, iter.var); });
    if (used && iter.kind == IterKind::kReduce) {
      return Err("block '", name, "' stores at its reduction iterator '", iter.var, "'");
    }
  }
  return {};
}

// Checks that each element is combined once: from the outermost reduction loop inward, each loop either reduces or
// separates elements.
Status CheckLoops(Reduction& r) {
  for (size_t i = 0; i < r.loops.size(); ++i) {
    const For* loop = r.loops[i];
    int64_t extent = TRY(ConstExtent(*loop));
    Feeds feeds = FeedsOf(r.block, loop->var);
    if (feeds.spatial && feeds.reduce) {
      return Err("loop '", loop->var, "' feeds both spatial and reduction iterators");
    }
    Ranges inner = RangesOf({r.loops.begin() + i + 1, r.loops.end()});
    if (feeds.reduce) {
      r.reduce.push_back(loop);
    } else if (extent > 1 && !SeparatesInstances(r.block, {loop->var, extent}, inner)) {
      return Err("several iterations of loop '", loop->var, "' may compute the same elements");
    }
  }
  for (const Expr& conjunct : Conjuncts(r.block.predicate)) {
    bool reduces = false, other = false;
    Walk(conjunct, [&](const Expr& e) {
      if (const Var* var = e.As<Var>()) (r.Reduces(var->name) ? reduces : other) = true;
      return true;
    });
    if (reduces && other) {
      return Err("block '", r.block.name, "' has a guard on both spatial and reduction loops");
    }
    (reduces ? r.reduce_guards : r.spatial_guards).push_back(conjunct);
  }
  return {};
}

// Checks that no other block accesses the buffer between the updates, and that no condition skips updates.
Status CheckAlone(const Reduction& r) {
  for (size_t i = r.root.nodes.size(); i < r.path.nodes.size(); ++i) {
    if (r.path.nodes[i].As<If>()) return Err("block '", r.block.name, "' is under a condition");
  }
  Status status;
  const Name& buffer = r.store->buffer->name;
  ForEachBlock(r.root.target(), [&](const Block& other, const auto&) {
    if (other.name == r.block.name || !(Reads(other, buffer) || Writes(other, buffer))) return;
    status = Err("block '", other.name, "' uses buffer '", buffer, "' inside loop '", r.root.loop().var, "' too");
  });
  return status;
}

std::vector<Expr> WithAxis(std::vector<Expr> list, int64_t axis, const Expr& e) {
  list.insert(list.begin() + axis, e);
  return list;
}

Result<Reduction> LegalReduction(const State& state, const Rfactor& step) {
  Path loop = TRY(FindLoop(state.func.body, step.loop));
  Path path = TRY(FindBlock(state.func.body, TRY(ReducedBlock(loop.loop()))));
  Reduction r{.block = path.block(), .path = path, .factored = &loop.loop()};
  for (const For* around : path.Loops()) {
    if (!r.loops.empty() || FeedsOf(r.block, around->var).reduce) r.loops.push_back(around);
  }
  r.root = path.UpTo(r.loops[0]->var);
  TRY(CheckUpdate(r));
  TRY(CheckLoops(r));
  TRY(CheckAlone(r));
  const Buffer& buffer = r.store->buffer;
  const int64_t rank = static_cast<int64_t>(buffer->shape.size());
  for (const Expr& extent : buffer->shape) {
    if (!AsInt(extent)) return Err("buffer '", buffer->name, "' has a symbolic extent");
  }
  if (step.axis < 0 || step.axis > rank) return Err("axis ", step.axis, " is not between 0 and ", rank);
  for (const For* around : r.loops) {
    if (!r.Reduces(around->var) || around == r.factored) r.combining.push_back(around);
  }
  return r;
}

// Returns the block that computes `partials`. It has the spatial iterators of the original block, and an iterator for
// each reduction loop. The iterator of the factored loop is spatial, too.
Block PartialBlock(const Reduction& r, const Buffer& partials, int64_t axis, FreshVars& fresh) {
  Block partial;
  partial.name = partials->name;
  partial.predicate = AndAll(r.spatial_guards);
  VarMap iters, loop_iters;
  Ranges ranges;
  bool reduces = false;
  for (const Iter& iter : r.block.iters) {
    if (iter.kind == IterKind::kReduce) continue;
    Name var = fresh.Make(Suffixed(iter.var, "_rf"));
    iters[iter.var] = IndexVar(var);
    partial.iters.push_back({var, iter.kind, iter.extent, iter.binding});
  }
  for (const For* loop : r.reduce) {
    Name var = fresh.Make(Name("v_" + loop->var.str()));
    IterKind kind = loop == r.factored ? IterKind::kSpatial : IterKind::kReduce;
    reduces |= kind == IterKind::kReduce;
    loop_iters[loop->var] = IndexVar(var);
    ranges.push_back({var, *AsInt(loop->extent)});
    partial.iters.push_back({var, kind, loop->extent, IndexVar(loop->var)});
  }
  for (const Iter& iter : r.block.iters) {
    if (iter.kind == IterKind::kReduce) iters[iter.var] = Normalized(Substitute(iter.binding, loop_iters), ranges);
  }
  Expr guard = NormalizeCondition(AndAll(r.reduce_guards), loop_iters, ranges);
  std::vector<Expr> at;
  for (const Expr& index : r.store->indices) at.push_back(Substitute(index, iters));
  at = WithAxis(std::move(at), axis, loop_iters.at(r.factored->var));
  Expr identity = IdentityOf(r.update.op, partials->dtype);
  Expr before = reduces ? MakeLoad(partials, at) : identity;
  Expr value = Substitute(r.update.term, iters);
  if (reduces) {
    const Call* call = r.store->value.As<Call>();
    value = call ? MakeCall(Op::kFma, {Substitute(call->args[0], iters), Substitute(call->args[1], iters), before})
                 : MakeBinary(r.update.op, before, value);
    partial.init = MakeStmt(Store{partials, at, identity});
  }
  if (guard) value = MakeSelect(guard, value, before);
  partial.body = MakeStmt(Store{partials, at, value});
  return partial;
}

// Returns the loops and the block that combine the partial results. The block keeps the name of the original reduction,
// because consumers and annotations refer to that name.
Stmt CombiningNest(const Reduction& r, const Buffer& partials, int64_t axis, const std::vector<Name>& vars,
                   FreshVars& fresh) {
  VarMap renamed, zeros;
  for (size_t i = 0; i < r.combining.size(); ++i) renamed[r.combining[i]->var] = IndexVar(vars[i]);
  const Expr factored = renamed.at(r.factored->var);
  Block combine = r.block;
  std::erase_if(combine.iters, [](const Iter& iter) { return iter.kind == IterKind::kReduce; });
  for (Iter& iter : combine.iters) iter.binding = Substitute(iter.binding, renamed);
  Name which = fresh.Make(Name("v_" + factored.As<Var>()->name.str()));
  combine.iters.push_back({which, IterKind::kReduce, r.factored->extent, factored});
  combine.predicate = AndAll(r.spatial_guards);
  if (combine.predicate) combine.predicate = Substitute(combine.predicate, renamed);
  for (const Iter& iter : r.block.iters) {
    if (iter.kind == IterKind::kReduce) zeros[iter.var] = Expr(0);
  }
  if (r.block.init) combine.init = Substitute(r.block.init, zeros);
  const Buffer& buffer = r.store->buffer;
  Expr result = MakeLoad(partials, WithAxis(r.store->indices, axis, IndexVar(which)));
  combine.body = MakeStmt(
      Store{buffer, r.store->indices, MakeBinary(r.update.op, MakeLoad(buffer, r.store->indices), std::move(result))});
  Stmt nest = MakeStmt(std::move(combine));
  for (size_t i = r.combining.size(); i-- > 0;) {
    const For& loop = *r.combining[i];
    Annotations notes = r.Reduces(loop.var) ? Annotations() : loop.annotations;
    nest = MakeStmt(For{vars[i], loop.extent, loop.kind, notes, std::move(nest)});
  }
  return nest;
}

}  // namespace

// Legal for a loop that feeds a reduction iterator, but no spatial iterator, of exactly one block. The block must
// combine B[v] with a term by a sum, product, maximum or minimum. The loops inside the outermost reduction loop must
// compute every element once. Partial results begin with the identity, and the initial value of B is combined once, as
// before the step. A guard on the reduction loops then guards only the update of a partial result, since the partial
// result must be initialised even if the guard fails.
Status ApplyStep(State& state, Rfactor& step) {
  const Reduction r = TRY(LegalReduction(state, step));
  std::vector<Name> combining;
  for (const For* loop : r.combining) combining.push_back(Suffixed(loop->var, "_combine"));
  step.results = TRY(BlockAndLoopNames(state.func, step.results.names, Suffixed(r.block.name, "_rf"), combining));
  const std::vector<Name>& names = step.results.names;
  const Buffer& buffer = r.store->buffer;
  Buffer partials = Buffer::Make(names[0], buffer->dtype, WithAxis(buffer->shape, step.axis, r.factored->extent));
  FreshVars fresh(state.func);
  Stmt partial = MakeStmt(PartialBlock(r, partials, step.axis, fresh));
  Stmt nest = CombiningNest(r, partials, step.axis, {names.begin() + 1, names.end()}, fresh);
  Path inner{{r.path.nodes.begin() + (r.root.nodes.size() - 1), r.path.nodes.end()}};
  Stmt partly = ReplaceTarget(inner, std::move(partial));
  state.func.body = ReplaceTarget(r.root, MakeSeq({std::move(partly), std::move(nest)}));
  state.func.allocs.push_back(partials);
  return {};
}

}  // namespace autotune::schedule
