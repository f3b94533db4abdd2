#include <algorithm>

#include "support/integer.h"
#include "tuner/rule/rule.h"

namespace autotune {
namespace {

using Loop = BlockView::Loop;

// Candidates for the threads of a block: at least a warp for each part of a compute unit.
const std::vector<int64_t> kThreads = {128, 256, 512};
constexpr int64_t kMostUnrolled = 16;  // most steps of a sum whose loads a thread has in flight [chosen]

// Returns an error unless each point of the block's loops is one instance of a store.
Status CheckPlain(const BlockView& block) {
  const Block* node = block.node.As<Block>();
  if (!node->body.As<Store>() || node->predicate) return Err("the block is a program of its own");
  const auto named = [](const Loop& loop) { return !loop.iter.empty(); };
  if (!std::ranges::all_of(block.spatial, named) || !std::ranges::all_of(block.reduce, named) ||
      node->iters.size() != block.spatial.size() + block.reduce.size())
    return Err("the loops of the block are not its iterators");
  if (block.spatial.empty()) return Err("the block has one result");
  return {};
}

// Returns candidates for the threads of a block. Leaves out numbers of which half would already be enough.
std::vector<int64_t> ThreadsFor(int64_t vectors, const Target& target) {
  std::vector<int64_t> counts = kThreads;
  std::erase_if(counts,
                [&](int64_t n) { return n > kThreads.front() && (n > target.max_threads || n / 2 >= vectors); });
  return counts;
}

// The loops of a sum: those that stay loops, and those that are unrolled.
struct Steps {
  Loops loops, unrolled;
  int64_t depth = 1;  // unrolled steps
};

// Unrolls whole innermost loops, as many as have at most kMostUnrolled steps together, and a part of the next loop.
Result<Steps> UnrollSteps(SketchBuilder& s, const std::vector<Loop>& reduce) {
  Steps steps;
  size_t whole = reduce.size();
  while (whole > 0 && steps.depth * reduce[whole - 1].extent <= kMostUnrolled) steps.depth *= reduce[--whole].extent;
  for (size_t i = 0; i < reduce.size(); ++i) (i < whole ? steps.loops : steps.unrolled).list.push_back(reduce[i].var);
  if (whole == 0) return steps;
  const int64_t part = Divisors(reduce[whole - 1].extent, kMostUnrolled / steps.depth).back();
  if (part == 1) return steps;
  auto [loop, unrolled] = TRY(s.Split(reduce[whole - 1].var, {kAuto, part}));
  steps.loops.list.back() = loop;
  steps.unrolled.list.insert(steps.unrolled.list.begin(), unrolled);
  steps.depth *= part;
  return steps;
}

}  // namespace

// Places a block whose results are independent: element-wise blocks, gathers, pieces of a concatenation, windows that
// slide over each channel alone, short sums, parts of a sum that are added up. Each thread computes one vector of
// results, or one result. With 4 bytes per thread, the threads of a compute unit have too few loads in flight to keep
// memory busy; with 16 bytes, small blocks leave compute units idle. The draft score decides.
//
//   blocks over f_0; threads over f_1; the vectors of all loops together are f
//     registers = 0; steps: lanes: registers += elements
//     the element-wise epilogue
Status GpuElementsRule(SketchBuilder& s, const BlockView& block, int) {
  TRY(CheckPlain(block));
  StageModel model = ElementsModel(block, s.target());
  std::vector<int64_t> widths = {1};
  if (const int64_t lanes = LanesInMemory(block, s.target()); lanes > 1) widths.push_back(lanes);
  const Choice lanes = TRY(s.Choose(block.name.str() + "_lanes", widths));
  const Choice threads =
      TRY(s.Choose(block.name.str() + "_threads", ThreadsFor(Iterations(block.spatial), s.target())));
  const WriteBack out = block.reduction ? TRY(s.MakeWriteBack(block)) : WriteBack();
  if (block.reduction) model.passes = {out.block};
  model = s.WithWork(model);
  auto [vectors, lane] = TRY(s.Split(block.spatial.back().var, {kAuto, lanes}));
  Loops outer(block.spatial);
  outer.list.back() = vectors;
  const Steps steps = TRY(UnrollSteps(s, block.reduce));
  TRY(s.Order({outer, steps.loops, steps.unrolled, lane}));
  if (block.reduction) {
    TRY(s.Straighten(TRY(s.Do(ReverseComputeAt{.block = out.block, .loop = vectors}))));
    s.Place(out.block);
    const Loops all({steps.loops, steps.unrolled});
    TRY(s.ZeroAndStraighten(block.name, all.list.front(), steps.unrolled, {}, lane));
  } else {
    TRY(s.Straighten(lane));
    s.Place(block.name);
  }
  auto [group, thread] = TRY(s.Split(TRY(s.FuseLoops(outer)), {kAuto, threads}));
  TRY(s.Do(Bind{.loop = group, .axis = LoopKind::kBlockX}));
  TRY(s.Do(Bind{.loop = thread, .axis = LoopKind::kThreadX}));
  if (block.reduction) TRY(s.Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
  model.kind = StageModel::kGpuElements;
  model.n_knob = lanes.knob, model.rows_knob = threads.knob, model.depth = steps.depth;
  s.AddStage(model);
  s.Call(block.name.str() + ":gpu_elements");
  return {};
}

}  // namespace autotune
