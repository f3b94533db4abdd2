#include "tests/schedule/step_source.h"

#include <algorithm>

#include "ir/mma.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "tests/schedule/query.h"

namespace autotune {

Step StepSource::Next(const Schedule& schedule) {
  func_ = &schedule.func();
  loops_.clear();
  Walk(func_->body, [&](const Stmt& s) {
    if (const For* loop = s.As<For>()) loops_.push_back(loop->var);
    return true;
  });
  blocks_ = GetBlocks(*func_);
  if (!pending_.empty()) return Pending();
  if (threads_ && !HasThreads(func_->body) && Below(4) == 0) TowardsTensorCore();
  if (!pending_.empty()) return Pending();
  switch (Below(kCases + (threads_ ? kThreadCases : 0))) {
    case 0:
    case 1:
      return Split{Loop(), SomeFactors()};
    case 2:
      return SampledSplit(schedule);
    case 3:
      return Fuse{Neighbours(2)};
    case 4:
    case 5: {
      std::vector<Name> names = Neighbours(2 + Below(3));
      for (size_t i = names.size(); i > 1; --i) std::swap(names[i - 1], names[Below(i)]);
      return Reorder{names};
    }
    case 6:
      return Parallel{Loop()};
    case 7:
      return Vectorize{Loop()};
    case 8:
      return Unroll{Loop()};
    case 9:
    case 10:
      return ComputeAt{BlockName(), Loop()};
    case 11:
    case 12:
      return ReverseComputeAt{BlockName(), Loop()};
    case 13:
      return ComputeInline{BlockName()};
    case 14:
      return ReverseComputeInline{BlockName()};
    case 15: {
      Name block = BlockName();
      return CacheRead{block, Read(block), SomeScope(Scope::kGlobal), {Fresh("copy")}};
    }
    case 16:
      return CacheWrite{BlockName(), SomeScope(Scope::kGlobal), {Fresh("local"), Fresh("copied")}};
    case 17:
      return Layout();
    case 18: {
      Name block = BlockName();
      return Reindex{block, Below(3) ? Read(block) : Written(block), {Fresh("indexed")}};
    }
    case 19: {
      Name block = BlockName();
      return DecomposeReduction{block, LoopOf(block)};
    }
    case 20:
      if (Below(3) == 0) return PadBlock{BlockName()};
      return Below(2) ? Step(SkipPadding{BlockName()}) : Step(BranchOnSelect{BlockName()});
    case 21:
      return Rfactor{ReductionLoop(), Below(3), {Fresh("rf")}};
    case 22: {
      if (Below(8)) return Unroll{Loop()};  // prefetches are rare, since few steps may follow one
      Name block = BlockName();
      return Prefetch{block, Below(2) ? Read(block) : Written(block), LoopOf(block), LoopOf(block), Below(3)};
    }
    case 23:
      return Blockize{Loop(), {Fresh("nest")}};
    case 24:
      return TowardsIntrinsic();
    case 25:
      if (Below(3) == 0) return Below(2) ? Step(Annotate{BlockName(), "note", Below(5)}) : Align();
      if (Below(2) == 0) return SetScope{Written(BlockName()), SomeScope(Scope::kRegister)};
      return SampleComputeLocation{BlockName(), {Fresh("at")}};
    case kCases:
      return TowardsPipeline();
    default:
      return SomeBind();
  }
}

Step StepSource::Pending() {
  const Step step = pending_.front();
  pending_.erase(pending_.begin());
  return step;
}

Name StepSource::LoopOf(const Name& block) {
  auto loops = GetLoops(*func_, block);
  return loops.ok() && !loops->empty() ? (*loops)[Below(loops->size())].var : Name("none");
}

Name StepSource::ReductionLoop() {
  std::vector<Name> names;
  for (const Name& block : blocks_) {
    std::vector<LoopInfo> loops = *GetLoops(*func_, block);
    for (const LoopInfo& loop : loops) {
      if (loop.reduce) names.push_back(loop.var);
    }
  }
  return names.empty() || Below(8) == 0 ? Loop() : names[Below(names.size())];
}

Step StepSource::TowardsIntrinsic() {
  Name block = BlockName(), row;
  std::vector<LoopInfo> loops = *GetLoops(*func_, block);
  std::vector<Name> order;
  int64_t extent = 0;
  for (const LoopInfo& loop : loops) {
    if (loop.reduce) order.push_back(loop.var);
    if (loop.spatial) row = loop.var, extent = loop.extent;
  }
  Block found = *GetBlock(*func_, block);
  const Store* store = found.body.As<Store>();
  bool fma = store && store->value.As<Call>();
  if (order.empty() || row.empty() || extent % 4 != 0) return Tensorize{Loop(), fma ? "axpy_fma_f32x8" : "axpy_f32x8"};
  Name inner = row;
  if (extent > 4) {
    inner = Fresh("row");
    pending_.push_back(Split{row, {Factors::kAuto, 4}, {Fresh("rows"), inner}});
  }
  order.push_back(inner);
  pending_.push_back(Reorder{order});
  if (found.init) pending_.push_back(DecomposeReduction{block, order[0]});
  pending_.push_back(Tensorize{inner, fma ? "axpy_fma_f32x4" : "axpy_f32x4", {Fresh("tensor")}});
  return Pending();
}

void StepSource::TowardsTensorCore() {
  for (const Name& name : blocks_) {
    const Block block = *GetBlock(*func_, name);
    const std::vector<LoopInfo> loops = *GetLoops(*func_, name);
    const Store* update = block.body.As<Store>();
    const MmaType* type = update ? MmaTypeOf(*update) : nullptr;
    if (!type || loops.size() != 3 || !block.init || !loops[2].reduce) continue;
    const Name m = Fresh("m"), h = Fresh("h"), y = Fresh("y"), n = Fresh("n"), x = Fresh("x"), p = Fresh("p"),
               k = Fresh("k"), s = Fresh("s"), zero = Fresh("zero"), y0 = Fresh("y"), x0 = Fresh("x"), h0 = Fresh("h"),
               p0 = Fresh("p");
    pending_.push_back(Split{loops[0].var, {Factors::kAuto, 2, 8}, {m, h, y}});
    pending_.push_back(Split{loops[1].var, {Factors::kAuto, 4, 2}, {n, x, p}});
    pending_.push_back(Split{loops[2].var, {Factors::kAuto, type->k()}, {k, s}});
    pending_.push_back(Reorder{{m, n, k, y, x, h, p, s}});
    if (Below(2)) pending_.push_back(PadBlock{name});
    pending_.push_back(DecomposeReduction{name, k, {zero, y0, x0, h0, p0}});
    pending_.push_back(Bind{m, LoopKind::kBlockX});
    for (const Name& loop : {y0, y}) pending_.push_back(Bind{loop, LoopKind::kThreadY});
    for (const Name& loop : {x0, x}) pending_.push_back(Bind{loop, LoopKind::kThreadX});
    pending_.push_back(TensorCore{Below(8) ? h : p});
    return;
  }
}

Step StepSource::TowardsPipeline() {
  const Name block = BlockName();
  const std::vector<LoopInfo> loops = *GetLoops(*func_, block);
  std::vector<Name> spatial;
  Name piece;
  int64_t threads = 0;
  for (const LoopInfo& loop : loops) {
    if (loop.spatial) spatial.push_back(loop.var), threads = loop.extent;
    if (loop.reduce && (piece.empty() || Below(2))) piece = loop.var;
  }
  const Name source = Read(block);
  size_t rank = 0;
  for (const Param& p : func_->params) rank = p.buffer->name == source ? p.buffer->shape.size() : rank;
  for (const Buffer& b : func_->allocs) rank = b->name == source ? b->shape.size() : rank;
  if (piece.empty() || rank == 0 || Below(8) == 0) return autotune::Pipeline{Loop(), Below(10)};
  const Name copy = Fresh("tile"), pieces = Fresh("pieces"), step = Fresh("step"), all = Fresh("all"),
             turns = Fresh("turns"), thread = Fresh("thread");
  const bool bound = spatial.size() > 1 && !HasThreads(func_->body) && Below(4);
  pending_.push_back(Split{piece, {Factors::kAuto, 1 + Below(3)}, {pieces, step}});
  std::vector<Name> order = spatial;
  order.insert(order.end() - (bound ? 1 : 0), pieces);
  if (bound) order.push_back(step);
  if (order.size() > 1) pending_.push_back(Reorder{order});
  std::vector<Name> copied;
  for (size_t d = 0; d < rank; ++d) copied.push_back(copy.str() + "_i" + std::to_string(d));
  pending_.push_back(CacheRead{block, source, Scope::kShared, {copy}});
  pending_.push_back(ComputeAt{copy, pieces, copied});
  pending_.push_back(autotune::Pipeline{pieces, 2 + Below(3)});
  if (bound) {
    if (rank > 1) pending_.push_back(Fuse{copied, {all}});
    pending_.push_back(Split{rank > 1 ? all : copied[0], {Factors::kAuto, threads}, {turns, thread}});
    pending_.push_back(Reorder{{thread, turns}});
    pending_.push_back(Bind{spatial[0], LoopKind::kBlockX});
    pending_.push_back(Bind{thread, LoopKind::kThreadX});
    pending_.push_back(Bind{spatial.back(), LoopKind::kThreadX});
  }
  return Pending();
}

Name StepSource::Read(const Name& block) {
  auto buffers = BuffersReadBy(*func_, block);
  return buffers.ok() && !buffers->empty() ? (*buffers)[Below(buffers->size())]->name : Name("none");
}

Name StepSource::Written(const Name& block) {
  auto buffer = BufferWrittenBy(*func_, block);
  return buffer.ok() ? (*buffer)->name : Name("none");
}

Scope StepSource::SomeScope(Scope otherwise) {
  if (!threads_ || Below(2)) return otherwise;
  return Below(2) ? Scope::kShared : Scope::kLocal;
}

Step StepSource::SomeBind() {
  auto loops = GetLoops(*func_, BlockName());
  if (!loops.ok() || loops->empty()) return Bind{"none"};
  size_t bound = 0;
  while (bound < loops->size() && IsBlockAxis((*loops)[bound].kind)) ++bound;
  auto axis = [](LoopKind first, size_t i) { return static_cast<LoopKind>(static_cast<size_t>(first) + i % 3); };
  if (bound < loops->size() && Below(2)) return Bind{(*loops)[bound].var, axis(LoopKind::kBlockX, bound)};
  const LoopInfo& loop = (*loops)[Below(loops->size())];
  return Bind{loop.var, axis(LoopKind::kThreadX, Below(4) ? 0 : 1)};
}

Factors StepSource::SomeFactors() {
  Factors factors{Factors::kAuto, 1 + Below(7)};
  if (Below(3) == 0) factors.list.push_back(1 + Below(4));
  if (Below(3) == 0) std::swap(factors.list[0], factors.list[1]);
  return factors;
}

std::vector<Name> StepSource::Neighbours(int64_t n) {
  auto loops = GetLoops(*func_, BlockName());
  std::vector<Name> names;
  if (!loops.ok() || loops->empty()) return names;
  for (size_t i = Below(loops->size()); i < loops->size() && static_cast<int64_t>(names.size()) < n; ++i) {
    names.push_back((*loops)[i].var);
  }
  return names;
}

Step StepSource::SampledSplit(const Schedule& schedule) {
  for (auto it = schedule.trace().rbegin(); it != schedule.trace().rend(); ++it) {
    const SampleTile* tile = std::get_if<SampleTile>(&*it);
    if (tile && Below(2)) return Split{tile->loop, Factors(tile->results.names[0])};
    const SampleComputeLocation* at = std::get_if<SampleComputeLocation>(&*it);
    if (at && Below(2)) return ComputeAt{at->block, at->results.names[0]};
    const SampleCategorical* u = std::get_if<SampleCategorical>(&*it);
    if (u && Below(2)) return Split{Loop(), {Factors::kAuto, IntArg(u->results.names[0])}};
  }
  if (Below(4) == 0) return SampleCategorical{{1, 2, 3, 5}, {}, {Fresh("u")}};
  return SampleTile{Loop(), 2 + Below(2), 1 + Below(8), 1 + Below(2), {Fresh("t")}};
}

Step StepSource::Align() {
  Name name = Written(BlockName());
  int64_t rank = 2, factor = 1 + Below(9);
  for (const Buffer& buffer : func_->allocs) {
    if (buffer->name == name || Below(4) == 0) name = buffer->name, rank = buffer->shape.size();
  }
  return StorageAlign{name, Below(std::max<int64_t>(rank - 1, 1)), factor, Below(factor + (Below(8) == 0))};
}

Step StepSource::Layout() {
  Name name = Written(BlockName());
  IndexMap map;
  for (const Buffer& buffer : func_->allocs) {
    if (buffer->name != name) continue;
    int64_t rank = buffer->shape.size(), dim = rank ? Below(rank) : 0, size = 1 + Below(5);
    for (int64_t d = rank; d-- > 0;) map.dims.push_back({d, d == dim ? size : 1, 0});
    if (rank) map.dims.push_back({dim, 1, size});
  }
  return TransformLayout{name, map, static_cast<double>(Below(2))};
}

}  // namespace autotune
