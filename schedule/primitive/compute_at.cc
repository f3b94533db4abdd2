#include <algorithm>

#include "schedule/region.h"

namespace autotune::schedule {
namespace {

// Returns the values that the block's iterators must take to compute everything that the consumers inside the loop at
// `path` read in one iteration of this loop.
Result<std::vector<Window>> RequiredWindows(const Block& block, const Buffer& buffer, const Path& path,
                                            const std::vector<int64_t>& extents) {
  const For& loop = path.loop();
  Ranges fixed = Concat(path.LoopRanges(), RangesOf({&loop}));
  std::optional<std::vector<Region>> box;
  bool unknown = false;
  ForEachBlock(loop.body, [&](const Block& consumer, const std::vector<const For*>& inner) {
    if (consumer.name == block.name) return;
    auto read = RegionRead(consumer, buffer, RangesOf(inner), fixed);
    if (!read) return;
    unknown |= RangesOf(inner).size() != inner.size();
    if (!box) {
      box = read;
      return;
    }
    for (size_t d = 0; d < box->size(); ++d) {
      std::optional<Region> both = Union((*box)[d], (*read)[d]);
      (*box)[d] = both ? *both : Region{LinearForm(), *AsInt(buffer->shape[d]) - 1};
    }
  });
  if (unknown || !box)
    return Err("nothing inside loop '", loop.var, "' reads block '", block.name, "' in loops of constant extents");
  std::vector<size_t> places = *AsIterators(SingleStore(block)->indices, block);
  std::vector<Window> windows;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    auto dim = std::find(places.begin(), places.end(), i);
    Region region{LinearForm(), extents[i] - 1};
    if (dim != places.end()) region = (*box)[dim - places.begin()];
    windows.push_back(WindowOf(region, extents[i], fixed, true));
  }
  return windows;
}

}  // namespace

// Moves a block to the beginning of a loop's body. Legal for the only writer of an intermediate buffer, which must be
// indexed by the block's spatial iterators. All consumers of the buffer must be inside the loop. The producers of the
// block must be outside the loop and compute everything that the block then reads. Each iteration computes all elements
// that its consumers need, so several iterations may compute the same element.
Status ApplyStep(State& state, ComputeAt& step) {
  Name target = step.loop;
  bool at_root = false;
  for (const auto& [name, loop] : state.locations) {
    if (name != step.loop) continue;
    target = loop;
    at_root = loop.empty();
  }
  Path from = TRY(FindBlock(state.func.body, step.block));
  Block block = from.block();
  std::vector<int64_t> extents = TRY(ConstExtents(block.iters, block.name));
  Buffer buffer = TRY(WrittenBuffer(block));
  if (WritersOf(state.func.body, buffer->name).size() != 1) {
    return Err("buffer '", buffer->name, "' has several writers; apply compute_at before decompose_reduction");
  }
  std::vector<Window> windows;
  for (int64_t extent : extents) windows.push_back({LinearForm(), extent});

  if (at_root) {
    std::vector<Stmt> roots = RootStmts(state.func.body);
    size_t place = RootIndexOf(roots, block.name);
    size_t blocks = 0;
    ForEachBlock(roots[place], [&](const Block&, const auto&) { ++blocks; });
    if (blocks != 1)
      return Err("block '", block.name, "' shares its loops with other blocks, so it cannot get new loops at the root");
    roots[place] = MakeSeq({});
    state.func.body = MakeSeq(roots);
    step.results = TRY(ResultNames(step.results.names, LoopNames(block.name, windows.size())));
    TRY(CheckNewVars(state.func, step.results.names));
    roots[place] = NestOver(block, windows, step.results.names, {});
    state.func.body = MakeSeq(std::move(roots));
    return CheckSourcesCover(state, block.name);
  }

  TRY(FindLoop(state.func.body, target));
  if (!IsAlloc(state.func, buffer->name)) {
    return Err("block '", block.name, "' writes the output '", buffer->name, "', so it cannot move into a loop");
  }
  const Store* store = SingleStore(block);
  std::optional<std::vector<size_t>> places = store ? AsIterators(store->indices, block) : std::nullopt;
  size_t spatial = std::count_if(block.iters.begin(), block.iters.end(),
                                 [](const Iter& iter) { return iter.kind == IterKind::kSpatial; });
  if (!places || places->size() != spatial) {
    return Err("block '", block.name, "' must be one store whose indices are its spatial iterators");
  }
  std::vector<Name> readers = ReadersOf(state.func.body, buffer->name);
  if (readers.empty()) return Err("nothing reads block '", block.name, "'");

  state.func.body = ReplaceTarget(from, MakeSeq({}));
  Result<Path> found = FindLoop(state.func.body, target);
  if (!found.ok()) return Err("loop '", target, "' contains no other block than '", block.name, "'");
  const Path& path = *found;
  for (const Name& reader : readers) {
    if (!ContainsBlock(path.target(), reader)) {
      return Err("consumer '", reader, "' of block '", block.name, "' is not inside loop '", target, "'");
    }
  }
  for (const Name& source : BuffersRead(block)) {
    for (const Name& writer : WritersOf(path.target(), source)) {
      return Err("block '", block.name, "' also needs block '", writer, "', which is inside loop '", target,
                 "' too; move '", block.name, "' before it");
    }
  }
  if (path.loop().kind == LoopKind::kVectorized) return Err("loop '", target, "' is vectorized");
  windows = TRY(RequiredWindows(block, buffer, path, extents));
  step.results = TRY(ResultNames(step.results.names, LoopNames(block.name, windows.size())));
  TRY(CheckNewVars(state.func, step.results.names));
  Ranges fixed = Concat(path.LoopRanges(), RangesOf({&path.loop()}));
  Stmt nest = NestOver(block, windows, step.results.names, fixed);
  state.func.body = ReplaceTarget(path, WithBody(path.loop(), MakeSeq({std::move(nest), path.loop().body})));
  // The windows may contain elements that no consumer reads and that the block did not compute in its old place. The
  // buffers that the block reads must cover these elements, too.
  TRY(CheckSourcesCover(state, block.name));
  TRY(CheckStillIndependent(state, block.name));
  return CheckSourcesIndependent(state, block);
}

}  // namespace autotune::schedule
