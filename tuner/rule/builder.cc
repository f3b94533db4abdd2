#include "tuner/rule/builder.h"

#include <algorithm>
#include <bit>

#include "costmodel/work.h"

namespace autotune {

std::vector<int64_t> Divisors(int64_t n, int64_t most, int64_t least) {
  std::vector<int64_t> divisors;
  for (int64_t d = least; d <= std::min(n, most); ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  return divisors;
}

int64_t LanesOf(const BlockView& block, const Target& target) {
  const int bits = static_cast<int>(8 * block.lane_bytes);
  return bits < target.vector_bits ? target.VectorLanes(bits) : 1;
}

int64_t LanesInMemory(const BlockView& block, const Target& target) {
  const int64_t lanes = LanesOf(block, target);
  const Store* store = block.node.As<Block>()->body.As<Store>();
  if (block.spatial.empty() || !store) return 1;
  const BlockView::Loop& last = block.spatial.back();
  if (last.iter.empty() || last.extent % lanes != 0) return 1;
  bool fits = true;
  auto look = [&](const Buffer& buffer, const std::vector<Expr>& indices, bool fixed) {
    LinearForm index = FlatIndex(block, buffer, indices);
    const int64_t step = index.Coefficient(last.iter);
    index.Add(IndexVar(last.iter), -step);
    // An operand that is the same for all lanes is loaded as a scalar, and needs no contiguous lanes.
    if (step == 0 && fixed) return;
    fits = fits && step == 1 && CommonFactor(index.ToExpr()) % lanes == 0;
  };
  ForEachOperand(block, [&](const Load& load) { look(load.buffer, load.indices, true); });
  look(store->buffer, store->indices, false);
  return fits ? lanes : 1;
}

int64_t ShortestVector(const BlockView& block) { return std::max<int64_t>(1, 16 / block.lane_bytes); }

int64_t TileLanes(const BlockView& block, int64_t n, const Target& target) {
  const int64_t full = LanesOf(block, target);
  if (n >= full) return full;
  if (n == 1) return 0;
  return std::min(full, std::max(ShortestVector(block), static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)))));
}

namespace {

bool IsParallel(const Nest& nest, Nest::Index loop) { return nest.loops[loop].kind == LoopKind::kParallel; }

// Returns the largest number of iterations of parallel loops around one of the blocks.
int64_t ParallelIterations(const Nest& nest, const std::vector<Name>& blocks) {
  int64_t most = 1;
  for (const Nest::Block& block : nest.blocks) {
    if (std::ranges::find(blocks, block.name) == blocks.end()) continue;
    int64_t iterations = 1;
    for (Nest::Index loop : nest.LoopsOf(block)) {
      if (IsParallel(nest, loop)) iterations *= nest.loops[loop].extent;
    }
    most = std::max(most, iterations);
  }
  return most;
}

}  // namespace

void SketchBuilder::Call(const std::string& part) { name_ += (name_.empty() ? "" : " ") + part; }

int SketchBuilder::AddStage(const StageModel& stage) {
  stages_.push_back(stage);
  return static_cast<int>(stages_.size()) - 1;
}

namespace {

std::vector<Name> PassesOf(const StageModel& stage) {
  std::vector<Name> blocks = stage.passes;
  blocks.push_back(stage.block);
  return blocks;
}

}  // namespace

StageModel SketchBuilder::WithWork(StageModel stage) const {
  const Work work = WorkOf(NestOf(func()), PassesOf(stage));
  stage.operations = work.operations, stage.read_bytes = work.read_bytes, stage.write_bytes = work.write_bytes;
  return stage;
}

int SketchBuilder::AddPasses(StageModel stage) {
  if (!stage.shares_vectors && stage.location_knob < 0)
    stage.outer = ParallelIterations(NestOf(func()), PassesOf(stage));
  return AddStage(WithWork(std::move(stage)));
}

bool SketchBuilder::IsInTask(const Name& block) const {
  const Nest nest = NestOf(func());
  return std::ranges::any_of(nest.blocks, [&](const Nest::Block& other) {
    return other.name == block &&
           std::ranges::any_of(nest.LoopsOf(other), [&](Nest::Index loop) { return IsParallel(nest, loop); });
  });
}

bool SketchBuilder::IsPartial(const std::vector<BlockView>& blocks, const BlockView& block) const {
  std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  return !block.writes_output && !consumers.empty() &&
         std::all_of(consumers.begin(), consumers.end(),
                     [&](const BlockView* c) { return c->reduction && !IsPlaced(c->name); });
}

Result<std::vector<Name>> SketchBuilder::Do(Step step) {
  Rng rng(0);  // any decision is good enough, since Finish removes it
  return schedule_.Apply(std::move(step), &rng);
}

int64_t SketchBuilder::DepthOf(const Name& block, const Name& loop) const {
  const std::vector<BlockView> blocks = Blocks();
  const BlockView* view = FindBlock(blocks, block);
  for (size_t depth = 0; view && depth < view->spatial.size(); ++depth) {
    if (view->spatial[depth].var == loop) return static_cast<int64_t>(depth);
  }
  return -1;
}

Status SketchBuilder::Order(const Loops& loops) {
  if (loops.list.size() < 2) return {};
  TRY(Do(Reorder{.loops = loops.list}));
  return {};
}

Result<Name> SketchBuilder::FuseLoops(const Loops& loops) {
  if (loops.list.empty()) return Name();
  if (loops.list.size() == 1) return loops.list.front();
  return TRY(Do(Fuse{.loops = loops.list})).front();
}

Result<Name> SketchBuilder::Parallel(const Loops& loops) {
  Name fused = TRY(FuseLoops(loops));
  if (!fused.empty()) TRY(Do(autotune::Parallel{.loop = fused}));
  return fused;
}

Result<Name> SketchBuilder::CutReduction(const BlockView& block, const BlockView::Loop& loop, int64_t parts,
                                         const std::string& name) {
  auto [part, rest] = TRY(Split(loop.var, {parts, kAuto}));
  TRY(Order({part, block.spatial}));
  Rfactor step{.loop = part, .axis = 0};
  if (!name.empty()) {
    step.results.names.emplace_back(name);
    for (size_t i = 0; i <= block.spatial.size(); ++i)
      step.results.names.emplace_back(name + "_sum" + std::to_string(i));
  }
  return TRY(Do(std::move(step))).front();
}

Status SketchBuilder::Unroll(const Loops& loops) {
  for (const Name& loop : loops.list) TRY(Do(autotune::Unroll{.loop = loop}));
  return {};
}

Status SketchBuilder::Straighten(const Loops& loops) {
  TRY(Unroll(std::vector<Name>(loops.list.begin(), loops.list.end() - 1)));
  TRY(Do(Vectorize{.loop = loops.list.back()}));
  return {};
}

Result<Choice> SketchBuilder::Sample(Step step, int64_t extent, std::vector<int64_t> candidates) {
  const int knob = static_cast<int>(knobs_.size());
  knobs_.push_back({static_cast<int>(schedule_.trace().size()), extent, std::move(candidates)});
  std::vector<Name> made = TRY(Do(std::move(step)));
  return Choice{made[0], knob};
}

Result<Choice> SketchBuilder::Choose(const std::string& name, std::vector<int64_t> candidates) {
  return Sample(SampleCategorical{.candidates = candidates, .results = {Name(name)}}, 0, candidates);
}

Result<Choice> SketchBuilder::ChooseUnroll(const BlockView::Loop& loop, std::vector<int64_t> candidates) {
  return Choose(loop.var.str() + "_u", std::move(candidates));
}

Result<Choice> SketchBuilder::ChooseLocation(const Name& block, std::vector<int64_t> depths) {
  return Sample(SampleComputeLocation{.block = block}, 0, std::move(depths));
}

Result<Tile> SketchBuilder::ChooseTile(const BlockView::Loop& loop, const TileOptions& options) {
  SampleTile step{
      .loop = loop.var, .n = options.levels, .max_inner = options.max_inner, .multiple_of = options.multiple_of};
  Tile tile{.levels = options.levels};
  tile.sizes = TRY(Sample(std::move(step), loop.extent, {}));
  return tile;
}

Status SketchBuilder::SplitTile(const Name& loop, Tile& tile) {
  std::vector<Name> made = TRY(Do(autotune::Split{.loop = loop, .factors = Factors(tile.sizes.name)}));
  tile.outer = made.front();
  if (made.size() > 2) tile.middle = made[1];
  tile.inner = made.back();
  return {};
}

Status SketchBuilder::SplitUnrolled(const Name& loop, Unrolled& unrolled) {
  auto [outer, inner] = TRY(Split(loop, {kAuto, unrolled.factor}));
  unrolled.outer = outer, unrolled.inner = inner;
  return {};
}

Result<Tile> SketchBuilder::TileLoop(const BlockView::Loop& loop, const TileOptions& options) {
  Tile tile = TRY(ChooseTile(loop, options));
  TRY(SplitTile(loop.var, tile));
  return tile;
}

Result<Unrolled> SketchBuilder::UnrollReduction(const BlockView::Loop& loop, std::vector<int64_t> candidates) {
  Unrolled unrolled;
  unrolled.factor = TRY(ChooseUnroll(loop, std::move(candidates)));
  TRY(SplitUnrolled(loop.var, unrolled));
  return unrolled;
}

std::vector<Prefetch> SketchBuilder::Possible(const std::vector<Prefetch>& wanted) const {
  std::vector<Prefetch> possible;
  for (Prefetch prefetch : wanted) {
    prefetch.ahead = 1;
    Schedule trial = schedule_;
    if (trial.Apply(prefetch).ok()) possible.push_back(prefetch);
  }
  return possible;
}

Result<Choice> SketchBuilder::ChoosePrefetches(const std::string& name, const std::vector<Prefetch>& wanted,
                                               std::vector<int64_t> ahead) {
  std::vector<Prefetch> possible = Possible(wanted);
  if (possible.empty()) return Choice{};
  Choice choice = TRY(Choose(name, std::move(ahead)));
  for (Prefetch& prefetch : possible) {
    prefetch.ahead = choice;
    prefetches_.push_back(prefetch);
  }
  return choice;
}

void SketchBuilder::AddPrefetches(const std::vector<Prefetch>& wanted) {
  for (const Prefetch& prefetch : Possible(wanted)) prefetches_.push_back(prefetch);
}

namespace {

// Returns true if `to` transposes rows: it reads each result of `from` once, and the rows of both are contiguous.
bool MovesRowsOf(const BlockView& to, const BlockView& from) {
  if (to.spatial.empty() || from.spatial.empty() || to.spatial.back().extent != from.spatial.back().extent)
    return false;
  bool moves = Instances(to) == Iterations(from.spatial);
  ForEachOperand(to, [&](const Load& load) {
    if (load.buffer->name != from.writes) return;
    const LinearForm index = FlatIndex(to, load.buffer, load.indices);
    const bool plain =
        std::all_of(load.indices.begin(), load.indices.end(), [](const Expr& e) { return e.As<Var>() || AsInt(e); });
    moves = moves && plain && index.Coefficient(to.spatial.back().iter) == 1 && ReadsOnce(to, index);
  });
  return moves;
}

}  // namespace

// The only consumer becomes the write-back if it is element-wise with loops of the same extents, or if it transposes
// rows. Otherwise adds a copy.
Result<WriteBack> SketchBuilder::MakeWriteBack(const BlockView& block) {
  const std::vector<BlockView> blocks = Blocks();
  const std::vector<const BlockView*> consumers = ConsumersOf(blocks, block);
  auto fuses = [&](const BlockView& to) {
    auto same = [](const BlockView::Loop& a, const BlockView::Loop& b) { return a.extent == b.extent; };
    return !to.reduction && !IsPlaced(to.name) &&
           (std::equal(block.spatial.begin(), block.spatial.end(), to.spatial.begin(), to.spatial.end(), same) ||
            MovesRowsOf(to, block));
  };
  if (consumers.size() == 1 && !block.writes_output && fuses(*consumers[0]))
    return WriteBack{consumers[0]->name, block.writes, consumers[0]->flops};
  auto made = TRY(Do(CacheWrite{.block = block.name, .scope = Scope::kGlobal}));
  return WriteBack{.block = made[1], .registers = made[0]};
}

Status SketchBuilder::ZeroAndStraighten(const Name& block, const Name& below, const Loops& steps, const Loops& tile,
                                        const Name& vector) {
  const bool vectors = !vector.empty();
  if (!below.empty()) {
    std::vector<Name> made = TRY(Do(DecomposeReduction{.block = block, .loop = below}));
    Place(made[0]);
    std::vector<Name> zeros(made.begin() + 1, made.end());
    TRY(vectors && !zeros.empty() ? Straighten(zeros) : Unroll(zeros));
    TRY(Unroll(steps));
  }
  TRY(Unroll(tile));
  if (vectors) TRY(Do(Vectorize{.loop = vector}));
  Place(block);
  return {};
}

Status SketchBuilder::MakeRegisterTile(const BlockView& block, const WriteBack& out, const RegisterTile& tile) {
  Place(out.block);
  if (!tile.at.empty()) {
    std::vector<Name> loops = TRY(Do(ReverseComputeAt{.block = out.block, .loop = tile.at}));
    if (!tile.vector.empty() && !loops.empty()) {
      auto [vectors, lanes] = TRY(Split(loops.back(), {kAuto, tile.lanes}));
      TRY(Do(Vectorize{.loop = lanes}));
      loops.back() = vectors;
      if (tile.vectors_first) std::rotate(loops.begin(), loops.end() - 1, loops.end());
    }
    TRY(Unroll(loops));
    TRY(Do(SetScope{.buffer = out.registers, .scope = Scope::kRegister}));
  }
  return ZeroAndStraighten(block.name, tile.below, tile.steps, tile.tile, tile.vector);
}

Result<Sketch> SketchBuilder::Finish() && {
  for (const Prefetch& prefetch : prefetches_) TRY(Do(prefetch));
  Sketch sketch{.name = name_, .trace = schedule_.trace(), .knobs = std::move(knobs_), .stages = std::move(stages_)};
  for (const Knob& knob : sketch.knobs) DecisionOf(sketch.trace[knob.step])->values.clear();
  return sketch;
}

}  // namespace autotune
