#include "schedule/region.h"

#include <algorithm>

#include "schedule/nested.h"
#include "support/check.h"

namespace autotune::schedule {
namespace {

RegionMap RunningMap(const Ranges& running) {
  RegionMap map;
  for (const LoopRange& loop : running) map.push_back({loop.var, Region{LinearForm(), loop.extent - 1}});
  return map;
}

Region Whole(int64_t extent) { return Region{LinearForm(), extent - 1}; }

}  // namespace

RegionMap IterRegions(const Block& block, const Ranges& running, const Ranges& fixed) {
  RegionMap loops = RunningMap(running), iters;
  for (const Iter& iter : block.iters) {
    std::optional<Region> region = RegionOf(iter.binding, loops, fixed);
    const int64_t* extent = AsInt(iter.extent);
    if (extent && (!region || region->span + 1 >= *extent)) region = Whole(*extent);
    if (region) iters.push_back({iter.var, *region});
  }
  for (const LoopRange& loop : LoopsWithin(block.body)) iters.push_back({loop.var, Whole(loop.extent)});
  return iters;
}

std::optional<std::vector<Region>> RegionRead(const Block& block, const Buffer& buffer, const Ranges& running,
                                              const Ranges& fixed) {
  RegionMap iters = IterRegions(block, running, fixed);
  std::vector<int64_t> shape = ConstShape(buffer);
  std::optional<std::vector<Region>> box;
  ForEachLoad(block, [&](const Load& load) {
    if (load.buffer->name != buffer->name) return;
    bool first = !box;
    if (first) box.emplace(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      std::optional<Region> region = RegionOf(load.indices[d], iters, fixed);
      if (region && !first) region = Union((*box)[d], *region);
      (*box)[d] = region && region->span + 1 < shape[d] ? *region : Whole(shape[d]);
    }
  });
  return box;
}

std::optional<size_t> BoundedIter(const Block& block, const Expr& conjunct) {
  const Binary* less = conjunct.As<Binary>();
  if (!less || less->op != BinaryOp::kLt || !AsInt(less->b)) return std::nullopt;
  int64_t limit = *AsInt(less->b);
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const Iter& iter = block.iters[i];
    if (IsConst(iter.extent, limit) && autotune::Equal(iter.binding, less->a)) return i;
    // For the leading digit f // c of a fused loop f, the condition f // c < extent reads f < extent * c.
    const Binary* div = iter.binding.As<Binary>();
    if (div && div->op == BinaryOp::kFloorDiv && AsInt(div->b) && AsInt(iter.extent) &&
        limit == *AsInt(iter.extent) * *AsInt(div->b) && autotune::Equal(div->a, less->a)) {
      return i;
    }
  }
  return std::nullopt;
}

bool IsLowerBound(const Block& block, const Expr& conjunct) {
  const Binary* ge = conjunct.As<Binary>();
  if (!ge || ge->op != BinaryOp::kGe || !IsConst(ge->b, 0)) return false;
  return std::any_of(block.iters.begin(), block.iters.end(),
                     [&](const Iter& iter) { return autotune::Equal(iter.binding, ge->a); });
}

Result<Region> RegionVisited(const Block& block, size_t iter, const Ranges& running, const Ranges& fixed) {
  const Iter& it = block.iters[iter];
  std::optional<Region> region = DenseRegionOf(Normalize(it.binding, Concat(fixed, running)), running);
  if (!region) {
    return Err("block '", block.name, "' does not visit a contiguous range of iterator '", it.var,
               "' in one iteration");
  }
  // A guard on the part of the binding that the running loops change shortens the interval. A guard on the whole
  // binding is skipped, since it only keeps the iterator within its extent.
  for (const Expr& conjunct : Conjuncts(block.predicate)) {
    if (BoundedIter(block, conjunct) || IsLowerBound(block, conjunct) || !UsesAny(conjunct, running)) continue;
    bool concerns = false;
    for (const LoopRange& loop : running) concerns |= UsesVar(conjunct, loop.var) && UsesVar(it.binding, loop.var);
    if (!concerns) continue;
    LinearForm part = Normalize(it.binding, Concat(fixed, running));
    part.Add(region->min, -1);
    const Binary* less = conjunct.As<Binary>();
    LinearForm guarded = less ? Normalize(less->a, Concat(fixed, running)) : LinearForm();
    guarded.Add(part, -1);
    if (!less || less->op != BinaryOp::kLt || !AsInt(less->b) || !guarded.IsConst() || guarded.constant != 0) {
      return Err("block '", block.name, "' has a guard on a part of the binding of iterator '", it.var, "'");
    }
    region->span = std::min(region->span, *AsInt(less->b) - 1);
  }
  return *region;
}

namespace {

// Returns true if the iterator takes all values in [0, size) while the loops run.
bool Covers(const Block& block, size_t iter, int64_t size, const Ranges& running) {
  LinearForm sum = Normalize(block.iters[iter].binding, running);
  std::optional<Bounds> bounds = BoundsOf(sum, running);
  if (!bounds || bounds->low > 0 || bounds->high < size - 1) return false;
  // A digit of a fused loop f, f // c or f % c, takes all values within its bounds. But if the extent of f is not a
  // multiple of c, the last value of f // c does not occur with all values of f % c.
  for (const LinearForm::Term& term : sum.terms) {
    const Binary* div = term.atom.As<Binary>();
    if (!div || div->op != BinaryOp::kFloorDiv || !AsInt(div->b)) continue;
    std::optional<Bounds> f = BoundsOf(Normalize(div->a, running), running);
    if (!f || ((f->high + 1) % *AsInt(div->b) != 0 && f->high + 1 < size * *AsInt(div->b))) return false;
  }
  if (Result<Region> region = RegionVisited(block, iter, running, {}); region.ok()) {
    return region->min.IsConst() && region->min.constant + region->span >= size - 1;
  }
  return sum.terms.size() == 1 && sum.terms[0].coefficient == 1 && !sum.terms[0].atom.As<Var>();
}

// Returns true if two iterators with the bindings `a` and `b` run through all pairs of their values: they have loops of
// their own, or are digits of one fused loop.
bool AreIndependent(const Expr& a, const Expr& b, const Ranges& running) {
  for (const LoopRange& loop : running) {
    if (!UsesVar(a, loop.var) || !UsesVar(b, loop.var) || loop.extent == 1) continue;
    for (const Expr* e : {&a, &b}) {
      for (const LinearForm::Term& term : Normalize(*e, running).terms) {
        if (term.atom.As<Var>() && UsesVar(term.atom, loop.var)) return false;
      }
    }
    if (autotune::Equal(a, b)) return false;
  }
  return true;
}

}  // namespace

Status CheckWrittenWhole(const PrimFunc& func, const Buffer& buffer) {
  bool partly = false, whole = false;
  ForEachBlock(func.body, [&](const Block& block, const std::vector<const For*>& loops) {
    if (!Writes(block, buffer->name)) return;
    const Store* store = SingleStore(block);
    std::optional<std::vector<size_t>> places = store ? AsIterators(store->indices, block) : std::nullopt;
    Ranges running = RangesOf(loops);
    bool all = running.size() == loops.size();
    std::vector<size_t> iters;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      // If the store's indices are plain iterators, only these iterators must cover the buffer. Any other block is
      // assumed to write all elements if all its spatial iterators run over their whole extents.
      bool counts = places ? std::find(places->begin(), places->end(), i) != places->end()
                           : block.iters[i].kind == IterKind::kSpatial;
      if (counts) iters.push_back(i);
    }
    for (size_t i : iters) {
      const int64_t* size = AsInt(block.iters[i].extent);
      if (places) {
        const int64_t* extent = size;
        size = AsInt(buffer->shape[std::find(places->begin(), places->end(), i) - places->begin()]);
        if (!extent || !size || *extent < *size) return;  // this block is one of several that each write a part
      }
      all = all && size && Covers(block, i, *size, running);
      for (size_t j : iters) {
        if (j == i) break;  // each pair once
        all = all && AreIndependent(block.iters[i].binding, block.iters[j].binding, running);
      }
    }
    (all ? whole : partly) = true;
  });
  if (partly && !whole) {
    return Err("not all of buffer '", buffer->name,
               "' is known to be written; copy it before moving its producer or fusing its loops");
  }
  return {};
}

bool ComputesAllRead(const Block& writer, const std::vector<const For*>& around_writer, const Block& block,
                     const std::vector<const For*>& around, const Buffer& buffer) {
  const Store* store = SingleStore(writer);
  std::optional<std::vector<size_t>> places = store ? AsIterators(store->indices, writer) : std::nullopt;
  if (!places || !HasConstShape(buffer)) return false;
  size_t common = 0;
  while (common < std::min(around.size(), around_writer.size()) && around[common]->var == around_writer[common]->var) {
    if (FeedsOf(writer, around[common]->var).reduce) return false;  // not complete there
    ++common;
  }
  // A guard is harmless if it only cuts off values outside an iterator's extent.
  for (const Expr& conjunct : Conjuncts(writer.predicate)) {
    if (!BoundedIter(writer, conjunct) && !IsLowerBound(writer, conjunct)) return false;
  }
  Ranges fixed = RangesOf({around.begin(), around.begin() + common});
  Ranges running = RangesOf({around.begin() + common, around.end()});
  Ranges writing = RangesOf({around_writer.begin() + common, around_writer.end()});
  std::optional<std::vector<Region>> read = RegionRead(block, buffer, running, fixed);
  for (size_t d = 0; read && d < read->size(); ++d) {
    const int64_t *extent = AsInt(writer.iters[(*places)[d]].extent), *size = AsInt(buffer->shape[d]);
    Result<Region> written = RegionVisited(writer, (*places)[d], writing, fixed);
    if (!extent || !size || *extent < *size || !written.ok()) return false;
    LinearForm ahead = (*read)[d].min;
    ahead.Add(written->min, -1);
    if (!ahead.IsConst() || ahead.constant < 0) return false;
    if (ahead.constant + (*read)[d].span > written->span) return false;
  }
  return read.has_value();
}

Status CheckSourcesCover(const State& state, const Name& name) {
  Path path = TRY(FindBlock(state.func.body, name));
  const Block& block = path.block();
  const std::vector<const For*> around = path.Loops();
  for (const Name& source : BuffersRead(block)) {
    if (!IsAlloc(state.func, source)) continue;
    const Buffer& buffer = *FindBuffer(state.func, source);
    Name partial;
    bool covered = false, shared = false;
    ForEachBlock(state.func.body, [&](const Block& writer, const std::vector<const For*>& loops) {
      if (covered || writer.name == name || !Writes(writer, source)) return;
      shared |= !loops.empty() && !around.empty() && loops[0]->var == around[0]->var;
      covered = ComputesAllRead(writer, loops, block, around, buffer);
      partial = writer.name;
    });
    if (covered || partial.empty() || (!shared && CheckWrittenWhole(state.func, buffer).ok())) continue;
    return Err("block '", name, "' may need more of buffer '", source, "' here than block '", partial, "' computes");
  }
  return {};
}

Window WindowOf(const Region& region, int64_t extent, const Ranges& fixed, bool covering) {
  if (covering && region.span + 1 >= extent) return {LinearForm(), extent};
  std::optional<Bounds> min = BoundsOf(region.min, fixed);
  if (!min || min->low != min->high) return {region.min, region.span + 1};
  int64_t low = std::max<int64_t>(min->low, 0);
  int64_t high = std::min(min->low + region.span, extent - 1);
  Window window;
  window.min.constant = std::min(low, extent - 1);
  window.extent = std::max<int64_t>(high - low + 1, 1);
  return window;
}

Stmt NestOver(const Block& block, const std::vector<Window>& windows, const std::vector<Name>& loops,
              const Ranges& fixed, std::vector<Expr> guards) {
  CHECK(windows.size() == block.iters.size() && loops.size() == windows.size());
  Ranges own;
  for (size_t i = 0; i < loops.size(); ++i) own.push_back({loops[i], windows[i].extent});
  Ranges all = Concat(fixed, own);
  Block placed = block;
  for (size_t i = 0; i < loops.size(); ++i) {
    Iter& iter = placed.iters[i];
    LinearForm sum = windows[i].min;
    sum.Add(IndexVar(loops[i]), 1);
    iter.binding = sum.InOrder();
    std::optional<Bounds> bounds = BoundsOf(sum, all);
    if (!bounds || bounds->low < 0) guards.push_back(iter.binding >= Expr(0));
    if (!bounds || bounds->high >= *AsInt(iter.extent)) guards.push_back(iter.binding < iter.extent);
  }
  placed.predicate = AndAll(guards);
  return WrapLoops(own, MakeStmt(std::move(placed)));
}

bool UsesLoopInside(const Block& block, const Expr& e) {
  bool uses = false;
  Walk(block.body, [&](const Stmt& s) {
    uses |= s.As<For>() && UsesVar(e, s.As<For>()->var);
    return true;
  });
  return uses;
}

std::vector<Name> LoopNames(const Name& block, size_t count) {
  std::vector<Name> names;
  for (size_t i = 0; i < count; ++i) names.push_back(Suffixed(block, "_i" + std::to_string(i)));
  return names;
}

Stmt MakeNest(const PrimFunc& func, const Name& name, const std::vector<int64_t>& extents,
              const std::vector<Name>& loops, const std::function<Store(const std::vector<Expr>& vars)>& store) {
  FreshVars fresh(func);
  Block block;
  block.name = name;
  Ranges ranges;
  std::vector<Expr> vars;
  for (size_t i = 0; i < extents.size(); ++i) {
    Name var = fresh.Make(Name("v_" + loops[i].str()));
    block.iters.push_back({var, IterKind::kSpatial, Expr(extents[i]), IndexVar(loops[i])});
    ranges.push_back({loops[i], extents[i]});
    vars.push_back(IndexVar(var));
  }
  block.body = MakeStmt(store(vars));
  return WrapLoops(ranges, MakeStmt(std::move(block)));
}

std::vector<Stmt> RootStmts(const Stmt& body) {
  const Seq* seq = body.As<Seq>();
  return seq ? seq->stmts : std::vector<Stmt>{body};
}

bool ContainsBlock(const Stmt& s, const Name& block) {
  bool found = false;
  ForEachBlock(s, [&](const Block& b, const auto&) { found |= b.name == block; });
  return found;
}

size_t RootIndexOf(const std::vector<Stmt>& roots, const Name& block) {
  size_t i = 0;
  while (i < roots.size() && !ContainsBlock(roots[i], block)) ++i;
  CHECK(i < roots.size()) << block;
  return i;
}

}  // namespace autotune::schedule
