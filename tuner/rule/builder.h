// SketchBuilder: the interface through which sketch rules write a sketch. A rule names the loops of a block by their
// roles and applies schedule steps. Methods combine steps that several rules need. A method that leaves a number to
// the search, such as the size of a tile, also registers the number as a knob of the sketch.
//
// Every method that changes the sketch returns an error if the schedule refuses a step. The rule returns this error,
// and its caller drops the changes (tuner/rule/rule.h). A value type: copy it to try an alternative. Threads may share
// an object only to read it.
#pragma once
#include <array>
#include <set>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/machine.h"
#include "tuner/rule/block_view.h"
#include "tuner/sketch.h"

namespace autotune {

// Limits of a register tile. Fourteen rows of one vector and two operands fill the 16 registers of AVX2. A tile of 14
// rows and 4 vectors is larger than every register file, so larger limits would only add tiles that spill.
inline constexpr int64_t kMaxRows = 14;    // rows of a product
inline constexpr int64_t kMaxVectors = 4;  // vectors of a row or pixel
inline constexpr int64_t kMaxUnroll = 8;   // unrolled steps of a reduction
// Limits of a parallel loop. bench/fork_join.cc measures the cost of a fork.
inline constexpr int64_t kWorthForking = 16384;  // elements below which a fork costs more than it saves
inline constexpr int64_t kTasksPerCore = 8;      // tasks per core that balance the load, but still cost little

// A factor of a split that follows from the extent of the loop and the other factors.
inline constexpr int64_t kAuto = Factors::kAuto;

// A number that the search chooses. Steps refer to it by its name, and the draft score refers to it by its knob.
struct Choice {
  Name name;
  int knob = -1;  // -1: nothing to choose
  operator IntArg() const { return name; }
};

// A loop in tiles of two or three levels.
struct Tile {
  Name outer, middle, inner;  // no middle: two levels
  Choice sizes;
  int levels = 0;
  IntArg Inner() const { return Name(sizes.name.str() + "." + std::to_string(levels - 1)); }  // size of the innermost
};

struct TileOptions {
  int levels = 2;
  int64_t max_inner = 1;
  int64_t multiple_of = 1;  // the innermost level is a multiple of this
};

// A reduction loop that is split into two. `inner` is unrolled and has `factor` iterations.
struct Unrolled {
  Name outer, inner;
  Choice factor;
};

// Loops, outermost first. An empty name stands for a loop that does not exist, and is left out.
struct Loops {
  std::vector<Name> list;
  Loops() = default;
  Loops(const Name& loop) {
    if (!loop.empty()) list.push_back(loop);
  }
  Loops(std::vector<Name> loops) : list(std::move(loops)) {}
  template <size_t N>
  Loops(const std::array<Name, N>& loops) : list(loops.begin(), loops.end()) {}
  Loops(const std::vector<BlockView::Loop>& loops) {
    for (const BlockView::Loop& loop : loops) list.push_back(loop.var);
  }
  Loops(std::initializer_list<Loops> parts) {
    for (const Loops& part : parts) list.insert(list.end(), part.list.begin(), part.list.end());
  }
};

// The write-back of a reduction's register tile: `block` reads the complete sums from the buffer `registers` and stores
// the results.
struct WriteBack {
  Name block, registers;
  double flops = 0;  // operations of one instance; 0: a copy
};

// A register tile, described by the loops around it and in it. Its accumulators are initialised before loop `below`,
// and written back in loop `at`, after the reduction.
struct RegisterTile {
  Name at;      // the innermost loop around the whole tile
  Name below;   // the outermost reduction loop; empty: no reduction
  Loops steps;  // reduction loops that are unrolled
  Loops tile;   // the tile's own loops without the loop over lanes
  Name vector;  // the loop over lanes; empty: scalars
  int64_t lanes = 0;
  // True: the write-back's loop over vectors is unrolled before its loop over rows. This order does not affect the
  // program, but it must stay, since existing records have it in their traces.
  bool vectors_first = false;
};

class SketchBuilder {
 public:
  // The target outlives the builder.
  SketchBuilder(PrimFunc func, const Target& target) : target_(&target), schedule_(std::move(func)) {}

  const PrimFunc& func() const { return schedule_.func(); }
  const Target& target() const { return *target_; }
  const Machine& machine() const { return MachineOf(*target_); }
  std::vector<BlockView> Blocks() const { return ViewBlocks(func()); }

  // A rule calls Place for each block that it has scheduled. No other rule gets a placed block.
  bool IsPlaced(const Name& block) const { return placed_.contains(block); }
  size_t Placed() const { return placed_.size(); }  // number of placed blocks
  void Place(const Name& block) { placed_.insert(block); }
  // `Call` adds the block's part to the name of the sketch, which people read. `AddStage` adds the facts about the
  // block that the draft score needs, and returns the index of the stage.
  void Call(const std::string& part);
  int AddStage(const StageModel& stage);
  // Fills in the arithmetic and the traffic of `stage.block` and `stage.passes`.
  StageModel WithWork(StageModel stage) const;
  // Adds a stage for passes over whole buffers (`stage.block` and `stage.passes`), with their arithmetic and traffic.
  // Also fills in the iterations of the parallel loop around them (`stage.outer`), unless they depend on a decision
  // (`stage.shares_vectors` is true or `stage.location_knob` is set).
  int AddPasses(StageModel stage);
  bool IsInTask(const Name& block) const;  // the block is inside a parallel loop
  const std::vector<StageModel>& stages() const { return stages_; }

  // Returns true if the block computes partial results of a reduction: its readers are all reductions that are not
  // placed yet.
  bool IsPartial(const std::vector<BlockView>& blocks, const BlockView& block) const;

  // ---- Steps --------------------------------------------------------------------------------------------------------
  // Applies a step, and returns the names that it made.
  Result<std::vector<Name>> Do(Step step);
  // Applies a step if the schedule allows it. Returns true if it did.
  bool Try(Step step) { return Do(std::move(step)).ok(); }
  // Calls `steps` with a copy of the builder. Keeps its changes if it succeeds, else drops them all.
  template <class Steps>
  bool TryAll(const Steps& steps) {
    SketchBuilder trial = *this;
    if (!steps(trial).ok()) return false;
    *this = std::move(trial);
    return true;
  }
  // Like Do, for a step that makes N names: auto [buffer, copy] = TRY(s.Make<2>(CacheWrite{...})).
  template <size_t N>
  Result<std::array<Name, N>> Make(Step step) {
    std::vector<Name> made = TRY(Do(std::move(step)));
    if (made.size() != N) return Err("a step made ", made.size(), " names where the rule expects ", N);
    std::array<Name, N> names;
    std::copy(made.begin(), made.end(), names.begin());
    return names;
  }
  // Splits a loop: auto [outer, inner] = TRY(s.Split(loop, {kAuto, 4}))
  template <size_t N>
  Result<std::array<Name, N>> Split(const Name& loop, const IntArg (&factors)[N]) {
    autotune::Split step{.loop = loop};
    step.factors.list.assign(factors, factors + N);
    return Make<N>(std::move(step));
  }
  // Returns the position of `loop` among the spatial loops around the block, outermost 0; -1 if it is not one of them.
  int64_t DepthOf(const Name& block, const Name& loop) const;
  Status Order(const Loops& loops);
  // FuseLoops fuses the loops; Parallel also makes the fused loop parallel. Both return that loop, or an empty name if
  // there are no loops.
  Result<Name> FuseLoops(const Loops& loops);
  Result<Name> Parallel(const Loops& loops);
  Status Unroll(const Loops& loops);
  // Unrolls all loops but the last, which becomes vectors.
  Status Straighten(const Loops& loops);

  // Cuts a reduction loop of the block into `parts`. A new block computes the sum of each part; the index of the part
  // is its first iterator. Behind the loops of the new block, the old block adds up the parts. Returns the new block.
  // `name`: of the new block, and the beginning of the new loops' names. Needed to cut the sum of a block that this
  // method made.
  Result<Name> CutReduction(const BlockView& block, const BlockView::Loop& loop, int64_t parts,
                            const std::string& name = "");

  // ---- Choices ------------------------------------------------------------------------------------------------------
  Result<Choice> Choose(const std::string& name, std::vector<int64_t> candidates);
  // Chooses the unroll factor of a reduction loop. All `candidates` must divide its extent.
  Result<Choice> ChooseUnroll(const BlockView::Loop& loop, std::vector<int64_t> candidates);
  // Chooses where a block is computed, among `depths`. -1: before the loops of its consumers. k >= 0: inside the loop
  // of depth k around all consumers (the outermost has depth 0).
  Result<Choice> ChooseLocation(const Name& block, std::vector<int64_t> depths);
  Result<Tile> ChooseTile(const BlockView::Loop& loop, const TileOptions& options);
  // Splits `loop` into the tile's levels. It is the loop of ChooseTile, which other steps may have renamed since.
  Status SplitTile(const Name& loop, Tile& tile);
  Status SplitUnrolled(const Name& loop, Unrolled& unrolled);
  Result<Tile> TileLoop(const BlockView::Loop& loop, const TileOptions& options);
  Result<Unrolled> UnrollReduction(const BlockView::Loop& loop, std::vector<int64_t> candidates);
  // Adds the prefetches that the schedule allows, and chooses one distance among `ahead` for all of them. Finish
  // applies them, since no other step may follow them. If none is possible, makes no choice (knob -1).
  Result<Choice> ChoosePrefetches(const std::string& name, const std::vector<Prefetch>& wanted,
                                  std::vector<int64_t> ahead);
  // Adds the prefetches that the schedule allows, one iteration ahead, without a choice.
  void AddPrefetches(const std::vector<Prefetch>& wanted);

  // Returns the write-back of the block: its only consumer, if that can be computed in the block's loops. Otherwise
  // adds a block that copies the result, and returns this one.
  Result<WriteBack> MakeWriteBack(const BlockView& block);
  // Moves the write-back into loop `tile.at`, keeps the accumulators in registers, initialises them, unrolls the tile's
  // loops, and vectorizes the loop over lanes. Places both blocks.
  Status MakeRegisterTile(const BlockView& block, const WriteBack& out, const RegisterTile& tile);
  // MakeRegisterTile without the write-back: initialises the accumulators, unrolls, and vectorizes.
  Status ZeroAndStraighten(const Name& block, const Name& below, const Loops& steps, const Loops& tile,
                           const Name& vector);

  // Applies the prefetches and returns the sketch, with all decisions undecided.
  Result<Sketch> Finish() &&;

 private:
  // Returns those of the prefetches that the schedule allows.
  std::vector<Prefetch> Possible(const std::vector<Prefetch>& wanted) const;
  Result<Choice> Sample(Step step, int64_t extent, std::vector<int64_t> candidates);

  const Target* target_;
  Schedule schedule_;
  std::string name_;
  std::vector<Knob> knobs_;
  std::vector<StageModel> stages_;
  std::set<Name> placed_;
  std::vector<Prefetch> prefetches_;
};

// Returns the lanes of a vector of the block's elements; 1 if the target has no vectors.
int64_t LanesOf(const BlockView& block, const Target& target);
// Returns LanesOf if, along the block's last loop, each access is either to whole, aligned vectors in memory or a load
// of one scalar for all lanes. Otherwise returns 1.
int64_t LanesInMemory(const BlockView& block, const Target& target);
// Returns the number of elements in 128 bits, the shortest vector of all targets.
int64_t ShortestVector(const BlockView& block);
// Returns the number of elements of a vector along n columns; 0 (scalars) for a single column. A narrow n gets the
// shortest vector that holds all of it, so that the fewest lanes overshoot.
int64_t TileLanes(const BlockView& block, int64_t n, const Target& target);
// Returns the divisors of n from `least` to `most`, ascending.
std::vector<int64_t> Divisors(int64_t n, int64_t most, int64_t least = 1);

}  // namespace autotune
