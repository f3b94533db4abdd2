#include <algorithm>
#include <utility>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

bool SameRegion(const Region& a, const Region& b) {
  LinearForm distance = a.min;
  distance.Add(b.min, -1);
  return a.span == b.span && distance.IsConst() && distance.constant == 0;
}

// Returns the producer's guards that do not depend on the loops `running`. They decide whether the producer runs at all
// in an iteration of the loops outside `running`.
std::vector<Expr> OuterGuards(const Block& producer, const Ranges& running) {
  std::vector<Expr> guards;
  for (const Expr& conjunct : Conjuncts(producer.predicate)) {
    if (!BoundedIter(producer, conjunct) && !UsesAny(conjunct, running)) guards.push_back(conjunct);
  }
  return guards;
}

// The elements that the producers inside the loop complete in one iteration of the loop.
struct Completed {
  std::vector<Window> windows;  // one for each iterator of the block that moves
  std::vector<Expr> guards;     // conditions under which all producers run
  std::vector<Name> buffers;    // buffers that the producers write
};

// A block that writes a buffer, and the loops around it inside the loop of the step.
struct Producer {
  Block block;
  Ranges running;
};

std::vector<Producer> ProducersOf(const Name& buffer, const For& loop, const Block& reader) {
  std::vector<Producer> producers;
  ForEachBlock(loop.body, [&](const Block& b, const std::vector<const For*>& inner) {
    if (b.name != reader.name && Writes(b, buffer)) producers.push_back({b, RangesOf(inner)});
  });
  return producers;
}

// Computes the values that the iterators of `block` take in one iteration of the loop at `path`, so that the block
// covers exactly the elements that the producers inside the loop complete in that iteration.
class Completion {
 public:
  Completion(const State& state, const Block& block, const Path& path, const std::vector<int64_t>& extents)
      : state_(state),
        block_(block),
        loop_(path.loop()),
        extents_(extents),
        fixed_(Concat(path.LoopRanges(), RangesOf({&path.loop()}))),
        outer_(path.Loops()),
        regions_(block.iters.size()) {
    outer_.push_back(&loop_);
  }

  Result<Completed> Compute() {
    for (const Name& buffer : BuffersRead(block_)) {
      const std::vector<Producer> producers = ProducersOf(buffer, loop_, block_);
      if (producers.empty()) continue;
      TRY(TakeGuards(producers));
      completed_.buffers.push_back(buffer);
      for (const Name& writer : WritersOf(state_.func.body, buffer)) {
        if (!ContainsBlock(loop_.body, writer)) {
          return Err("producer '", writer, "' of buffer '", buffer, "' is outside loop '", loop_.var, "'");
        }
      }
      const std::vector<Region> box = TRY(BoxOf(buffer, producers));
      TRY(TakeRegions(buffer, box));
    }
    if (completed_.buffers.empty()) {
      return Err("no producer of block '", block_.name, "' is inside loop '", loop_.var, "'");
    }
    for (size_t i = 0; i < regions_.size(); ++i) {
      Region all{LinearForm(), extents_[i] - 1};
      completed_.windows.push_back(WindowOf(regions_[i].value_or(all), extents_[i], fixed_, false));
    }
    return std::move(completed_);
  }

 private:
  // Adds the guards of the producers. An error if two producers run under different guards.
  Status TakeGuards(const std::vector<Producer>& producers) {
    for (const Producer& producer : producers) {
      std::vector<Expr> own = OuterGuards(producer.block, producer.running);
      if (std::exchange(first_, false)) completed_.guards = own;
      const std::vector<Expr>& guards = completed_.guards;
      if (!std::equal(own.begin(), own.end(), guards.begin(), guards.end(),
                      [](const Expr& a, const Expr& b) { return autotune::Equal(a, b); })) {
        return Err("producers of block '", block_.name, "' run under different conditions");
      }
    }
    return {};
  }

  // Returns the box of the buffer that the producers complete. An error if two producers visit different boxes. The
  // initialisation and the updates of a reduction visit the same box. A block that writes the padding of a buffer and a
  // block that writes the inside do not.
  Result<std::vector<Region>> BoxOf(const Name& buffer, const std::vector<Producer>& producers) const {
    std::vector<Region> box;
    for (const auto& [producer, running] : producers) {
      for (const For* around : outer_) {
        if (FeedsOf(producer, around->var).reduce) {
          return Err("loop '", around->var, "' feeds a reduction iterator of producer '", producer.name, "'");
        }
      }
      const Store* store = SingleStore(producer);
      std::optional<std::vector<size_t>> written = store ? AsIterators(store->indices, producer) : std::nullopt;
      if (!written) return Err("producer '", producer.name, "' must be one store whose indices are its iterators");
      for (size_t d = 0; d < written->size(); ++d) {
        Region region = TRY(RegionVisited(producer, (*written)[d], running, fixed_));
        if (box.size() == d) box.push_back(region);
        if (!SameRegion(box[d], region)) {
          return Err("the writers of buffer '", buffer, "' complete different parts of it");
        }
      }
    }
    return box;
  }

  // Returns the indices at which the block reads the buffer.
  Result<std::vector<Expr>> IndicesRead(const Name& buffer) const {
    std::vector<Expr> read;
    bool same = true;
    ForEachLoad(block_, [&](const Load& load) {
      if (load.buffer->name != buffer) return;
      for (size_t d = 0; d < read.size(); ++d) same = same && autotune::Equal(read[d], load.indices[d]);
      read = load.indices;
    });
    if (!same) return Err("block '", block_.name, "' reads buffer '", buffer, "' at several places");
    return read;
  }

  // Sets the regions of the iterators that index the block's loads of the buffer. `box` is the part of the buffer that
  // the producers complete.
  Status TakeRegions(const Name& buffer, const std::vector<Region>& box) {
    const std::vector<Expr> read = TRY(IndicesRead(buffer));
    for (size_t d = 0; d < read.size(); ++d) {
      const Region& region = box[d];
      if (const int64_t* at = AsInt(read[d])) {
        const int64_t low = region.min.constant;
        if (region.min.IsConst() && low <= *at && *at <= low + region.span) continue;
        return Err("block '", block_.name, "' reads buffer '", buffer, "' at index ", *at, " of dimension ", d,
                   ", which not every iteration completes");
      }
      std::optional<std::vector<size_t>> iter = AsIterators({read[d]}, block_);
      if (!iter) {
        return Err("block '", block_.name, "' must read buffer '", buffer, "' at indices that are its iterators");
      }
      const size_t i = (*iter)[0];
      const bool whole = region.min.IsConst() && region.min.constant == 0 && region.span + 1 == extents_[i];
      if (block_.iters[i].kind != IterKind::kSpatial && !whole) {
        return Err("each iteration must complete all elements that block '", block_.name, "' sums along iterator '",
                   block_.iters[i].var, "'");
      }
      const int64_t* size = AsInt(FindBuffer(state_.func, buffer)->get()->shape[d]);
      if (!size || extents_[i] > *size) {
        return Err("block '", block_.name, "' iterates beyond dimension ", d, " of buffer '", buffer,
                   "', but each iteration must read an element of it");
      }
      if (regions_[i] && !SameRegion(*regions_[i], region)) {
        return Err("producers of block '", block_.name, "' complete different ranges of iterator '",
                   block_.iters[i].var, "'");
      }
      regions_[i] = region;
    }
    return {};
  }

  const State& state_;
  const Block& block_;
  const For& loop_;
  const std::vector<int64_t>& extents_;
  const Ranges fixed_;                          // the ranges of the loops in `outer_`
  std::vector<const For*> outer_;               // the loop of the step and the loops around it, outermost first
  std::vector<std::optional<Region>> regions_;  // by iterator of block_; nullopt: the iterator's whole extent
  Completed completed_;
  bool first_ = true;  // true until TakeGuards has seen a producer
};

// Checks that no buffer that the block reads is written after the loop, since the block moves into the loop.
Status CheckProducersBefore(const State& state, const Block& block, const Stmt& loop) {
  std::vector<Name> order;
  ForEachBlock(state.func.body, [&](const Block& b, const auto&) { order.push_back(b.name); });
  auto position = [&](const Name& name) { return std::find(order.begin(), order.end(), name) - order.begin(); };
  ptrdiff_t last = -1;
  ForEachBlock(loop, [&](const Block& b, const auto&) { last = std::max(last, position(b.name)); });
  for (const Name& buffer : BuffersRead(block)) {
    for (const Name& writer : WritersOf(state.func.body, buffer)) {
      if (position(writer) > last) {
        return Err("block '", block.name, "' also needs block '", writer, "', which comes after the loop");
      }
    }
  }
  return {};
}

}  // namespace

// Moves a block to the end of a loop's body. Legal for a block that reads, at plain iterators, elements that producers
// inside the loop complete in each iteration. The sums of a reduction must be complete in one iteration, too.
Status ApplyStep(State& state, ReverseComputeAt& step) {
  Path from = TRY(FindBlock(state.func.body, step.block));
  Block block = from.block();
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  // Several iterations may compute the same sums, which is right only if each of them starts anew.
  if (IsReduction(block) && !block.init) return Err("block '", block.name, "' is a reduction without its init");
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
  Completed completed = TRY(Completion(state, block, path, extents).Compute());
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
