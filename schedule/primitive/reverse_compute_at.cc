#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

bool SameRegion(const Region& a, const Region& b) {
  Sum distance = a.min;
  distance.Add(b.min, -1);
  return a.span == b.span && distance.IsConstant() && distance.constant == 0;
}

// Guards that decide whether the producer runs at all in an iteration of the loops `fixed`.
std::vector<Expr> OuterGuards(const Block& producer, const Ranges& running) {
  std::vector<Expr> guards;
  for (const Expr& conjunct : Conjuncts(producer.predicate)) {
    if (!BoundedIter(producer, conjunct) && !UsesAny(conjunct, running)) guards.push_back(conjunct);
  }
  return guards;
}

struct Completed {
  std::vector<Window> windows;
  std::vector<Expr> guards;
  std::vector<Name> buffers;  // those that the producers write
};

// Where the iterators of `block` run in one iteration of the loop at `path`, so that the block covers exactly what the
// producers inside complete there.
Result<Completed> CompletedIn(const State& state, const Block& block, const Path& path,
                              const std::vector<int64_t>& extents) {
  const For& loop = path.loop();
  Ranges fixed = Concat(path.LoopRanges(), RangesOf({&loop}));
  std::vector<const For*> outer = path.Loops();
  outer.push_back(&loop);
  std::vector<std::optional<Region>> regions(block.iters.size());
  bool any = false;
  std::vector<Expr> guards;
  std::vector<Name> buffers;
  for (const Name& buffer : BuffersRead(block)) {
    std::vector<std::pair<Block, Ranges>> producers;
    ForEachBlock(loop.body, [&](const Block& b, const std::vector<const For*>& inner) {
      if (b.name != block.name && Writes(b, buffer)) producers.push_back({b, RangesOf(inner)});
    });
    if (producers.empty()) continue;
    buffers.push_back(buffer);
    for (const auto& [producer, running] : producers) {
      std::vector<Expr> own = OuterGuards(producer, running);
      if (!any) guards = own;
      any = true;
      bool same = own.size() == guards.size();
      for (size_t i = 0; same && i < own.size(); ++i) same = autotune::Equal(own[i], guards[i]);
      if (!same) return Err("producers of block '", block.name, "' run in different iterations");
    }
    for (const Name& writer : WritersOf(state.func.body, buffer)) {
      if (!ContainsBlock(loop.body, writer)) {
        return Err("producer '", writer, "' of buffer '", buffer, "' is outside loop '", loop.var, "'");
      }
    }
    // Each of them must visit the same box: the initialisation and the updates of a reduction do, the filling of a
    // padding and its inside do not.
    std::vector<Region> box;
    for (const auto& [producer, running] : producers) {
      for (const For* l : outer) {
        if (FeedsOf(producer, l->var).reduce) {
          return Err("loop '", l->var, "' feeds a reduction iterator of producer '", producer.name, "'");
        }
      }
      const Store* store = SingleStore(producer);
      std::optional<std::vector<size_t>> written = store ? AsIterators(store->indices, producer) : std::nullopt;
      if (!written) return Err("producer '", producer.name, "' does not store at its plain iterators");
      for (size_t d = 0; d < written->size(); ++d) {
        Region region = TRY(RegionVisited(producer, (*written)[d], running, fixed));
        if (box.size() == d) box.push_back(region);
        if (!SameRegion(box[d], region)) {
          return Err("the writers of buffer '", buffer, "' complete different parts of it");
        }
      }
    }
    std::vector<Expr> read;
    bool same = true;
    ForEachLoad(block, [&](const Load& load) {
      if (load.buffer->name != buffer) return;
      for (size_t d = 0; d < read.size(); ++d) same = same && autotune::Equal(read[d], load.indices[d]);
      read = load.indices;
    });
    if (!same) return Err("block '", block.name, "' reads buffer '", buffer, "' at several places");
    for (size_t d = 0; d < read.size(); ++d) {
      const Region& region = box[d];
      if (AsInt(read[d])) {
        if (region.min.IsConstant() && region.min.constant <= *AsInt(read[d]) &&
            *AsInt(read[d]) <= region.min.constant + region.span) {
          continue;
        }
        return Err("block '", block.name, "' reads one element of buffer '", buffer, "' in dimension ", d);
      }
      std::optional<std::vector<size_t>> iter = AsIterators({read[d]}, block);
      if (!iter || block.iters[(*iter)[0]].kind != IterKind::kSpatial) {
        return Err("block '", block.name, "' does not read buffer '", buffer, "' at plain spatial iterators");
      }
      const int64_t* size = AsInt(FindBuffer(state.func, buffer)->get()->shape[d]);
      if (!size || extents[(*iter)[0]] > *size) {
        return Err("block '", block.name, "' runs beyond buffer '", buffer, "', which it reads under a condition");
      }
      std::optional<Region>& known = regions[(*iter)[0]];
      if (known && !SameRegion(*known, region)) {
        return Err("producers of block '", block.name, "' complete different parts of it");
      }
      known = region;
    }
  }
  if (!any) return Err("no producer of block '", block.name, "' is inside loop '", loop.var, "'");
  std::vector<Window> windows;
  for (size_t i = 0; i < regions.size(); ++i) {
    Region all{Sum(), extents[i] - 1};
    windows.push_back(WindowOf(regions[i].value_or(all), extents[i], fixed, false));
  }
  return Completed{std::move(windows), std::move(guards), std::move(buffers)};
}

// Nothing the block reads is written between the loop and where the block stood.
Status CheckProducersBefore(const State& state, const Block& block, const Stmt& loop) {
  std::vector<Name> order;
  ForEachBlock(state.func.body, [&](const Block& b, const auto&) { order.push_back(b.name); });
  auto position = [&](const Name& name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  ptrdiff_t last = -1;
  ForEachBlock(loop, [&](const Block& b, const auto&) { last = std::max(last, position(b.name)); });
  for (const Name& buffer : BuffersRead(block)) {
    for (const Name& writer : WritersOf(state.func.body, buffer)) {
      if (position(writer) > last) {
        return Err("block '", block.name, "' also needs block '", writer, "', which stands behind the loop");
      }
    }
  }
  return {};
}

}  // namespace

// Legal for a block without reduction that reads what producers inside the loop complete in each of its iterations, at
// plain iterators.
Status ApplyStep(State& state, ReverseComputeAt& step) {
  Path from = TRY(FindBlock(state.func.body, step.block));
  Block block = from.block();
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  if (IsReduction(block) || block.init) return Err("block '", block.name, "' is a reduction");
  Buffer written = TRY(WrittenBuffer(block));
  if (WritersOf(state.func.body, written->name).size() != 1) {
    return Err("buffer '", written->name, "' has several writers, whose order matters");
  }
  TRY(FindLoop(state.func.body, step.loop));
  if (!from.UpTo(step.loop).nodes.empty())
    return Err("block '", block.name, "' is inside loop '", step.loop, "' already");
  state.func.body = ReplaceTarget(from, MakeSeq({}));
  Path path = TRY(FindLoop(state.func.body, step.loop));
  if (path.loop().kind == LoopKind::kVectorized) return Err("loop '", step.loop, "' is vectorized");
  TRY(CheckProducersBefore(state, block, path.target()));
  Completed completed = TRY(CompletedIn(state, block, path, extents));
  TRY(CheckReadsComplete(block, path.Loops(), "loop '" + step.loop.str() + "'", completed.buffers));
  step.results = TRY(ResultNames(step.results.names, LoopNames(block.name, extents.size())));
  TRY(CheckNewVars(state.func, step.results.names));
  Ranges fixed = Concat(path.LoopRanges(), RangesOf({&path.loop()}));
  Stmt nest = NestOver(block, completed.windows, step.results.names, fixed, completed.guards);
  state.func.body = ReplaceTarget(path, WithBody(path.loop(), MakeSeq({path.loop().body, std::move(nest)})));
  TRY(CheckStillIndependent(state, block.name));
  return CheckSourcesIndependent(state, block);
}

}  // namespace autotune::schedule
